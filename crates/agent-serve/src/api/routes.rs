//! The list of all routes.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, delete, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{conversations, description, error, events, meta, openai, questions};
use crate::service::Service;

/// Adds the schema of a type to a description.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A route.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// The name of the operation.
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) handler: fn() -> MethodRouter<Service>,
    pub(super) query: Option<SchemaOf>,
    pub(super) body: Body,
    pub(super) answer: Answer,
    /// The status of the answer.
    pub(super) status: u16,
}

/// What a request contains.
#[derive(Clone, Copy)]
pub(super) enum Body {
    None,
    Json(SchemaOf),
    #[cfg(feature = "files")]
    Bytes,
}

/// What an answer contains.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    Nothing,
    Json(SchemaOf),
    /// JSON, or a stream if the request asks for it.
    JsonOrEvents(SchemaOf),
    Events,
    Other(&'static str),
}

pub(super) fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Returns the schema of the members of a type, without a reference.
fn members<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

impl Route {
    fn new(
        method: &'static str,
        path: &'static str,
        name: &'static str,
        summary: &'static str,
        handler: fn() -> MethodRouter<Service>,
    ) -> Self {
        let (query, body, answer) = (None, Body::None, Answer::Nothing);
        Self { method, path, name, summary, handler, query, body, answer, status: 200 }
    }

    fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(members::<T>);
        self
    }

    fn takes<T: JsonSchema>(mut self) -> Self {
        self.body = Body::Json(schema::<T>);
        self
    }

    fn gives<T: JsonSchema>(self) -> Self {
        self.answers(Answer::Json(schema::<T>))
    }

    fn answers(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }

    fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

async fn document() -> impl IntoResponse {
    // Made once: it is answered without a key.
    static TEXT: LazyLock<String> = LazyLock::new(|| description::document().to_string());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str())
}

