//! Facts about common models: context window, limits, capabilities and prices, each with its date and source.
//!
//! The catalogue supplies defaults and restricts nothing: a model without an entry works, and what its configuration does
//! not state about it is unknown. Facts become outdated, so every entry has the date on which it was read, and [`Catalogue::with`]
//! overrides entries with your own.
//!
//! For local models the context window is the one that servers commonly configure, because the model's maximum would fill
//! the memory. Prices that depend on the time of day or are not published in US dollars are omitted.
//!
//! ```
//! use agent_core::ModelConfig;
//! use agent_providers::catalogue::{self, Catalogue};
//! let model = catalogue::configure(ModelConfig::anthropic("claude-sonnet-4-6", "Sonnet", "key"));
//! assert_eq!(model.context_window, Some(1_000_000));
//!
//! let mine = Catalogue::from_json(r#"[{
//!     "provider": "anthropic", "id": "claude-sonnet-4-6", "name": "Ours", "api": "anthropic_messages",
//!     "contextWindow": 200000, "maxTokens": 64000, "asOf": "2026-11-21", "source": "our contract"
//! }]"#)?;
//! let both = Catalogue::builtin().with(mine);
//! assert_eq!(both.find("anthropic", "claude-sonnet-4-6").and_then(|f| f.context_window), Some(200_000));
//! # Ok::<(), agent_providers::catalogue::CatalogueError>(())
//! ```

mod complete;
mod facts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use agent_core::model::InvalidModelName;
use agent_core::{ApiProtocol, ModelConfig};

pub use facts::{ModelFacts, ThinkingOff};

/// The built-in entries.
const BUILTIN: &str = include_str!("catalogue/models.json");

/// The error of [`Catalogue::from_json`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The text is not a JSON list of models.
    #[error(
        "the list of models cannot be read: {0}; it is a JSON array of objects with the fields of ModelFacts"
    )]
    Json(#[from] serde_json::Error),
}

/// A list of models. A later entry replaces an earlier one with the same provider and id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    models: Vec<ModelFacts>,
    /// The positions in `models` of each provider's entries. Creating an agent looks up its model, so the lookup must not
    /// search the entries of all providers.
    of_provider: BTreeMap<String, Vec<usize>>,
}

impl Catalogue {
    /// Returns the built-in entries of this version.
    #[must_use]
    pub fn builtin() -> &'static Self {
        static PARSED: OnceLock<Catalogue> = OnceLock::new();
        // A test parses the file, so the fallback to an empty catalogue never applies in a released build.
        PARSED.get_or_init(|| Self::from_json(BUILTIN).unwrap_or_default())
    }

    /// Parses a JSON array of [`ModelFacts`].
    ///
    /// # Errors
    /// Returns [`CatalogueError::Json`] if the text is not such an array.
    pub fn from_json(text: &str) -> Result<Self, CatalogueError> {
        Ok(Self::of(serde_json::from_str(text)?))
    }

    /// Creates a catalogue of these entries, for example of those that `models::list` returned.
    #[must_use]
    pub fn from_models(models: Vec<ModelFacts>) -> Self {
        Self::of(models)
    }

    fn of(models: Vec<ModelFacts>) -> Self {
        let mut of_provider = BTreeMap::<String, Vec<usize>>::new();
        for (at, model) in models.iter().enumerate() {
            of_provider.entry(model.provider.clone()).or_default().push(at);
        }
        Self { models, of_provider }
    }

    /// Returns both lists as one. If both have an entry for a model, the entry of `over` is used.
    #[must_use]
    pub fn with(&self, over: Self) -> Self {
        let mut models = self.models.clone();
        models.extend(over.models);
        Self::of(models)
    }

    /// Returns all entries in their order, including those that later entries replace.
    #[must_use]
    pub fn models(&self) -> &[ModelFacts] {
        &self.models
    }

    /// Returns the entry of a model. If no entry has this id, the id is matched without its date, `-latest` or tag, and the
    /// longest matching entry is returned. A Claude model on Vertex AI without an entry has that of Anthropic's own API.
    #[must_use]
    pub fn find(&self, provider: &str, id: &str) -> Option<&ModelFacts> {
        let vendor = (provider == ApiProtocol::AnthropicVertex.provider_id()).then_some("anthropic");
        self.find_own(provider, id).or_else(|| self.find_own(vendor?, id))
    }

    fn find_own(&self, provider: &str, id: &str) -> Option<&ModelFacts> {
        let places = self.of_provider.get(provider)?;
        let of_provider = || places.iter().filter_map(|at| self.models.get(*at));
        let named = |id: &str| of_provider().rfind(|m| m.id == id);
        let id = if provider == "bedrock" && named(id).is_none() { without_profile(id) } else { id };
        named(id)
            .or_else(|| of_provider().filter(|m| is_variant(&m.id, id, provider)).max_by_key(|m| m.id.len()))
    }

    /// Returns `model` with context window, limits, capabilities and prices from its entry, or unchanged if it has none.
    /// Settings made before are overwritten, so call this first.
    #[must_use]
    pub fn configure(&self, model: ModelConfig) -> ModelConfig {
        match self.find(&model.provider, &model.id) {
            Some(facts) => facts.apply(model),
            None => model,
        }
    }
}

