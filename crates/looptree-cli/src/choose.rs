//! Which model: the settings, keys in the environment, an Ollama server, else none.

mod clouds;
mod endpoint;
mod suggested;

use anyhow::Result;
use looptree::ModelConfig;
use looptree::model::{Secret, key_variable};
use looptree::providers::{ProviderRegistry, catalogue};

use crate::exit::usage;
use crate::ollama_server;
use crate::settings::{Origin, Set, Settings};
use crate::stored_keys::{self, Stored};
use endpoint::Endpoint;

/// The models that are used if only a key is set, in this order.
const USUAL: &[&str] = &[
    "anthropic/claude-sonnet-5-5",
    "openai/gpt-6.2-sol",
    "google/gemini-3.1-pro-preview",
    "openrouter/anthropic/claude-sonnet-5.5",
    "groq/openai/gpt-oss-120b",
    "xai/grok-4.3",
    "deepseek/deepseek-v4-pro",
    "mistral/devstral-2512",
];

/// A model and where its name comes from.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) model: ModelConfig,
    pub(crate) origin: Origin,
    /// Where the address comes from.
    pub(crate) address: Origin,
    /// Where the key comes from; `None` without one.
    pub(crate) key: Option<Origin>,
    /// Messages for the user about settings that are not used.
    pub(crate) notes: Vec<String>,
}

/// What the settings lead to.
#[derive(Debug)]
pub(crate) enum Choice {
    Model(Box<Chosen>),
    /// There is no model; `ignored` says why that of the project is not used.
    Nothing {
        ignored: Option<String>,
    },
}

impl Choice {
    /// Returns the model, or an error with the ways to one.
    pub(crate) fn into_model(self) -> Result<Chosen> {
        match self {
            Self::Model(chosen) => Ok(*chosen),
            Self::Nothing { ignored: None } => Err(no_model()),
            Self::Nothing { ignored: Some(note) } => Err(usage(format!("{note}. {}", no_model()))),
        }
    }
}

/// Returns the model of the settings, or the first one that can be used.
pub(crate) async fn choose(settings: &Settings) -> Result<Choice> {
    let own = choose_own(settings).await?;
    let Some(suggestion) = settings.suggested_model() else {
        return Ok(own.map_or(Choice::Nothing { ignored: None }, |own| Choice::Model(Box::new(own))));
    };
    let name = &suggestion.value;
    match (suggested::resolve(name, own.as_ref(), settings), own) {
        (Ok(mut chosen), _) => {
            chosen.origin = suggestion.origin.clone();
            Ok(Choice::Model(Box::new(chosen)))
        }
        (Err(why), Some(mut own)) => {
            own.notes.push(unused(name, &suggestion.origin, &why));
            Ok(Choice::Model(Box::new(own)))
        }
        (Err(why), None) => Ok(Choice::Nothing { ignored: Some(unused(name, &suggestion.origin, &why)) }),
    }
}

fn unused(name: &str, origin: &Origin, why: &str) -> String {
    format!(
        "ignored in {origin}: model = {name:?}: {why}. A project can select a model where you have the address and the key; \
         `looptree --trust-project` uses it for one run"
    )
}

/// Returns the model that is used without a project.
async fn choose_own(settings: &Settings) -> Result<Option<Chosen>> {
    if settings.model.value.is_some() {
        return by_settings(settings).map(Some);
    }
    if settings.base_url.value.is_some() {
        return Err(usage("which model does the server have? Name it with --model local/NAME"));
    }
    for name in USUAL {
        let provider = name.split('/').next().unwrap_or_default();
        if access(provider) == Access::Key {
            return configured(name, None, settings).map(Some);
        }
    }
    let Some(server) = ollama_server::find().await else { return Ok(None) };
    let model = server.best_model();
    let model = model.map(|id| catalogue::configure(ModelConfig::ollama(id).with_base_url(server.url)));
    let address = ollama_address();
    let chosen = |model| Chosen { model, origin: Origin::Default, address, key: None, notes: Vec::new() };
    model.map(|model| priced(model, settings.context_window.value, settings).map(chosen)).transpose()
}

