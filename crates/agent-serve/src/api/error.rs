//! The errors of all routes, in the form that OpenAI's clients understand.

use agent_core::{AgentError, RunEnd, RunFailure, StopCause};
use agent_session::SessionError;
use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::conversation::StartError;
use crate::conversation::requests::Repeated;
use crate::registry::OpenError;

/// The header with the conversation that an answer or an error belongs to.
pub(crate) const CONVERSATION: HeaderName = HeaderName::from_static("looptree-conversation");

/// The body of an error.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorBody {
    pub(crate) error: ErrorDetail,
}

/// What happened, and what to do.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ErrorDetail {
    /// What happened and what to do, for people
    pub(crate) message: String,
    /// The group of the error
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The member of the request that is wrong
    pub(crate) param: Option<String>,
    /// The error, for programs
    pub(crate) code: &'static str,
}

/// An error of a route.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    param: Option<String>,
    retry_after: Option<u64>,
    conversation: Option<String>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None, retry_after: None, conversation: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// A bound of the key. The request can succeed when an earlier one has ended.
    pub(crate) fn over_bound(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code, message).retry_after(1)
    }

    /// A member of the request that the route does not support.
    pub(crate) fn unsupported(param: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "unsupported_parameter", message).at(param)
    }

    #[must_use]
    pub(crate) fn at(mut self, param: &str) -> Self {
        self.param = Some(param.to_owned());
        self
    }

    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds.max(1));
        self
    }

    #[must_use]
    pub(crate) fn in_conversation(mut self, id: &str) -> Self {
        self.conversation = Some(id.to_owned());
        self
    }

    /// Replaces the error of something that does not exist.
    #[must_use]
    pub(crate) fn or_unknown(self, other: impl FnOnce() -> Self) -> Self {
        if self.status == StatusCode::NOT_FOUND { other() } else { self }
    }

    pub(crate) fn body(&self) -> ErrorBody {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            402 => "insufficient_quota",
            429 if self.code == "insufficient_quota" => "insufficient_quota",
            429 => "rate_limit_error",
            500..=599 => "server_error",
            _ => "invalid_request_error",
        };
        let Self { message, param, code, .. } = self.clone();
        ErrorBody { error: ErrorDetail { message, kind, param, code } }
    }

    /// An error that only the log explains.
    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        let text = "the server could not complete the request; its log has the reason";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", text)
    }

    /// The end of a run that did not complete, for a client that waits for its answer.
    pub(crate) fn of_end(end: &RunEnd, conversation: &str) -> Self {
        let error = match end {
            RunEnd::Suspended(questions) => {
                let text = format!(
                    "the run waits for an answer to {} question(s): GET /v1/conversations/{conversation}/questions lists them",
                    questions.len()
                );
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "answer_required", text)
            }
            RunEnd::Stopped(StopCause::Budget { .. }) => {
                let text = "the budget of the key or of the conversation is used up";
                Self::new(StatusCode::TOO_MANY_REQUESTS, "insufficient_quota", text)
            }
            RunEnd::Stopped(StopCause::InputFilter { .. }) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "prompt_rejected", end.to_string())
            }
            RunEnd::Stopped(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "run_stopped", end.to_string()),
            RunEnd::Aborted => Self::new(StatusCode::CONFLICT, "run_aborted", end.to_string()),
            RunEnd::Failed(RunFailure::Interrupted { .. }) => {
                let text = "the run was interrupted; resume its conversation";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "run_interrupted", text).retry_after(1)
            }
            _ => Self::new(StatusCode::BAD_GATEWAY, "model_error", end.to_string()),
        };
        error.in_conversation(conversation)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(value) = self.conversation.and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(CONVERSATION, value);
        }
        response
    }
}

impl From<Repeated> for ApiError {
    fn from(repeated: Repeated) -> Self {
        match repeated {
            Repeated::Differs => {
                let text = "an earlier request with this Idempotency-Key asked something else; use a new key for each request";
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", text)
            }
            Repeated::InProgress | Repeated::Done { .. } => {
                let text = "the first request with this Idempotency-Key is still being answered; try again";
                Self::new(StatusCode::CONFLICT, "request_in_progress", text).retry_after(1)
            }
        }
        .at("Idempotency-Key")
    }
}

