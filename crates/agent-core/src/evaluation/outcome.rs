//! What became of branches.

use crate::drive::AgentContext;
use crate::event::{Ended, LoopConfigSnapshot, Question};
use crate::history::{History, MessageRef};
use crate::identity::LoopId;
use crate::message::{AssistantMessage, Message, Usage};

/// What became of one branch (REQ-198).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ParallelLoopOutcome {
    /// Its place among the branches, from 0.
    pub index: usize,
    /// Its loop.
    pub loop_id: LoopId,
    /// What it ran with.
    pub config: LoopConfigSnapshot,
    /// The context as the branch left it. A run that waits for an answer is in it, for
    /// [`agent_loop_answer`](crate::agent_loop_answer).
    pub context: AgentContext,
    /// The conversation that it began with.
    pub original_context: History,
    /// How many of the context's first messages are those that it began with: all of them, unless the branch shortened its
    /// history (REQ-206).
    pub original_context_len: usize,
    /// The messages of its run, prompts included.
    pub new_messages: Vec<MessageRef>,
    /// Tokens of its turns.
    pub usage: Usage,
    /// Tokens that its tools used themselves: those of sub-agents.
    pub tool_usage: Usage,
    /// How it came back.
    pub end: BranchEnd,
}

/// How a branch came back.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BranchEnd {
    /// Its run ended.
    Ended(Ended),
    /// Its run waits for answers.
    Suspended {
        /// What is asked.
        questions: Vec<Question>,
    },
    /// It could not begin.
    NotBegun {
        /// Why.
        reason: String,
    },
    /// Code of the caller's panicked where no run could catch it.
    Panicked {
        /// What the panic said.
        message: String,
    },
}

impl ParallelLoopOutcome {
    /// An outcome of a branch that said nothing: what tests of strategies begin with.
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

    /// Whether it did all that there was to do.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.end == BranchEnd::Ended(Ended::Completed)
    }

    /// Whether a limit or a hook stopped it after it had said something.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        matches!(self.end, BranchEnd::Ended(Ended::Limit { .. } | Ended::TurnVetoed { .. }))
            && self.final_text().is_some()
    }

    /// The text of its last good reply; calls, results and earlier turns are not in it. `None` where there is no such reply
    /// or it has no text.
    #[must_use]
    pub fn final_text(&self) -> Option<String> {
        let good =
            |m: &MessageRef| m.as_llm().and_then(Message::as_assistant).filter(|r| !r.is_failed()).cloned();
        let text = self.new_messages.iter().rev().find_map(good).as_ref().map(AssistantMessage::text)?;
        (!text.trim().is_empty()).then_some(text)
    }

    /// Tokens of its turns and of its tools.
    #[must_use]
    pub fn total_usage(&self) -> Usage {
        self.usage.combine(&self.tool_usage)
    }
}
