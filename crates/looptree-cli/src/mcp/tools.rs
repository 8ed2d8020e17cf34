//! The tools of the server, and their arguments.

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Deserialize;

use super::report::Report;

/// What a client reads about the server.
pub(super) const INSTRUCTIONS: &str = "Give it a whole task with `run`; it reads, edits and runs commands itself. Use `continue` for \
everything that builds on an earlier task. A result with the status `waiting` has a question about a call that the agent wants to \
execute: decide with the user and use `answer`.";

/// The arguments of `run`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunArgs {
    /// The task, with everything that the agent must know: it does not see your conversation
    pub(super) task: String,
    /// The directory to work in, inside of the one of the server. Default: the one of the server
    pub(super) cwd: Option<PathBuf>,
}

/// The arguments of `continue`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ContinueArgs {
    /// The session of an earlier result: its id or the beginning of it
    pub(super) session_id: String,
    /// The next message of the conversation
    pub(super) message: String,
    /// The directory of the session, if the server was restarted and the session was in a directory below its own
    pub(super) cwd: Option<PathBuf>,
}

/// The arguments of `answer`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerArgs {
    /// The session that waits: its id or the beginning of it
    pub(super) session_id: String,
    /// The id of the question in the result
    pub(super) question_id: String,
    /// Whether the call may be executed
    pub(super) decision: Decision,
    /// Why not, for the agent
    pub(super) reason: Option<String>,
    /// The directory of the session, if the server was restarted and the session was in a directory below its own
    pub(super) cwd: Option<PathBuf>,
}

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Decision {
    /// The call is executed
    Allow,
    /// The call is executed, and so are similar ones in this session, as the question describes
    Always,
    /// The call is not executed; the agent reads the reason
    Deny,
}

/// Returns the tools.
pub(super) fn all() -> Vec<Tool> {
    let run = "Works on a task in a directory of this machine as a coding agent of its own, and returns its answer. It can take minutes.";
    let more =
        "Sends a further message to the agent of an earlier task, which knows the conversation so far.";
    let answer = "Answers the question of a task that waits, and returns what follows. Ask the user first.";
    vec![
        tool::<RunArgs>("run", "Run a task", run),
        tool::<ContinueArgs>("continue", "Continue a task", more),
        tool::<AnswerArgs>("answer", "Answer a question", answer),
    ]
}

fn tool<T: JsonSchema>(name: &'static str, title: &str, description: &'static str) -> Tool {
    let changes = ToolAnnotations::with_title(title).destructive(true).open_world(true);
    Tool::new(name, description, schema::<T>())
        .with_raw_output_schema(schema::<Report>())
        .with_annotations(changes)
}

/// Returns a schema without references, which not every client resolves.
fn schema<T: JsonSchema>() -> Arc<JsonObject> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}
