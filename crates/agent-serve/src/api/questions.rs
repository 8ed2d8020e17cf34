//! Questions of runs, and their answers.

use std::sync::Arc;

use agent_core::event::Printable;
use agent_core::{Answer, Question, SessionId};
use agent_session::LoadedSession;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conversations::{RunStarted, accepted, began, check_budget};
use super::error::ApiError;
use super::extract::{Body, Caller, InPath};
use crate::conversation::requests::{Repeated, recorded_answer};
use crate::service::Service;

/// A question that a run waits for.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Question")]
pub(crate) struct QuestionBody {
    /// The conversation
    conversation: String,
    /// The id of the question, which the answer repeats
    id: String,
    /// The text of the question, with unprintable characters escaped
    text: String,
    /// The call that waits
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<CallBody>,
    /// Whether the question is about a budget, which only the operator of the server raises
    about_budget: bool,
}

/// A call that waits for an approval.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CallBody {
    /// The name of the tool
    tool: String,
    /// The arguments with which the call runs if it is allowed
    arguments: Value,
    /// The folder in which it runs
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    /// The whole call as an approver must see it
    view: String,
    /// The hash of the call. An answer that names it approves this call and no other
    hash: String,
}

impl QuestionBody {
    fn of(conversation: &str, question: &Question) -> Self {
        let call = question.approval().map(|view| CallBody {
            tool: view.tool.to_string(),
            directory: view.snapshot.as_ref().and_then(|snapshot| snapshot.directory.clone()),
            hash: view.hash().to_string(),
            view: view.to_string(),
            arguments: view.arguments,
        });
        Self {
            conversation: conversation.to_owned(),
            id: question.id.to_string(),
            text: Printable::line(&question.text).into(),
            call,
            about_budget: question.budget.is_some(),
        }
    }
}

/// The questions that wait.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QuestionList {
    questions: Vec<QuestionBody>,
}

/// An answer to a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerBody {
    /// The answer
    answer: AnswerKind,
    /// The hash of the call that was shown, or its first 12 digits. If the question is about another call, the answer is refused
    #[serde(default)]
    hash: Option<String>,
}

/// What the user decides.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum AnswerKind {
    /// The action may proceed
    Allow,
    /// The call may proceed with these arguments
    AllowWith {
        /// The arguments
        arguments: serde_json::Map<String, Value>,
    },
    /// The action is denied
    Deny {
        /// The reason, which the model reads
        reason: String,
    },
}

/// The questions of all conversations of the key.
pub(super) async fn list(
    State(service): State<Service>,
    Caller(account): Caller,
) -> Result<Json<QuestionList>, ApiError> {
    let store = Arc::clone(&service.inner.shared.store);
    let found = service.read(&account, async move { store.list_unfinished().await }).await??;
    let owner = account.owner();
    let own = found.runs.iter().filter(|run| run.agent_id.as_str() == owner);
    let questions = own.flat_map(|run| {
        run.questions.iter().map(|question| QuestionBody::of(run.session_id.as_str(), question))
    });
    Ok(Json(QuestionList { questions: questions.collect() }))
}

/// The questions of a conversation.
pub(super) async fn of_conversation(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
) -> Result<Json<QuestionList>, ApiError> {
    let session = service.session(&account, &SessionId::from(id.as_str())).await?;
    let run = LoadedSession::new(session).open_run()?;
    let questions = run.map(|run| run.questions()).unwrap_or_default();
    let questions = questions.iter().map(|question| QuestionBody::of(&id, question)).collect();
    Ok(Json(QuestionList { questions }))
}

/// Answers a question and continues the run.
pub(super) async fn answer(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath((id, question)): InPath<(String, String)>,
    Body(body, request): Body<AnswerBody>,
) -> Result<(StatusCode, Json<RunStarted>), ApiError> {
    let id = SessionId::from(id);
    let conversation = service.open(&account, &id).await?;
    if let Some(request) = &request
        && let Some(after) = conversation.requests.find(request)?
    {
        return Ok(accepted(after));
    }
    let asked = conversation.agent().questions().into_iter().find(|asked| asked.id.as_str() == question);
    let Some(asked) = asked else {
        // The question belongs to one answer, so the session needs no key of it.
        let recorded = match &request {
            Some(_) => recorded_answer(&service.session(&account, &id).await?, &question),
            None => None,
        };
        return match recorded {
            Some((answer, after)) if body.answer.clone().into_answer() == answer => Ok(accepted(after)),
            Some(_) => Err(Repeated::Differs.into()),
            None => Err(ApiError::not_found("the conversation does not wait for an answer to this question")),
        };
    };
    if let Some(hash) = &body.hash
        && !asked.approval().is_some_and(|view| view.hash().matches(hash))
    {
        let text = "the question is not about the call with this hash; show it again before you answer it";
        return Err(ApiError::new(StatusCode::CONFLICT, "question_changed", text).at("hash"));
    }
    let answer = body.answer.into_answer();
    if asked.budget.is_some() && !matches!(answer, Answer::Deny { .. }) {
        let text = "the question is about a budget, which only the operator of the server can raise";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "budget_question", text));
    }
    if asked.call.is_none() && matches!(answer, Answer::AllowWith(_)) {
        return Err(ApiError::bad_request("the question is not about a call, so it has no arguments"));
    }
    if !matches!(answer, Answer::Deny { .. }) {
        check_budget(&service, &account)?;
    }
    drop(conversation);
    let start = |agent: &agent_core::AgentHandle| agent.answer(asked.id.clone(), answer.clone());
    let (_, started) = service.start(&account, &id, request.as_ref(), start).await?;
    began(started)
}

impl AnswerKind {
    fn into_answer(self) -> Answer {
        match self {
            Self::Allow => Answer::Allow,
            Self::AllowWith { arguments } => Answer::AllowWith(Value::Object(arguments)),
            Self::Deny { reason } => Answer::deny(reason),
        }
    }
}
