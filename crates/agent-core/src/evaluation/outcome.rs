//! The outcome of a branch.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::drive::{AgentContext, Driven, GroupLoop, messages_of};
use crate::event::{Ended, LoopConfigSnapshot, Question};
use crate::history::History;
use crate::identity::LoopId;
use crate::message::Usage;
use crate::run::{ChildEnd, NewMessages, Run};

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
    /// The messages of its run, including the prompts. Some can be only in the store.
    pub new_messages: NewMessages,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
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

impl BranchEnd {
    /// Returns whether the branch waits for an answer about a call that had started when a process ended.
    #[must_use]
    pub fn has_unknown_outcome(&self) -> bool {
        matches!(self, Self::Suspended { questions } if questions.iter().any(|q| q.outcome_unknown))
    }
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
            new_messages: NewMessages::default(),
            usage: Usage::default(),
            tool_usage: Usage::default(),
            end,
        }
    }

    /// Returns the outcome of a branch from its run, which has ended or waits for an answer.
    #[must_use]
    pub fn of_run(index: usize, branch: &GroupLoop, run: Run) -> Self {
        Self::of(index, branch, Driven::Run(Box::new(run)))
    }

    pub(crate) fn of(index: usize, branch: &GroupLoop, driven: Driven) -> Self {
        let original = branch.context.history.clone();
        let mut context = branch.context.clone();
        let (end, run) = match driven {
            Driven::NotBegun(reason) => (BranchEnd::NotBegun { reason }, None),
            Driven::Panicked(message, run) => (BranchEnd::Panicked { message }, run),
            Driven::Ended(end) => return Self::of_record(index, branch, *end),
            Driven::Run(run) => match run.ended() {
                Some(ended) => (BranchEnd::Ended(ended.clone()), Some(run)),
                None => (BranchEnd::Suspended { questions: run.questions() }, Some(run)),
            },
        };
        let mut outcome = Self::of_loop(index, branch, end);
        if let Some(run) = run {
            outcome.usage = run.usage();
            outcome.tool_usage = run.tool_usage();
            outcome.new_messages = messages_of(&run);
            context.history = run.history().clone();
            if run.ended().is_none() {
                context.suspended = Some(run);
            }
        }
        outcome.with_context(context, original)
    }

    /// Returns the outcome of a branch that had ended, from its record.
    fn of_record(index: usize, branch: &GroupLoop, end: ChildEnd) -> Self {
        let mut outcome = Self::of_loop(index, branch, BranchEnd::Ended(end.ended));
        (outcome.usage, outcome.tool_usage) = (end.turn_usage, end.tool_usage);
        if !matches!(outcome.end, BranchEnd::Ended(Ended::InputRejected { .. } | Ended::Vetoed { .. })) {
            outcome.new_messages = end.messages;
        }
        let context = AgentContext { history: end.history, ..branch.context.clone() };
        outcome.with_context(context, branch.context.history.clone())
    }

    fn of_loop(index: usize, branch: &GroupLoop, end: BranchEnd) -> Self {
        let loop_id = branch.context.loop_id.clone().unwrap_or_else(|| "".into());
        let config = branch.config.snapshot();
        Self { config, ..Self::new(index, loop_id, AgentContext::default(), end) }
    }

    /// Sets the context as the branch left it.
    fn with_context(mut self, context: AgentContext, original: History) -> Self {
        let mut shared = context.history.shared_units(&original);
        // The messages of a record are equal to those of the agent and not shared with them.
        let rest = context.history.units().zip(original.units()).skip(shared);
        shared += rest.take_while(|(own, before)| own.entries() == before.entries()).count();
        self.original_context_len = original.units().take(shared).map(|u| u.entries().len()).sum();
        (self.context, self.original_context) = (context, original);
        self
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
        let text = self.new_messages.last_text(|reply| !reply.is_failed())?;
        (!text.trim().is_empty()).then_some(text)
    }

    /// Returns the tokens of its turns and of its tools.
    #[must_use]
    pub fn total_usage(&self) -> Usage {
        self.usage.combine(&self.tool_usage)
    }
}
