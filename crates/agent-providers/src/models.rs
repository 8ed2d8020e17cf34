//! Requests the list of models from a provider, when the application asks for it.
//!
//! No model call does this. The result states only what the provider states: Anthropic and Gemini give limits, Anthropic
//! gives capabilities as well, and most other servers give names. Combine it with the catalogue by
//! [`Catalogue::with`](crate::Catalogue::with).
//!
//! ```no_run
//! use agent_core::{CancellationToken, ModelConfig};
//! use agent_providers::{Catalogue, Transport, models};
//! # async fn run(model: ModelConfig) -> Result<(), agent_core::ProviderError> {
//! let listed = models::list(&Transport::default(), &model, "2026-11-24", &CancellationToken::new()).await?;
//! let model = Catalogue::builtin().with(Catalogue::from_models(listed)).configure(model);
//! # Ok(())
//! # }
//! ```

mod read;

#[cfg(test)]
mod tests;

use agent_core::{
    ApiProtocol, CancellationToken, ErrorKind, History, ModelConfig, ModelRequest, ProviderError,
};
use reqwest::Url;

use crate::catalogue::ModelFacts;
use crate::protocol::Protocol;
use crate::request::refuse;
use crate::transport::Transport;

/// The maximum number of pages that are requested of a list.
const MAX_PAGES: usize = 20;

/// Requests the models of a provider, with the address, the key and the headers of `model`. `as_of` is the date of today for
/// the entries, such as `2026-11-24`.
///
/// # Errors
/// Returns an error if the protocol of the model has no list of models (Bedrock, Vertex and custom ones), or if the request
/// fails as a model call can.
pub async fn list(
    transport: &Transport,
    model: &ModelConfig,
    as_of: &str,
    cancel: &CancellationToken,
) -> Result<Vec<ModelFacts>, ProviderError> {
    let Some(protocol) = protocol(model.api) else {
        let message = format!("the protocol {} has no list of models", model.api);
        return Err(refuse(model, ErrorKind::Other, &message, "describe the model in its configuration"));
    };
    // A small request has the address and the headers of the provider.
    let (history, _) = History::repaired([agent_core::AgentMessage::user("?")]);
    let request = ModelRequest::new(model.clone(), history);
    let encoded = protocol.encode(&request)?;
    let url = list_url(model.api, &encoded.url);
    let (mut found, mut next) = (Vec::new(), Some(url.clone()));
    for _ in 0..MAX_PAGES {
        let Some(page) = next.take() else { break };
        let body = transport.fetch(&*protocol, &request, &encoded, page, cancel).await?;
        found.extend(read::models(model, as_of, &origin(&url), &body));
        next = read::next_page(&url, &body);
    }
    Ok(found)
}

fn protocol(api: ApiProtocol) -> Option<Box<dyn Protocol>> {
    match api {
        #[cfg(feature = "anthropic")]
        ApiProtocol::AnthropicMessages => Some(Box::new(crate::anthropic::Anthropic)),
        #[cfg(feature = "openai-chat")]
        ApiProtocol::OpenAiCompletions => Some(Box::new(crate::openai_chat::OpenAiChat)),
        #[cfg(feature = "openai-responses")]
        ApiProtocol::OpenAiResponses => Some(Box::new(crate::openai_responses::OpenAiResponses)),
        #[cfg(feature = "azure")]
        ApiProtocol::AzureOpenAiResponses => Some(Box::new(crate::azure::Azure)),
        #[cfg(feature = "google")]
        ApiProtocol::GoogleGenerativeAi => Some(Box::new(crate::google::Google)),
        #[cfg(feature = "ollama")]
        ApiProtocol::OllamaChat => Some(Box::new(crate::ollama::Ollama)),
        _ => None,
    }
}

/// Returns the address of the list beside the address of calls.
fn list_url(api: ApiProtocol, calls: &Url) -> Url {
    let mut url = calls.clone();
    let path = calls.path();
    let (path, query) = match api {
        ApiProtocol::GoogleGenerativeAi => {
            let base = path.find("/models/").and_then(|at| path.get(..at)).unwrap_or_default();
            (format!("{base}/models"), Some("pageSize=1000"))
        }
        ApiProtocol::OllamaChat => (path.trim_end_matches("/chat").to_owned() + "/tags", None),
        ApiProtocol::AnthropicMessages => {
            (path.trim_end_matches("/messages").to_owned() + "/models", Some("limit=1000"))
        }
        _ => {
            let base = path.strip_suffix("/chat/completions").or_else(|| path.strip_suffix("/responses"));
            (base.unwrap_or(path).to_owned() + "/models", calls.query())
        }
    };
    url.set_path(&path);
    url.set_query(query);
    url
}

/// Returns an address without its query, as the source of the entries.
fn origin(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.into()
}