/// Returns all routes.
pub(super) fn all() -> Vec<Route> {
    use conversations as c;
    let mut routes = vec![
        Route::new("get", "/healthz", "health", "Whether the service answers", || get(meta::health))
            .gives::<meta::Health>(),
        Route::new("get", "/openapi.json", "description", "This description", || get(document))
            .answers(Answer::Other("application/json")),
        Route::new("get", "/metrics", "metrics", "The figures of the service, for Prometheus", || {
            get(meta::metrics)
        })
        .answers(Answer::Other("application/openmetrics-text; version=1.0.0; charset=utf-8")),
        Route::new("get", "/v1/usage", "usage", "What the key has spent, and what is left", || {
            get(meta::usage)
        })
        .gives::<meta::KeyUsage>(),
        Route::new("post", "/v1/conversations", "createConversation", "Begins a conversation", || {
            post(c::create)
        })
        .takes::<c::NewConversation>()
        .gives::<c::ConversationBody>()
        .status(201),
        Route::new("get", "/v1/conversations", "listConversations", "The conversations of the key", || {
            get(c::list)
        })
        .query::<c::PageQuery>()
        .gives::<c::ConversationList>(),
        Route::new("get", "/v1/conversations/{id}", "getConversation", "A conversation", || get(c::get))
            .gives::<c::ConversationBody>(),
        Route::new(
            "delete",
            "/v1/conversations/{id}",
            "deleteConversation",
            "Aborts the run of a conversation and deletes it",
            || delete(c::delete),
        )
        .status(204),
        Route::new("get", "/v1/conversations/{id}/messages", "listMessages", "The messages", || {
            get(c::messages)
        })
        .query::<c::PageQuery>()
        .gives::<c::MessageList>(),
        Route::new(
            "post",
            "/v1/conversations/{id}/prompt",
            "prompt",
            "Sends a message and starts a run. The answer comes after the message was recorded",
            || post(c::prompt),
        )
        .takes::<c::UserMessageBody>()
        .gives::<c::RunStarted>()
        .status(202),
        Route::new(
            "post",
            "/v1/conversations/{id}/steer",
            "steer",
            "Sends a message to the open run, for its next model call",
            || post(c::steer),
        )
        .takes::<c::UserMessageBody>()
        .gives::<c::Accepted>()
        .status(202),
        Route::new(
            "post",
            "/v1/conversations/{id}/follow-up",
            "followUp",
            "Sends a message to the open run, for when it would end",
            || post(c::follow_up),
        )
        .takes::<c::UserMessageBody>()
        .gives::<c::Accepted>()
        .status(202),
        Route::new("post", "/v1/conversations/{id}/resume", "resume", "Continues an interrupted run", || {
            post(c::resume)
        })
        .gives::<c::RunStarted>()
        .status(202),
        Route::new(
            "post",
            "/v1/conversations/{id}/abort",
            "abort",
            "Aborts the run, if there is one",
            || post(c::abort),
        )
        .gives::<c::Accepted>()
        .status(202),
        Route::new(
            "get",
            "/v1/conversations/{id}/events",
            "events",
            "The events of the conversation as they happen, after an event that the reader has",
            || get(events::events),
        )
        .query::<events::EventQuery>()
        .answers(Answer::Events),
        Route::new(
            "get",
            "/v1/questions",
            "listQuestions",
            "The questions of all conversations of the key",
            || get(questions::list),
        )
        .gives::<questions::QuestionList>(),
        Route::new(
            "get",
            "/v1/conversations/{id}/questions",
            "listQuestionsOfConversation",
            "The questions that the run waits for",
            || get(questions::of_conversation),
        )
        .gives::<questions::QuestionList>(),
        Route::new(
            "post",
            "/v1/conversations/{id}/questions/{question}",
            "answer",
            "Answers a question and continues the run",
            || post(questions::answer),
        )
        .takes::<questions::AnswerBody>()
        .gives::<c::RunStarted>()
        .status(202),
        Route::new("get", "/v1/conversations/{id}/view", "view", "The session as a page for people", || {
            get(meta::view)
        })
        .answers(Answer::Other("text/html; charset=utf-8")),
        Route::new("get", "/v1/models", "listModels", "The agents as models", || get(openai::models))
            .gives::<openai::ModelList>(),
        Route::new("get", "/v1/models/{model}", "getModel", "An agent as a model", || get(openai::model))
            .gives::<openai::ModelBody>(),
        Route::new("post", "/v1/chat/completions", "createChatCompletion", "An answer of an agent", || {
            post(openai::chat::complete)
        })
        .takes::<openai::chat::ChatRequest>()
        .answers(Answer::JsonOrEvents(schema::<openai::chat::ChatCompletion>)),
        Route::new("post", "/v1/responses", "createResponse", "An answer of an agent", || {
            post(openai::responses::respond)
        })
        .takes::<openai::responses::ResponsesRequest>()
        .answers(Answer::JsonOrEvents(schema::<openai::responses::ResponseBody>)),
        Route::new("get", "/v1/responses/{id}", "getResponse", "A response of a kept conversation", || {
            get(openai::responses::retrieve)
        })
        .gives::<openai::responses::ResponseBody>(),
    ];
    routes.extend(of_files());
    routes
}

#[cfg(feature = "files")]
fn of_files() -> Vec<Route> {
    use super::files;
    let content = "/v1/conversations/{id}/files/content";
    let mut upload =
        Route::new("put", content, "writeFile", "Writes a file of the workspace as a whole", || {
            axum::routing::put(files::upload)
        })
        .query::<files::PathQuery>()
        .gives::<files::Written>();
    upload.body = Body::Bytes;
    vec![
        Route::new(
            "get",
            "/v1/conversations/{id}/files",
            "listFiles",
            "The entries of a folder of the workspace",
            || get(files::list),
        )
        .query::<files::PathQuery>()
        .gives::<files::Folder>(),
        Route::new("get", content, "readFile", "The content of a file of the workspace", || {
            get(files::content)
        })
        .query::<files::PathQuery>()
        .answers(Answer::Other("application/octet-stream")),
        upload,
    ]
}

#[cfg(not(feature = "files"))]
fn of_files() -> Vec<Route> {
    Vec::new()
}

/// Returns the schema of errors.
pub(super) fn error_schema(generator: &mut SchemaGenerator) -> Schema {
    schema::<error::ErrorBody>(generator)
}
