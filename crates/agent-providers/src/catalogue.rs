//! What is known of common models: window, limits, abilities, prices. Data with a date and a source, nothing more.
//!
//! The data is a help, not a gate: a model that is not here works, with the limits that its configuration says. Facts
//! age; each carries the date on which it was read and where. Yours can be laid over them.
//!
//! The window of a model on one's own machine is the one that its server is commonly run with, not the largest that
//! the model could have: that would fill the memory. A price that depends on the time of day, or that is not
//! published in dollars, is left out.
//!
//! ```
//! use agent_core::ModelConfig;
//! use agent_providers::catalogue::{self, Catalogue};
//! let model = catalogue::configure(ModelConfig::anthropic("claude-sonnet-4-6", "Sonnet", "key"));
//! assert_eq!(model.context_window, 1_000_000);
//!
//! let mine = Catalogue::from_json(r#"[{
//!     "provider": "anthropic", "id": "claude-sonnet-4-6", "name": "Ours", "api": "anthropic_messages",
//!     "contextWindow": 200000, "maxTokens": 64000, "asOf": "2026-11-21", "source": "our contract"
//! }]"#)?;
//! let both = Catalogue::builtin().with(mine);
//! assert_eq!(both.find("anthropic", "claude-sonnet-4-6").map(|f| f.context_window), Some(200_000));
//! # Ok::<(), agent_providers::catalogue::CatalogueError>(())
//! ```

mod facts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use agent_core::ModelConfig;

pub use facts::{ModelFacts, ThinkingOff};

/// The data of this version.
const BUILTIN: &str = include_str!("catalogue/models.json");

/// A list of models could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The text is not a JSON list of models.
    #[error(
        "the list of models cannot be read: {0}; it is a JSON array of objects with the fields of ModelFacts"
    )]
    Json(#[from] serde_json::Error),
}

/// A list of models. A later entry for the same provider and id wins over an earlier one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    models: Vec<ModelFacts>,
    /// Where in `models` those of a provider are. A model is looked up whenever an agent is made, and most of what is
    /// here is of other providers.
    of_provider: BTreeMap<String, Vec<usize>>,
}

impl Catalogue {
    /// The models that this version knows.
    #[must_use]
    pub fn builtin() -> &'static Self {
        static PARSED: OnceLock<Catalogue> = OnceLock::new();
        // A test reads the file; a build whose file could not be read would know no models and still work.
        PARSED.get_or_init(|| Self::from_json(BUILTIN).unwrap_or_default())
    }

    /// A list from JSON: an array of [`ModelFacts`].
    ///
    /// # Errors
    /// When the text is not such an array.
    pub fn from_json(text: &str) -> Result<Self, CatalogueError> {
        Ok(Self::of(serde_json::from_str(text)?))
    }

    fn of(models: Vec<ModelFacts>) -> Self {
        let mut of_provider = BTreeMap::<String, Vec<usize>>::new();
        for (at, model) in models.iter().enumerate() {
            of_provider.entry(model.provider.clone()).or_default().push(at);
        }
        Self { models, of_provider }
    }

    /// Both lists; where both know a model, `over` wins.
    #[must_use]
    pub fn with(&self, over: Self) -> Self {
        let mut models = self.models.clone();
        models.extend(over.models);
        Self::of(models)
    }

    /// All entries, in their order.
    #[must_use]
    pub fn models(&self) -> &[ModelFacts] {
        &self.models
    }

    /// What is known of a model. An id that is not here is looked for without its date, its `-latest` or its tag; the
    /// longest match counts.
    #[must_use]
    pub fn find(&self, provider: &str, id: &str) -> Option<&ModelFacts> {
        let places = self.of_provider.get(provider)?;
        let of_provider = || places.iter().filter_map(|at| self.models.get(*at));
        let named = |id: &str| of_provider().rfind(|m| m.id == id);
        let id = if provider == "bedrock" && named(id).is_none() { without_profile(id) } else { id };
        named(id)
            .or_else(|| of_provider().filter(|m| is_variant(&m.id, id, provider)).max_by_key(|m| m.id.len()))
    }

    /// The model with what is known of it filled in: window, limits, abilities, prices. A model that is not here is
    /// given back as it came. What you set afterwards wins.
    #[must_use]
    pub fn configure(&self, model: ModelConfig) -> ModelConfig {
        match self.find(&model.provider, &model.id) {
            Some(facts) => facts.apply(model),
            None => model,
        }
    }
}

/// What this version knows of a model; see [`Catalogue::find`].
#[must_use]
pub fn find(provider: &str, id: &str) -> Option<&'static ModelFacts> {
    Catalogue::builtin().find(provider, id)
}

/// The models that this version knows.
#[must_use]
pub fn models() -> &'static [ModelFacts] {
    Catalogue::builtin().models()
}

/// A model with what this version knows of it filled in; see [`Catalogue::configure`].
#[must_use]
pub fn configure(model: ModelConfig) -> ModelConfig {
    Catalogue::builtin().configure(model)
}

/// A model's id on Bedrock without what stands around it: an ARN, the region of an inference profile before it
/// (`us.`, `global.`), and its version behind it (`-v1:0`).
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

/// Whether `id` is `base` with a date, `-latest` or a tag behind it. The tags of a local server go on with
/// quantisations.
fn is_variant(base: &str, id: &str, provider: &str) -> bool {
    let Some(rest) = id.strip_prefix(base) else { return false };
    match rest.strip_prefix('-') {
        Some(_) if provider == "ollama" && base.contains(':') => true,
        Some(tail) => tail == "latest" || is_date(tail),
        None => rest.starts_with([':', '@']),
    }
}

/// `20251001`, `2025-10-01`, `0905` or `2512`.
fn is_date(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits >= 4 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}
