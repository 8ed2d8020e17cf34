//! Scripts: everything that happens to an agent in one simulated run, as data.

use std::fmt;

use agent_core::{Answer, ErrorKind};
use serde::{Deserialize, Serialize};

/// Everything that happens to an agent in one simulated run, in the order in which it is drawn from the seed.
///
/// A script is plain data: a shorter one is also a script, which is how failures are shrunk. A [`Step::Prompt`] begins a
/// part of the script; its replies, answers and acts belong to the run of this prompt. A run that needs more replies
/// than its part has receives the text `done`, and a question without an answer is denied.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Script {
    /// The seed of the random numbers that [`World::draw`](crate::World::draw) returns.
    pub seed: u64,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// One step of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Step {
    /// The user sends a prompt as soon as no run is open.
    Prompt(String),
    /// The model replies to the next request.
    Reply(Reply),
    /// The user answers the first open question. An answer that does not fit the question counts as a denial.
    Answer(Answer),
    /// Something happens from outside, some moments after the step before.
    Act(Act),
}

/// How the model replies to one request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Reply {
    /// The text of the reply; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The tool calls of the reply. Their ids are `call_1`, `call_2` and so on over the whole script.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// How the reply ends.
    #[serde(skip_serializing_if = "ReplyEnd::is_complete")]
    pub end: ReplyEnd,
    /// The milliseconds until the reply begins.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// The reported tokens of the request and of the reply.
    pub tokens: (u64, u64),
}

/// How a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyEnd {
    /// The reply is complete.
    #[default]
    Complete,
    /// The reply reaches the token limit.
    Length,
    /// The vendor pauses the reply.
    Paused,
    /// The call fails: before the reply if it has no content, otherwise after its content.
    Fails(ErrorKind),
    /// Nothing arrives after the content until the call is cancelled.
    Hangs,
}

impl ReplyEnd {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
    fn is_complete(&self) -> bool {
        *self == Self::Complete
    }
}

/// A tool call of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Call {
    /// The name of the tool.
    pub tool: String,
    /// The text of the arguments, which need not be JSON.
    pub arguments: String,
    /// What happens to the call when it is executed for the first time.
    #[serde(default, skip_serializing_if = "ToolFault::is_none")]
    pub fault: ToolFault,
}

/// What happens to a call when it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolFault {
    /// Nothing: the tool is executed.
    #[default]
    None,
    /// The call fails and the tool is not executed.
    Fails,
    /// The tool is executed, and the call reports a failure.
    FailsAfter,
    /// The call panics and the tool is not executed.
    Panics,
    /// The tool is executed after this many milliseconds.
    Slow(u64),
    /// The tool is not executed, and the call does not end until it is cancelled.
    Hangs,
}

impl ToolFault {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// Something that happens from outside while the agent works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Act {
    /// How many moments after the step before it happens. A moment is the start of a model call, a piece of its reply, the
    /// start and the end of a tool, and the time before and after each entry of the journal and each call of the session
    /// store. At the latest it happens when the run ends or waits.
    pub after: u32,
    /// What happens at this moment.
    #[serde(rename = "do")]
    pub what: Action,
}

/// What happens from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// The user steers the run with this message.
    Steer(String),
    /// The user queues this follow-up.
    FollowUp(String),
    /// A deferred call of the conversation, the oldest without a result, receives this result.
    Complete(String),
    /// The user aborts the run.
    Abort,
    /// The process ends at once. Another one continues from the journal.
    Kill,
    /// The machine ends at once. Entries of the journal after the last flushed one are lost.
    Crash,
    /// The time of day jumps by this many milliseconds. No time passes.
    Jump(i64),
    /// The next call of the session store fails. Without [`Sim::store`](crate::Sim::store), nothing happens.
    StoreFails(StoreFault),
    /// The process is stopped. Another one continues the session to the end of the script; then this one continues.
    /// Without [`Sim::store`](crate::Sim::store), nothing happens.
    Stop,
}

/// How a call of the session store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoreFault {
    /// The call fails, and the store does not receive it.
    Before,
    /// The store performs the call, and the call fails: its reply is lost.
    After,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Script {
    /// Creates a script from its steps.
    #[must_use]
    pub fn new(steps: Vec<Step>) -> Self {
        Self { seed: 0, steps }
    }

    /// Reads a script from JSON, as the [`Display`](fmt::Display) form contains it.
    ///
    /// # Errors
    /// When the text is not a script.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        serde_json::from_str(text).map_err(ScriptError)
    }
}

/// The error of a text that is not a script.
#[derive(Debug, thiserror::Error)]
#[error("this is not a script of a simulation; print one with Display and paste it unchanged")]
pub struct ScriptError(#[source] serde_json::Error);

/// Writes JSON with one step on each line.
impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{{\"seed\": {}, \"steps\": [", self.seed)?;
        for (n, step) in self.steps.iter().enumerate() {
            let line = serde_json::to_string(step).map_err(|_| fmt::Error)?;
            let comma = if n + 1 < self.steps.len() { "," } else { "" };
            writeln!(f, "  {line}{comma}")?;
        }
        f.write_str("]}")
    }
}