/// Returns the model that the settings name, with its key.
pub(crate) fn by_settings(settings: &Settings) -> Result<Chosen> {
    match endpoint::last(settings.layers(), |layer| layer.model.as_deref()) {
        Some((at, _, text)) => configured(text, Some(at), settings),
        None => Err(no_model()),
    }
}

/// Returns the model that a text names, with its address and its key. `named` is the position of the layer that names it.
fn configured(text: &str, named: Option<usize>, settings: &Settings) -> Result<Chosen> {
    if text.chars().any(char::is_control) {
        return Err(usage(format!("the name of the model has control characters: {}", text.escape_debug())));
    }
    let is_object = text.trim_start().starts_with('{');
    let model = match catalogue::named(text) {
        _ if is_object => described_by(text)?,
        Ok(model) => model,
        // A plain id, or one with a slash that is no provider's and comes with an address: a model of the server that is named.
        Err(_) if is_at_server(text, named, settings) => {
            catalogue::named(&format!("local/{text}")).map_err(|e| usage(e.to_string()))?
        }
        Err(error) => return Err(usage(error.to_string())),
    };
    let Endpoint { base_url: url, key_variable: variable, context_window, notes } =
        Endpoint::find(settings, named, &model.provider);
    if is_object && (url.is_some() || variable.is_some()) {
        check_object(text, url.is_some(), variable.is_some())?;
    }
    let origin =
        named.and_then(|at| Some(settings.layers().get(at)?.origin.clone())).unwrap_or(Origin::Default);
    let mut address = if model.base_url.is_some() && is_object { origin.clone() } else { Origin::Default };
    let had_address = model.base_url.is_some();
    let mut model = clouds::located(model, environment);
    if !had_address && model.base_url.is_some() {
        address = Origin::Environment(clouds::AZURE_ADDRESS.to_owned());
    }
    if let Some(Set { value, origin }) = &url {
        model = model.with_base_url(value);
        address = origin.clone();
    } else if model.provider == "local" && model.base_url.is_none() {
        return Err(usage(format!("{text} wants --base-url, for example http://localhost:8080/v1")));
    } else if model.provider == "ollama"
        && !is_object
        && let Some(server) = ollama_server::configured()
    {
        model = model.with_base_url(format!("http://{server}"));
        address = ollama_address();
    }
    if !ProviderRegistry::default().serves(model.api) {
        return Err(usage(format!(
            "this build of looptree has no protocol {} for {}/{}; build one that has it: \
             cargo install --path crates/looptree-cli --features clouds",
            model.api, model.provider, model.id
        )));
    }
    if let Some(variable) = &variable {
        model = model.with_key_from(&variable.value);
    } else if model.provider == "local" && environment("LOCAL_API_KEY").is_some() {
        model = model.with_key_from("LOCAL_API_KEY");
    }
    let named_key = model.api_key_env.clone();
    let mut model = model.with_secrets(environment).map_err(|e| usage(e.to_string()))?;
    let found = key_of(&model, named_key.as_deref());
    model.api_key = found.key;
    match key_variable(&model.provider) {
        // A server with an explicit address may need no key.
        Some(variable)
            if model.api_key.is_none() && url.is_none() && !clouds::finds_credentials(model.api) =>
        {
            Err(usage(format!(
                "{variable} is not set, and {text} wants a key: export {variable}=..., or name another variable with --api-key-env{}",
                found.why_not
            )))
        }
        _ => Ok(Chosen {
            model: priced(model, context_window, settings)?,
            origin,
            address,
            key: found.origin,
            notes,
        }),
    }
}

fn ollama_address() -> Origin {
    match ollama_server::configured() {
        Some(_) => Origin::Environment("OLLAMA_HOST".to_owned()),
        None => Origin::Default,
    }
}

/// Returns whether a text that names no known provider names a model of the server whose address is set.
fn is_at_server(text: &str, named: Option<usize>, settings: &Settings) -> bool {
    let address = endpoint::last(settings.layers(), |layer| layer.base_url.as_ref());
    address.is_some_and(|(at, ..)| !text.contains('/') || named.is_some_and(|named| at >= named))
}