impl From<OpenError> for ApiError {
    fn from(error: OpenError) -> Self {
        match &error {
            OpenError::NotFound(_) => Self::not_found("there is no such conversation"),
            OpenError::NoAgent(_) => {
                let text = "this server has no such agent; GET /v1/models lists those it has";
                Self::new(StatusCode::NOT_FOUND, "model_not_found", text).at("model")
            }
            OpenError::OtherRequest => Repeated::Differs.into(),
            OpenError::Full { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", error.to_string()).retry_after(1)
            }
            OpenError::KeyFull { .. } => Self::over_bound("too_many_conversations", error.to_string()),
            OpenError::StoreFull { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_stored_conversations", error.to_string())
            }
            OpenError::Closing => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "closing", error.to_string()).retry_after(5)
            }
            OpenError::Locked => Self::new(StatusCode::CONFLICT, "locked", error.to_string()),
            OpenError::Agent(source) => {
                tracing::error!(error = %source, "the agent of a conversation could not be made");
                let text =
                    "the agent of the conversation cannot work now; the log of the server has the reason";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "agent_unavailable", text)
            }
            OpenError::Session(_) => match error {
                OpenError::Session(error) => error.into(),
                error => Self::internal(&error),
            },
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::NotFound { .. } | SessionError::InvalidId { .. } => {
                Self::not_found("there is no such conversation")
            }
            SessionError::Locked { .. } => {
                Self::new(StatusCode::CONFLICT, "locked", "another process has the conversation open")
            }
            SessionError::Full { .. } => {
                let text = "the session of the conversation is full; begin another one";
                Self::new(StatusCode::CONFLICT, "conversation_full", text)
            }
            SessionError::InvalidQuery { reason } => Self::bad_request(reason),
            error => Self::internal(&error),
        }
    }
}

impl From<StartError> for ApiError {
    fn from(error: StartError) -> Self {
        let conflict = |code, text: &str| Self::new(StatusCode::CONFLICT, code, text);
        match error {
            StartError::Busy | StartError::Agent(AgentError::Busy) => conflict(
                "run_open",
                "a run is open; steer it, queue a follow-up, abort it, or wait for its end",
            ),
            StartError::Repeated(repeated) => repeated.into(),
            StartError::Closed => {
                let text = "the conversation was released meanwhile; try again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", text).retry_after(1)
            }
            StartError::NotJournaled(reason) => {
                Self::internal(&format!("the run was not journaled: {reason}"))
            }
            StartError::TooSlow => {
                let text = "the run was not recorded in time; read the conversation before you try again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "slow_store", text).retry_after(5)
            }
            StartError::NoLedger(error) => {
                tracing::error!(%error, "the ledger of the keys could not be written, so a run was not started");
                let text = "the server cannot record what the run would spend, so it was not started; try again later";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "slow_store", text).retry_after(5)
            }
            StartError::Agent(error) => match error {
                AgentError::Suspended { .. } => conflict(
                    "waiting",
                    "the conversation waits for an answer; answer its questions, or abort the run",
                ),
                AgentError::Interrupted => {
                    conflict("interrupted", "the last run was interrupted; resume it, or abort it")
                }
                AgentError::NotSuspended => conflict("not_waiting", "no run of the conversation waits"),
                AgentError::Answer(reason) => Self::bad_request(reason.to_string()),
                AgentError::Message(reason) => Self::bad_request(reason.to_string()),
                AgentError::EmptyTranscript | AgentError::AssistantTail => conflict(
                    "nothing_to_continue",
                    "the conversation has nothing to continue from; prompt it",
                ),
                AgentError::Lacks { what } => {
                    tracing::error!(what, "the agent lacks what an open run needs");
                    let text = "the agent of the conversation lacks something that its open run needs";
                    Self::new(StatusCode::SERVICE_UNAVAILABLE, "agent_unavailable", text)
                }
                error => Self::internal(&error),
            },
        }
    }
}
