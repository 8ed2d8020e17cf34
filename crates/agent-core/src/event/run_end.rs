//! How a run ended, as a value for the caller.

use std::fmt;

use super::{AgentEnd, AgentEvent, Ended, NewMessages, Question};
use crate::budget::BudgetRefusal;
use crate::message::{AssistantMessage, Citation, Usage};
use crate::provider::ErrorKind;

/// How a run ended, or that it waits for answers.
///
/// ```
/// use agent_core::{RunEnd, StopCause};
///
/// fn report(end: &RunEnd) -> String {
///     match end {
///         RunEnd::Completed(reply) => reply.text(),
///         RunEnd::Suspended(questions) => format!("{} question(s) to answer", questions.len()),
///         RunEnd::Stopped(StopCause::Budget { refusal }) => format!("out of budget: {refusal}"),
///         other => other.to_string(),
///     }
/// }
/// # assert_eq!(report(&RunEnd::Aborted), "the run was aborted");
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a run can fail; match the end or call into_reply()"]
#[non_exhaustive]
pub enum RunEnd {
    /// The last reply contains no tool calls, and no message is queued.
    Completed(RunReply),
    /// The run waits for answers to these questions. It continues with
    /// [`AgentHandle::answer`](crate::AgentHandle::answer).
    Suspended(Vec<Question>),
    /// A limit, a budget or a hook stopped the run.
    Stopped(StopCause),
    /// The caller aborted the run.
    Aborted,
    /// The model call failed, or the run was interrupted.
    Failed(RunFailure),
}

/// What a completed run produced.
#[derive(Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RunReply {
    /// The messages of the run in order: the prompts, the replies and the tool results. As in
    /// [`AgentEnd`](crate::AgentEnd::messages), some can be only in the store.
    pub messages: NewMessages,
    /// The tokens that all turns of the run used, without those of sub-agents.
    pub usage: Usage,
}

/// Shows the number of messages, without their text.
impl fmt::Debug for RunReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunReply")
            .field("messages", &self.messages.len())
            .field("usage", &self.usage)
            .finish_non_exhaustive()
    }
}

impl RunReply {
    /// Returns the last reply of the model, if there is one.
    #[must_use]
    pub fn message(&self) -> Option<&AssistantMessage> {
        self.messages.in_memory().iter().rev().find_map(|m| m.as_assistant())
    }

    /// Returns the text of the last reply with that of the paused replies that it continues; empty if the model did not reply
    /// with text.
    #[must_use]
    pub fn text(&self) -> String {
        self.messages.last_text(|_| true).unwrap_or_default()
    }

    /// Returns the citations of the texts that [`text`](Self::text) joins, in their order.
    #[must_use]
    pub fn citations(&self) -> Vec<&Citation> {
        let parts = self.messages.last_reply(|_| true).unwrap_or_default();
        parts.into_iter().flat_map(AssistantMessage::citations).collect()
    }
}

/// What stopped a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StopCause {
    /// The run reached one of its [`ExecutionLimits`](crate::ExecutionLimits).
    Limit {
        /// The limit, for example `max turns exceeded`.
        reason: String,
    },
    /// The run reached a limit of its [`Budget`](crate::Budget).
    Budget {
        /// The limit, with its figures.
        refusal: Box<BudgetRefusal>,
    },
    /// A `before_loop` or `before_turn` hook denied.
    Hook {
        /// The reason that the hook gave.
        reason: String,
    },
    /// An input filter rejected the prompt. The prompt is not part of the conversation.
    InputFilter {
        /// The reason that the filter gave.
        reason: String,
    },
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunFailure {
    /// The model could not be called, or its reply could not be used.
    Model {
        /// The kind of the error.
        kind: ErrorKind,
        /// What happened and what to do. Names the provider and the model.
        message: String,
    },
    /// The run was interrupted: its task was dropped, its process ended, or a part of it panicked.
    Interrupted {
        /// What is known about the interruption.
        reason: String,
    },
}

impl RunEnd {
    /// Returns the end that a terminal event reports, and `None` for all other events. It is the end of the event's own
    /// loop: in a stream with branches or sub-agents, compare [`AgentEvent::loop_id`].
    #[must_use]
    pub fn of(event: &AgentEvent) -> Option<Self> {
        match event {
            AgentEvent::AgentEnd(end) => Some(Self::from(&**end)),
            AgentEvent::RunSuspended { questions, .. } => Some(Self::Suspended(questions.clone())),
            _ => None,
        }
    }

    pub(crate) fn new(ended: &Ended, messages: NewMessages, usage: Usage) -> Self {
        match ended.clone() {
            Ended::Completed => Self::Completed(RunReply { messages, usage }),
            Ended::Vetoed { reason } | Ended::TurnVetoed { reason } => {
                Self::Stopped(StopCause::Hook { reason })
            }
            Ended::InputRejected { reason } => Self::Stopped(StopCause::InputFilter { reason }),
            Ended::Limit { reason } => Self::Stopped(StopCause::Limit { reason }),
            Ended::Budget { refusal } => Self::Stopped(StopCause::Budget { refusal }),
            Ended::Aborted => Self::Aborted,
            Ended::Error { kind, message } => Self::Failed(RunFailure::Model { kind, message }),
            Ended::Interrupted { reason } => Self::Failed(RunFailure::Interrupted { reason }),
        }
    }

    /// Returns whether the run completed.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        matches!(self, Self::Completed(_))
    }

    /// Returns the reply of a completed run.
    ///
    /// # Errors
    /// Returns every other end unchanged.
    pub fn into_reply(self) -> Result<RunReply, Self> {
        match self {
            Self::Completed(reply) => Ok(reply),
            other => Err(other),
        }
    }
}

impl From<&AgentEnd> for RunEnd {
    fn from(end: &AgentEnd) -> Self {
        Self::new(&end.ended, end.messages.clone(), end.usage)
    }
}

/// Writes one sentence that describes the end and, where the caller can act, names the method to call.
impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed(_) => f.write_str("the run completed"),
            Self::Suspended(questions) => {
                write!(
                    f,
                    "the run waits for an answer to {} question(s); answer them with answer(), or abort()",
                    questions.len()
                )
            }
            Self::Stopped(StopCause::Limit { reason }) => {
                write!(f, "the run was stopped: {reason}; raise the limit with with_limits")
            }
            Self::Stopped(StopCause::Budget { refusal }) => {
                write!(f, "the run was stopped: {refusal}; raise the limit with Budget::raise")
            }
            Self::Stopped(StopCause::Hook { reason }) => write!(f, "a hook stopped the run: {reason}"),
            Self::Stopped(StopCause::InputFilter { reason }) => {
                write!(f, "an input filter rejected the prompt: {reason}")
            }
            Self::Aborted => f.write_str("the run was aborted"),
            Self::Failed(RunFailure::Model { message, .. }) => f.write_str(message),
            Self::Failed(RunFailure::Interrupted { reason }) => {
                write!(f, "the run was interrupted: {reason}")
            }
        }
    }
}

impl std::error::Error for RunEnd {}