/// Refuses a second address or key beside a description that has its own: the key of one could go to the other.
fn check_object(text: &str, has_url: bool, has_variable: bool) -> Result<()> {
    let object: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let has = |key: &&str| object.get(key).is_some();
    let own = ["base_url", "api_key_env", "headers"].iter().find(|key| has(key));
    let Some(own) = own.filter(|own| has_url || (has_variable && **own != "base_url")) else { return Ok(()) };
    let flag = if has_url { "--base-url" } else { "--api-key-env" };
    Err(usage(format!(
        "the model is described with {own}, and {flag} names another one; change the description instead"
    )))
}

/// A key and where it was found, or why there is none.
#[derive(Default)]
struct FoundKey {
    key: Option<Secret>,
    origin: Option<Origin>,
    why_not: String,
}

/// Returns the key of a model: the one that it has, the one of the provider's usual variable, or the one of the keyring. `named` is the
/// variable that the settings name.
fn key_of(model: &ModelConfig, named: Option<&str>) -> FoundKey {
    let usual = key_variable(&model.provider);
    let found = |key: Secret, name: &str| FoundKey {
        key: Some(key),
        origin: Some(Origin::Environment(name.to_owned())),
        why_not: String::new(),
    };
    if let Some(key) = &model.api_key {
        return found(key.clone(), named.or(usual).unwrap_or_default());
    }
    if let Some((name, key)) = usual.and_then(|name| Some((name, environment(name)?))) {
        return found(Secret::new(key.trim()), name);
    }
    match stored_keys::key(&model.provider) {
        Stored::Key(key) => FoundKey { key: Some(key), origin: Some(Origin::Keyring), ..FoundKey::default() },
        Stored::Nothing => FoundKey::default(),
        Stored::Unreadable(reason) => FoundKey { why_not: format!(" ({reason})"), ..FoundKey::default() },
    }
}

/// Reads a model with further settings from a JSON object.
fn described_by(text: &str) -> Result<ModelConfig> {
    let model = serde_json::from_str(text).map_err(|error| {
        usage(format!("the model is no name and no JSON description of a model: {error}"))
    })?;
    Ok(catalogue::configure(model))
}

/// Returns the model with the prices and the context window of the settings.
fn priced(model: ModelConfig, context_window: Option<u32>, settings: &Settings) -> Result<ModelConfig> {
    let mut model = match &settings.prices.value {
        Some(prices) => prices.apply(model),
        None => model,
    };
    model.context_window = context_window.or(model.context_window);
    within_budget(&model, settings)?;
    Ok(model)
}

/// Refuses a budget of money for a model whose prices are not known.
fn within_budget(model: &ModelConfig, settings: &Settings) -> Result<()> {
    if settings.budget.value.is_some() && !model.cost.is_known() {
        let name = format!("{}/{}", model.provider, model.id);
        return Err(usage(format!(
            "the budget limits money, and the prices of {name} are not known. Set them with --price INPUT,OUTPUT in dollars \
             per million tokens (0 for a free model), or in the configuration file under [prices]: {name:?} = \"0.20,0.60\"; \
             or limit tokens instead with --max-tokens-total"
        )));
    }
    Ok(())
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// What the user has to call a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Key,
    /// The provider needs no key, such as a server on this machine.
    Open,
    Missing,
}

/// Returns what the user has to call a provider.
pub(crate) fn access(provider: &str) -> Access {
    let has = match (clouds::has_credentials(provider, environment), key_variable(provider)) {
        (Some(has), _) => has,
        (None, None) => return Access::Open,
        (None, Some(variable)) => {
            environment(variable).is_some() || matches!(stored_keys::key(provider), Stored::Key(_))
        }
    };
    if has { Access::Key } else { Access::Missing }
}

/// Returns the message for a task without a model.
fn no_model() -> anyhow::Error {
    usage(format!("there is no model to work with. {}", three_ways()))
}

/// The ways to a real model.
pub(crate) fn three_ways() -> String {
    "Three ways to a real model:\n  \
     1. a key:    ANTHROPIC_API_KEY=... looptree \"your task\"\n  \
     2. Ollama:   ollama pull qwen3-coder:30b, then looptree \"your task\"\n  \
     3. a server: looptree --base-url http://localhost:8080/v1 --model local/NAME \"your task\""
        .to_owned()
}

#[cfg(test)]
mod tests;
