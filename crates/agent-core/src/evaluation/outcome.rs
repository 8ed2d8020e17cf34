//! The outcome of a branch.

use crate::drive::AgentContext;
use crate::event::{Ended, LoopConfigSnapshot, Question};
use crate::history::{History, MessageRef};
use crate::identity::LoopId;
use crate::message::{AssistantMessage, Usage};
use std::fmt;

/// The outcome of one branch.
#[derive(Clone)]
#[non_exhaustive]
pub struct ParallelLoopOutcome {
    /// The index of the branch, from 0.
    pub index: usize,
    /// The id of the branch's loop.
    pub loop_id: LoopId,
    /// The configuration of the branch.
    pub config: LoopConfigSnapshot,
    /// The context as the branch left it. It contains the run of a branch that waits for an answer, for
    /// [`agent_loop_answer`](crate::agent_loop_answer).
    pub context: AgentContext,
    /// The conversation with which the branch started.
    pub original_context: History,
    /// How many of the context's first messages are those with which the branch started: all of them, unless the
    /// branch compacted its history.
    pub original_context_len: usize,
    /// The messages of its run, including the prompts.
    pub new_messages: Vec<MessageRef>,
    /// The tokens of its turns.
    pub usage: Usage,
    /// The tokens that its tools used themselves, such as sub-agents.
    pub tool_usage: Usage,
    /// How the branch ended.
    pub end: BranchEnd,
}

/// Shows figures and ids, without the messages.
impl fmt::Debug for ParallelLoopOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParallelLoopOutcome")
            .field("index", &self.index)
            .field("loop_id", &self.loop_id)
            .field("context", &self.context)
            .field("new_messages", &self.new_messages.len())
            .field("usage", &self.usage)
            .finish_non_exhaustive()
    }
}

/// How a branch ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BranchEnd {
    /// The run of the branch ended.
    Ended(Ended),
    /// The run of the branch waits for answers.
    Suspended {
        /// The open questions of the run.
        questions: Vec<Question>,
    },
    /// The branch could not start.
    NotBegun {
        /// The reason for which it could not start.
        reason: String,
    },
    /// Code of the caller panicked where the run could not contain it.
    Panicked {
        /// The message of the panic.
        message: String,
    },
}

impl ParallelLoopOutcome {
    /// Creates the outcome of a branch without messages, for tests of strategies.
    #[must_use]
    pub fn new(index: usize, loop_id: impl Into<LoopId>, context: AgentContext, end: BranchEnd) -> Self {
        Self {
            index,
            loop_id: loop_id.into(),
            config: LoopConfigSnapshot::default(),
            original_context: context.history.clone(),
            original_context_len: context.history.len(),
            context,
            new_messages: Vec::new(),
            usage: Usage::default(),
            tool_usage: Usage::default(),
            end,
        }
    }

    /// Returns whether the branch completed its work.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.end == BranchEnd::Ended(Ended::Completed)
    }

    /// Returns whether a limit or a hook stopped the branch after it had produced a text.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        matches!(self.end, BranchEnd::Ended(Ended::Limit { .. } | Ended::TurnVetoed { .. }))
            && self.final_text().is_some()
    }

    /// Returns the text of the last successful reply, without calls, results and earlier turns. `None` if there is no
    /// such reply or it has no text.
    #[must_use]
    pub fn final_text(&self) -> Option<String> {
        let good = |m: &MessageRef| m.as_assistant().filter(|r| !r.is_failed()).cloned();
        let text = self.new_messages.iter().rev().find_map(good).as_ref().map(AssistantMessage::text)?;
        (!text.trim().is_empty()).then_some(text)
    }

    /// Returns the tokens of its turns and of its tools.
    #[must_use]
    pub fn total_usage(&self) -> Usage {
        self.usage.combine(&self.tool_usage)
    }
}
