//! The address and the key of a model: a key goes only to the address that its own layer or the catalogue names for it.

use looptree::ModelConfig;
use looptree::model::key_variable;
use looptree::providers::catalogue;

use crate::settings::{Layer, Set, Settings, Sourced};

/// Where the requests of a model go and which variable has their key.
#[derive(Debug, Default)]
pub(super) struct Endpoint {
    /// The address of the settings; `None` for the one of the catalogue or of the model's description.
    pub(super) base_url: Option<Set<String>>,
    /// The variable of the settings; `None` for the provider's usual one.
    pub(super) key_variable: Option<Set<String>>,
    /// The context window of the settings; `None` for the one of the catalogue.
    pub(super) context_window: Option<u32>,
    /// What of the settings belongs to another model or address and is not used.
    pub(super) notes: Vec<String>,
}

/// The position of a layer: a higher one is stronger.
type Position = usize;

impl Endpoint {
    /// Returns the endpoint of the model of this provider that the layer at `named` names; `None` if no layer names a model. An address
    /// applies to the model of its own layer, to another one of the same provider, and to one that a weaker layer names. A variable
    /// applies to the address of its own layer or of a weaker one, and without an address as an address does.
    pub(super) fn find(settings: &Settings, named: Option<Position>, provider: &str) -> Self {
        let layers = settings.layers();
        let mut this = Self::default();
        if let Some((at, source, tokens)) = last(layers, |layer| layer.context_window)
            && applies(at, source, named, provider, true)
        {
            this.context_window = Some(tokens);
        }
        let url = last(layers, |layer| layer.base_url.as_ref());
        let mut address = None;
        if let Some((at, source, url)) = url {
            if applies(at, source, named, provider, key_variable(provider).is_none()) {
                this.base_url = Some(Set { value: url.clone(), origin: source.origin.clone() });
                address = Some(at);
            } else {
                this.notes.push(unused("base_url", source, provider));
            }
        }
        if let Some((at, source, variable)) = last(layers, |layer| layer.api_key_env.as_ref()) {
            let fits = match address {
                Some(address) => at >= address,
                // The variable of a layer with an address is for that address.
                None => source.layer.get().base_url.is_none() && applies(at, source, named, provider, false),
            };
            if fits {
                this.key_variable = Some(Set { value: variable.clone(), origin: source.origin.clone() });
            } else {
                this.notes.push(unused("api_key_env", source, provider));
            }
        }
        this
    }
}

/// Returns the strongest layer that sets a value.
pub(super) fn last<'a, T: 'a>(
    layers: &'a [Sourced],
    read: impl Fn(&'a Layer) -> Option<T>,
) -> Option<(Position, &'a Sourced, T)> {
    let all = layers.iter().enumerate().rev();
    all.filter_map(|(at, source)| Some((at, source, read(source.layer.get())?))).next()
}

fn applies(at: Position, source: &Sourced, named: Option<Position>, provider: &str, is_open: bool) -> bool {
    let Some(named) = named else { return false };
    match &source.layer.get().model {
        _ if at >= named => true,
        Some(model) => provider_of(model) == provider,
        // The layer does not say which provider it means. Where there is no key, none can reach the wrong one.
        None => is_open,
    }
}

/// Returns the provider that the model of a setting has.
fn provider_of(text: &str) -> String {
    let described = || serde_json::from_str::<ModelConfig>(text).map(|model| model.provider).ok();
    let named = || catalogue::named(text).map(|model| model.provider).ok();
    let provider = if text.trim_start().starts_with('{') { described() } else { named() };
    provider.unwrap_or_else(|| "local".to_owned())
}

fn unused(key: &str, source: &Sourced, provider: &str) -> String {
    let flag = format!("--{}", key.replace('_', "-"));
    format!(
        "{key} of {} is not used: it belongs to another model than the one of {provider}; {flag} sets one for this run",
        source.origin
    )
}

#[cfg(test)]
mod tests;
