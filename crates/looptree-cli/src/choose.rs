//! Which model: the settings, keys in the environment, an Ollama server, else none.

mod clouds;

use anyhow::Result;
use looptree::ModelConfig;
use looptree::model::key_variable;
use looptree::providers::{ProviderRegistry, catalogue};

use crate::exit::usage;
use crate::ollama_server;
use crate::settings::Settings;
use crate::stored_keys::{self, Stored};

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

/// Returns the model of the settings, or the first one that can be used; `None` if there is none.
pub(crate) async fn choose(settings: &Settings) -> Result<Option<ModelConfig>> {
    if let Some(text) = &settings.model.value {
        return by_name(text, settings).map(Some);
    }
    if settings.base_url.value.is_some() {
        return Err(usage("which model does the server have? Name it with --model local/NAME"));
    }
    for name in USUAL {
        let provider = name.split('/').next().unwrap_or_default();
        if access(provider) == Access::Key {
            return by_name(name, settings).map(Some);
        }
    }
    let Some(server) = ollama_server::find().await else { return Ok(None) };
    let model = server.best_model();
    let model = model.map(|id| catalogue::configure(ModelConfig::ollama(id).with_base_url(server.url)));
    model.map(|model| priced(model, settings)).transpose()
}

/// Returns the model that a text names, with its key.
pub(crate) fn by_name(text: &str, settings: &Settings) -> Result<ModelConfig> {
    if text.chars().any(char::is_control) {
        return Err(usage(format!("the name of the model has control characters: {}", text.escape_debug())));
    }
    let url = settings.base_url.value.as_deref();
    let model = match (catalogue::named(text), url) {
        _ if text.trim_start().starts_with('{') => described_by(text)?,
        (Ok(model), _) => model,
        // A plain id, or one with a slash that is no provider's: a model of the server that is named.
        (Err(_), Some(_)) => catalogue::named(&format!("local/{text}")).map_err(|e| usage(e.to_string()))?,
        (Err(error), None) => return Err(usage(error.to_string())),
    };
    let mut model = clouds::located(model, environment);
    if let Some(url) = url {
        model = model.with_base_url(url);
    } else if model.provider == "local" {
        return Err(usage(format!("{text} wants --base-url, for example http://localhost:8080/v1")));
    } else if model.provider == "ollama"
        && let Some(address) = ollama_server::configured()
    {
        model = model.with_base_url(format!("http://{address}"));
    }
    if !ProviderRegistry::default().serves(model.api) {
        return Err(usage(format!(
            "this build of looptree has no protocol {} for {}/{}; build one that has it: \
             cargo install --path crates/looptree-cli --features clouds",
            model.api, model.provider, model.id
        )));
    }
    if let Some(variable) = &settings.api_key_env.value {
        model = model.with_key_from(variable);
    } else if model.provider == "local" && environment("LOCAL_API_KEY").is_some() {
        model = model.with_key_from("LOCAL_API_KEY");
    }
    let provider = model.provider.clone();
    let mut model = model.with_secrets(environment).map_err(|e| usage(e.to_string()))?;
    let mut why = String::new();
    if model.api_key.is_none() {
        match stored_keys::key(&provider) {
            Stored::Key(key) => model = model.with_api_key(key),
            Stored::Nothing => {}
            Stored::Unreadable(reason) => why = format!(" ({reason})"),
        }
    }
    match key_variable(&provider) {
        // A server with an explicit address may need no key.
        Some(variable)
            if model.api_key.is_none() && url.is_none() && !clouds::finds_credentials(model.api) =>
        {
            Err(usage(format!(
                "{variable} is not set, and {text} wants a key: export {variable}=..., or name another variable with --api-key-env{why}"
            )))
        }
        _ => priced(model, settings),
    }
}

/// Reads a model with further settings from a JSON object.
fn described_by(text: &str) -> Result<ModelConfig> {
    let model = serde_json::from_str(text).map_err(|error| {
        usage(format!("the model is no name and no JSON description of a model: {error}"))
    })?;
    Ok(catalogue::configure(model))
}

/// Returns the model with the prices and the context window of the settings. A budget of money needs prices.
fn priced(model: ModelConfig, settings: &Settings) -> Result<ModelConfig> {
    let mut model = match &settings.prices.value {
        Some(prices) => prices.apply(model),
        None => model,
    };
    model.context_window = settings.context_window.value.or(model.context_window);
    if settings.budget.value.is_some() && !model.cost.is_known() {
        let name = format!("{}/{}", model.provider, model.id);
        return Err(usage(format!(
            "the budget limits money, and the prices of {name} are not known. Set them with --price INPUT,OUTPUT in dollars \
             per million tokens (0 for a free model), or in the configuration file under [prices]: {name:?} = \"0.20,0.60\"; \
             or limit tokens instead with --max-tokens-total"
        )));
    }
    Ok(model)
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
pub(crate) fn no_model() -> anyhow::Error {
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
