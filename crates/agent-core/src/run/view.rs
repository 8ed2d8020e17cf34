//! What can be seen of a run.

use super::{GateAt, Phase, QueueKind, Queued, Queues, Run, RunSetup, Step};
use crate::budget::{AtLimit, BudgetSnapshot, Spending};
use crate::event::{Ended, Question, ToolExecutionEnd};
use crate::history::{History, MessageRef};
use crate::identity::{LoopId, Part, StepKey, Timestamp, ToolCallId, joined};
use crate::message::{CostConfig, Usage};

impl Run {
    /// The loop's id.
    #[must_use]
    pub fn loop_id(&self) -> &LoopId {
        &self.setup.loop_id
    }

    /// What it runs with.
    #[must_use]
    pub fn setup(&self) -> &RunSetup {
        &self.setup
    }

    /// The closed conversation.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The reply whose calls are open, if there is one; it enters the history with their results.
    #[must_use]
    pub fn open_reply(&self) -> Option<&MessageRef> {
        match &self.phase {
            Phase::Tools(open) => Some(open.reply().shared()),
            _ => None,
        }
    }

    /// Whether a reply is awaited whose beginning has been said.
    #[must_use]
    pub fn reply_has_begun(&self) -> bool {
        matches!(self.phase, Phase::Calling { started: true, .. })
    }

    /// The messages of this run so far, superseded ones aside.
    #[must_use]
    pub fn new_messages(&self) -> &[MessageRef] {
        &self.new_messages
    }

    /// Tokens used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage.combine(&self.turn.usage)
    }

    /// Tokens that calls used themselves so far: those of sub-agents.
    #[must_use]
    pub fn tool_usage(&self) -> Usage {
        self.tool_usage
    }

    /// The index of the turn that is open or comes next.
    #[must_use]
    pub fn turn_index(&self) -> u32 {
        self.turn.index
    }

    /// Tokens of the context as far as they are known (D12).
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        self.context.current_tokens(&self.history)
    }

    /// The time of the last input.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Messages that wait in a queue.
    pub fn queued(&self, kind: QueueKind) -> impl Iterator<Item = &Queued> {
        self.queues.of(kind)
    }

    /// Takes all queued messages out, for the handle to keep when the run has ended.
    #[must_use]
    pub fn take_queues(&mut self) -> Vec<Queued> {
        self.queues.take_all()
    }

    /// How it ended; `None` while it is open.
    #[must_use]
    pub fn ended(&self) -> Option<&Ended> {
        match &self.phase {
            Phase::Done(ended) => Some(ended),
            _ => None,
        }
    }

    /// What it waits for a person to answer, whether or not something else goes on.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        match &self.phase {
            Phase::GateAsked { question, .. } => vec![question.clone()],
            Phase::BudgetAsked(asked) => vec![asked.question.clone()],
            Phase::Tools(open) => open.questions().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// The queues as they are.
    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Whether something can be decided about this call now.
    pub(crate) fn may_begin(&self, id: &ToolCallId) -> bool {
        matches!(&self.phase, Phase::Tools(open) if open.may_begin(id))
    }

    /// The end of a call whose result a hook may still change.
    #[must_use]
    pub fn result_up_for_review(&self, id: &ToolCallId) -> Option<ToolExecutionEnd> {
        let Phase::Tools(open) = &self.phase else { return None };
        open.up_for_review(id, &self.setup.loop_id)
    }

    /// Whether `AgentStart` has been said.
    pub(crate) fn has_started(&self) -> bool {
        !matches!(
            &self.phase,
            Phase::Gate(GateAt::Loop)
                | Phase::GateAsked { gate: GateAt::Loop, .. }
                | Phase::Done(Ended::Vetoed { .. })
        )
    }

    /// Whether the caller aborted, and calls were given time to end.
    pub(crate) fn is_aborting(&self) -> bool {
        matches!(&self.phase, Phase::Tools(open) if open.aborting)
    }

    /// Whether nothing goes on without an answer.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        matches!(self.next(), Step::AwaitAnswer { .. })
    }

    pub(super) fn pauses_at_limit(&self) -> bool {
        self.setup.budget.as_ref().is_some_and(|b| b.at_limit == AtLimit::Pause)
    }

    pub(super) fn prices(&self) -> &CostConfig {
        static NONE: CostConfig = CostConfig::unknown();
        match self.route() {
            Some(route) => &route.prices,
            None => self.setup.budget.as_ref().map_or(&NONE, |b| &b.prices),
        }
    }

    /// What the run spent of its budget: its own calls, and its tools with their sub-agents. `None` without a budget.
    #[must_use]
    pub fn spent(&self) -> Option<Spending> {
        self.setup.budget.as_ref().map(|_| self.budget.own.plus(&self.budget.tools))
    }

    /// The accounts of its budget as far as the run knows them, for another process that goes on with it.
    #[must_use]
    pub fn budget(&self) -> &BudgetSnapshot {
        &self.budget.known
    }

    /// What its own calls cost so far.
    pub(crate) fn own_spending(&self) -> Spending {
        self.budget.own
    }

    /// What is set aside for the call of the model that is being made.
    pub(crate) fn granted(&self) -> Option<Spending> {
        self.budget.granted.as_ref().map(|g| g.amounts)
    }

    /// The name of the model call that is open or comes next.
    pub(super) fn model_key(&self) -> StepKey {
        let (turn, attempt) = (self.turn.index.into(), self.turn.attempt.into());
        let parts = [Part::Text("model-"), Part::Number(turn), Part::Text("."), Part::Number(attempt)];
        StepKey::from(joined(&parts))
    }
}
