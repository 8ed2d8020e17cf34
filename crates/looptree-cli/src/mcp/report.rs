//! The result of a tool.

use anyhow::Result;
use looptree::event::Ended;
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::ask::id_of;
use crate::approval::{always_of, described};
use crate::money::as_dollars;
use crate::screen::{question as whole, why};
use crate::served::Served;
use crate::work::Watched;

/// What a run came to.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Report {
    /// The session, for `continue` and `answer`
    session_id: String,
    /// Whether the task is done or waits for an answer
    status: Status,
    /// The last answer of the agent
    answer: String,
    /// Why the run stopped
    stop_reason: String,
    /// The tokens that the session has used since the server has it
    usage: Tokens,
    /// What they cost in dollars, if the prices are known
    cost_usd: Option<f64>,
    /// The question that waits
    question: Option<Waiting>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// The task is done
    Completed,
    /// A question waits for `answer`
    Waiting,
    /// The run was cancelled
    Cancelled,
    /// The run ended before the task was done
    Failed,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Tokens {
    /// The tokens of the prompts
    input: u64,
    /// The tokens of the answers
    output: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Waiting {
    /// The id for `answer`
    id: String,
    /// The question with the whole call
    text: String,
    /// The tool that is called
    tool: Option<String>,
    /// The arguments of the call
    arguments: Value,
    /// What the decision `always` would allow
    always: Option<String>,
}

/// Returns the result of a run.
pub(super) fn report(session: &Served<()>, watched: Watched) -> Result<CallToolResult> {
    let meter = session.meter();
    let question = watched.questions.first().map(|question| {
        let view = question.approval();
        let tool = view.as_ref().map(|view| view.tool.to_string());
        let arguments = view.map_or(Value::Null, |view| view.arguments);
        let always = always_of(question).map(|grant| described(&grant).as_str().to_owned());
        Waiting { id: id_of(question), text: whole(question).as_str().to_owned(), tool, arguments, always }
    });
    let (status, stop_reason) = match &watched.ended {
        _ if question.is_some() => (Status::Waiting, "waits for an answer".to_owned()),
        Some(ended @ Ended::Completed) => (Status::Completed, why(ended)),
        Some(ended @ Ended::Aborted) => (Status::Cancelled, why(ended)),
        Some(ended) => (Status::Failed, why(ended)),
        None => (Status::Failed, "the run was interrupted".to_owned()),
    };
    let report = Report {
        session_id: session.setup.agent.session_id().to_string(),
        status,
        answer: watched.answer,
        stop_reason,
        usage: Tokens { input: meter.usage.prompt_tokens(), output: meter.usage.output },
        cost_usd: as_dollars(&meter.cost),
        question,
    };
    let text = match &report.question {
        Some(question) => {
            format!("{}\n\nThe session {} waits. {}", report.answer, report.session_id, question.text)
        }
        None if status == Status::Completed => report.answer.clone(),
        None => format!("{}\n\n{}", report.answer, report.stop_reason),
    };
    let content = vec![ContentBlock::text(text.trim().to_owned())];
    let mut result = match status {
        Status::Completed | Status::Waiting => CallToolResult::success(content),
        Status::Cancelled | Status::Failed => CallToolResult::error(content),
    };
    result.structured_content = Some(serde_json::to_value(&report)?);
    Ok(result)
}
