//! Routes that OpenAI's clients use: an agent as a model.
//!
//! The agent keeps its own system prompt and its own tools, which run on the server. A request makes a conversation. It is
//! deleted after the answer, unless the request stores it or its run waits for an answer to a question.

mod ask;
pub(super) mod chat;
mod chat_stream;
pub(super) mod responses;
mod responses_stream;
mod run;
#[cfg(test)]
mod tests;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::error::ApiError;
use super::extract::InPath;
use crate::service::Service;

/// The models of the service: its agents.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ModelList {
    object: &'static str,
    data: Vec<ModelBody>,
}

/// An agent as a model.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Model")]
pub(crate) struct ModelBody {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

impl ModelBody {
    fn new(name: &str) -> Self {
        Self { id: name.to_owned(), object: "model", created: 0, owned_by: "looptree" }
    }
}

pub(super) async fn models(State(service): State<Service>) -> Json<ModelList> {
    Json(ModelList { object: "list", data: service.agents().map(ModelBody::new).collect() })
}

pub(super) async fn model(
    State(service): State<Service>,
    InPath(name): InPath<String>,
) -> Result<Json<ModelBody>, ApiError> {
    match service.agents().find(|agent| *agent == name) {
        Some(agent) => Ok(Json(ModelBody::new(agent))),
        None => {
            let text = "this server has no such agent; GET /v1/models lists those it has";
            Err(ApiError::new(axum::http::StatusCode::NOT_FOUND, "model_not_found", text).at("model"))
        }
    }
}
