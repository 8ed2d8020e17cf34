//! The model that a project names: it is used at a destination that the user has, and nowhere else.

use looptree::ModelConfig;
use looptree::model::key_variable;
use looptree::providers::{ProviderRegistry, catalogue};

use super::{Access, Chosen, access, clouds, environment, key_of, ollama_address, within_budget};
use crate::ollama_server;
use crate::settings::{Origin, Settings};

/// Returns the model, or why it is not used. `own` is the model that is used without the project.
pub(super) fn resolve(name: &str, own: Option<&Chosen>, settings: &Settings) -> Result<Chosen, String> {
    if name.chars().any(char::is_control) {
        return Err("its name has control characters".to_owned());
    }
    let model = match (catalogue::named(name), own) {
        (Ok(model), _) => model,
        // A plain name: a model of the server that is used anyway.
        (Err(_), Some(own)) if own.model.provider == "local" => {
            catalogue::named(&format!("local/{name}")).map_err(|error| error.to_string())?
        }
        (Err(error), _) => return Err(error.to_string()),
    };
    if !ProviderRegistry::default().serves(model.api) {
        return Err(format!("this build has no protocol {}", model.api));
    }
    let chosen = match own {
        Some(own) if own.model.provider == model.provider => at_destination_of(own, model, settings)?,
        _ => at_catalogue(model, settings)?,
    };
    within_budget(&chosen.model, settings).map_err(|error| error.to_string())?;
    Ok(chosen)
}

/// Returns the model with everything that decides where its requests go and what they carry from the model that is used without the
/// project.
fn at_destination_of(own: &Chosen, model: ModelConfig, settings: &Settings) -> Result<Chosen, String> {
    let model = match &settings.prices.value {
        Some(prices) => prices.apply(model),
        None => model,
    };
    let mut at = own.model.clone();
    at.id = model.id;
    at.name = model.name;
    at.context_window = model.context_window;
    at.max_tokens = model.max_tokens;
    at.images = model.images;
    at.thinking = model.thinking;
    at.thinking_levels = model.thinking_levels;
    at.prompt_cache = model.prompt_cache;
    at.cost = model.cost;
    if own.model.cost.is_known() && !at.cost.is_known() {
        return Err("its price is not known".to_owned());
    }
    Ok(Chosen {
        model: at,
        origin: own.origin.clone(),
        address: own.address.clone(),
        key: own.key.clone(),
        notes: Vec::new(),
    })
}

/// Returns the model at the address of the catalogue, if the user has a key for it.
fn at_catalogue(model: ModelConfig, settings: &Settings) -> Result<Chosen, String> {
    let mut model = clouds::located(model, environment);
    let mut address = Origin::Default;
    match access(&model.provider) {
        Access::Key => {}
        Access::Open if model.provider == "ollama" => {
            let server = ollama_server::configured().ok_or("OLLAMA_HOST is not set")?;
            model = model.with_base_url(format!("http://{server}"));
            address = ollama_address();
        }
        Access::Open => return Err(format!("you have set no address for {}", model.provider)),
        Access::Missing => {
            let variable = key_variable(&model.provider).unwrap_or("its key");
            return Err(format!("{variable} is not set"));
        }
    }
    let found = key_of(&model, None);
    model.api_key = found.key;
    // The price of every model that the user sets is for models of the user's choice.
    if let Some(cost) = settings.prices.value.as_ref().and_then(|prices| prices.named(&model)) {
        model = model.with_cost(cost);
    }
    if model.provider != "ollama" && !model.cost.is_known() {
        return Err("its price is not known".to_owned());
    }
    Ok(Chosen { model, origin: Origin::Default, address, key: found.origin, notes: Vec::new() })
}

#[cfg(test)]
mod tests;