/// Returns the built-in entry of a model; see [`Catalogue::find`].
#[must_use]
pub fn find(provider: &str, id: &str) -> Option<&'static ModelFacts> {
    Catalogue::builtin().find(provider, id)
}

/// Returns all built-in entries.
#[must_use]
pub fn models() -> &'static [ModelFacts] {
    Catalogue::builtin().models()
}

/// Returns `model` with the facts of its built-in entry that the caller has not set: settings that were not changed by a
/// method and still have the default of the model's constructor. Returns `None` if nothing changes.
#[must_use]
pub fn complete(model: &ModelConfig) -> Option<ModelConfig> {
    complete::completed(find(&model.provider, &model.id)?, model)
}

/// Returns the model that a string such as `openai/gpt-6.2-sol` names, with the protocol and the facts of its built-in entry.
/// A model without an entry has the provider's usual protocol; see [`ModelConfig::from_str`](std::str::FromStr).
///
/// # Errors
/// Returns [`InvalidModelName`] if the text does not name a known provider and a model.
pub fn named(text: &str) -> Result<ModelConfig, InvalidModelName> {
    let mut model: ModelConfig = text.parse()?;
    if let Some(facts) = find(&model.provider, &model.id) {
        // The provider `openai_responses` names the protocol itself.
        if !text.trim_start().starts_with("openai_responses/") {
            model.api = facts.api;
        }
        model = facts.apply(model);
    }
    Ok(model)
}

/// Returns a model with the settings of its built-in entry; see [`Catalogue::configure`].
#[must_use]
pub fn configure(model: ModelConfig) -> ModelConfig {
    Catalogue::builtin().configure(model)
}

/// Returns a Bedrock model id without an ARN prefix, the region of an inference profile (`us.`, `global.`) and the version
/// suffix (`-v1:0`).
fn without_profile(id: &str) -> &str {
    const REGIONS: &[&str] = &["us", "us-gov", "eu", "apac", "ap", "au", "ca", "jp", "sa", "global"];
    let id = id.rsplit('/').next().unwrap_or(id);
    let id = match id.split_once('.') {
        Some((region, rest)) if REGIONS.contains(&region) => rest,
        _ => id,
    };
    match id.rfind("-v") {
        Some(at) => {
            let (name, version) = id.split_at(at);
            let digits = version.get(2..).unwrap_or_default();
            let is_version = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b':');
            if is_version { name } else { id }
        }
        None => id,
    }
}

/// Returns whether `id` is `base` followed by a date, `-latest` or a tag. Tags of local servers may continue with the name
/// of a quantisation.
fn is_variant(base: &str, id: &str, provider: &str) -> bool {
    let Some(rest) = id.strip_prefix(base) else { return false };
    match rest.strip_prefix('-') {
        Some(_) if provider == "ollama" && base.contains(':') => true,
        Some(tail) => tail == "latest" || is_date(tail),
        None => rest.starts_with([':', '@']),
    }
}

/// Returns whether `text` is a date such as `20251001`, `2025-10-01`, `0905` or `2512`.
fn is_date(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits >= 4 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}
