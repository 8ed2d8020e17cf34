//! Accessors of a run.

use std::sync::LazyLock;
use std::time::Duration;

use super::{GateAt, NewMessages, Phase, QueueKind, Queued, Queues, Run, RunSetup};
use crate::budget::{AtLimit, BudgetSnapshot, Spending};
use crate::event::{AgentEvent, Ended, NumberedEvent, Question, ToolExecutionEnd};
use crate::history::{History, MessageRef};
use crate::identity::{LoopId, Part, StepKey, Timestamp, ToolCallId, ToolName, joined};
use crate::message::{CostConfig, Usage};

impl Run {
    /// Returns the id of the loop.
    #[must_use]
    pub fn loop_id(&self) -> &LoopId {
        &self.setup.loop_id
    }

    /// Returns the setup of the run.
    #[must_use]
    pub fn setup(&self) -> &RunSetup {
        &self.setup
    }

    /// Returns the conversation without an open exchange.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the reply whose calls are open. It enters the history together with their results.
    #[must_use]
    pub fn open_reply(&self) -> Option<&MessageRef> {
        match &self.phase {
            Phase::Tools(open) => Some(open.reply.shared()),
            _ => None,
        }
    }

    /// Returns whether the run waits for a reply whose start has been emitted.
    #[must_use]
    pub fn reply_has_begun(&self) -> bool {
        matches!(self.phase, Phase::Calling { started: true, .. })
    }

    /// Returns the messages of this run so far, without superseded ones.
    #[must_use]
    pub fn new_messages(&self) -> &NewMessages {
        &self.new_messages
    }

    /// Returns the number of events that the run has emitted so far, in all processes. It is the
    /// [number](NumberedEvent::number) of the last one.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.emitted
    }

    /// Returns the number of answers that the run has received so far, in all processes. Only child loops count them; 0 for
    /// any other run.
    #[must_use]
    pub fn answer_count(&self) -> u64 {
        self.answers
    }

    /// Numbers events: the last ones that [`start`](Self::start) or [`apply`](Self::apply) appended, in order. Live
    /// events between or after them get the number of the event before them.
    #[must_use]
    pub fn numbered(&self, events: Vec<AgentEvent>) -> Vec<NumberedEvent> {
        let recorded = events.iter().filter(|event| !event.is_live()).count();
        let mut number = self.number_before(recorded);
        let number = |event: AgentEvent| {
            number += u64::from(!event.is_live());
            self.numbered_as(number, event)
        };
        events.into_iter().map(number).collect()
    }

    /// Returns the number of the event before the last `count` ones.
    pub(crate) fn number_before(&self, count: usize) -> u64 {
        self.emitted.saturating_sub(count as u64)
    }

    /// Returns an event of this run with its number, and the place of its loop.
    pub(crate) fn numbered_as(&self, number: u64, event: AgentEvent) -> NumberedEvent {
        let parent_loop_id = self.setup.parent_loop_id.clone();
        NumberedEvent { number, depth: self.setup.depth, parent_loop_id, event }
    }

    /// Returns the tokens used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage.combine(&self.turn.usage)
    }

    /// Returns the tokens that tool calls used themselves, such as sub-agents.
    #[must_use]
    pub fn tool_usage(&self) -> Usage {
        self.tool_usage
    }

    /// Returns the index of the open or next turn.
    #[must_use]
    pub fn turn_index(&self) -> u32 {
        self.turn.index
    }

    /// Returns the tokens of the context, as far as they are known.
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        self.context.current_tokens(&self.history)
    }

    /// Returns the time of the last input.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the messages that wait in a queue.
    pub fn queued(&self, kind: QueueKind) -> impl Iterator<Item = &Queued> {
        self.queues.of(kind)
    }

    /// Removes and returns all queued messages, so that the agent keeps them when the run has ended.
    #[must_use]
    pub fn take_queues(&mut self) -> Vec<Queued> {
        self.queues.take_all()
    }

    /// Returns how the run ended; `None` while it is open.
    #[must_use]
    pub fn ended(&self) -> Option<&Ended> {
        match &self.phase {
            Phase::Done(ended) => Some(ended),
            _ => None,
        }
    }

    /// Returns the open questions to the user, whether or not other work continues.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        match &self.phase {
            Phase::GateAsked { question, .. } => vec![question.clone()],
            Phase::BudgetAsked(asked) => vec![asked.question.clone()],
            Phase::Tools(open) => open.questions().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the tools without which the run cannot continue: those of its calls that wait for an answer, were allowed, or
    /// have begun. A call about which nothing is decided needs none, because models also call tools that do not exist.
    #[must_use]
    pub fn needed_tools(&self) -> Vec<ToolName> {
        match &self.phase {
            Phase::Tools(open) => open.decided().map(|call| call.name.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the current queues.
    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Returns whether a decision about this call is possible now.
    #[must_use]
    pub fn may_begin(&self, id: &ToolCallId) -> bool {
        matches!(&self.phase, Phase::Tools(open) if open.may_begin(id))
    }

    /// Returns the end of a call whose result a hook may still change.
    #[must_use]
    pub fn result_up_for_review(&self, id: &ToolCallId) -> Option<ToolExecutionEnd> {
        let Phase::Tools(open) = &self.phase else { return None };
        open.up_for_review(id, &self.setup.loop_id)
    }

    /// Returns whether `AgentStart` has been emitted.
    #[must_use]
    pub fn has_started(&self) -> bool {
        !matches!(
            &self.phase,
            Phase::Gate(GateAt::Loop)
                | Phase::GateAsked { gate: GateAt::Loop, .. }
                | Phase::Done(Ended::Vetoed { .. })
        )
    }

    /// Returns whether the run was aborted and waits for running calls to end.
    #[must_use]
    pub fn is_aborting(&self) -> bool {
        matches!(&self.phase, Phase::Tools(open) if open.aborting)
    }

    /// Returns whether a turn has ended and the run waits for the queued messages.
    pub(crate) fn is_between_turns(&self) -> bool {
        matches!(self.phase, Phase::BetweenTurns { .. })
    }

    /// Returns whether the run can only continue with an answer.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        match &self.phase {
            Phase::GateAsked { .. } | Phase::BudgetAsked(_) => true,
            Phase::Tools(open) => open.current_group().is_none(),
            _ => false,
        }
    }

    /// Returns the time until the run reaches its maximum duration at `now`; `None` without that limit or after the end
    /// of the run. A driver that performs a step for longer ends it with [`Input::TimeUp`](super::Input).
    #[must_use]
    pub fn time_left(&self, now: Timestamp) -> Option<Duration> {
        let now = if self.is_suspended() { self.now } else { now };
        self.tracker.time_left(now).filter(|_| self.ended().is_none())
    }

    pub(super) fn pauses_at_limit(&self) -> bool {
        self.setup.budget.as_ref().is_some_and(|b| b.at_limit == AtLimit::Pause)
    }

    pub(super) fn prices(&self) -> &CostConfig {
        static NONE: LazyLock<CostConfig> = LazyLock::new(CostConfig::default);
        match self.route() {
            Some(route) => &route.prices,
            None => self.setup.budget.as_ref().map_or(&NONE, |b| &b.prices),
        }
    }

    /// Returns what the run has spent of its budget, including its tools and their sub-agents. `None` without a
    /// budget.
    #[must_use]
    pub fn spent(&self) -> Option<Spending> {
        self.setup.budget.as_ref().map(|_| self.budget.own.plus(&self.budget.tools))
    }

    /// Returns the accounts of the budget as far as the run knows them, for another process that resumes the run.
    #[must_use]
    pub fn budget(&self) -> &BudgetSnapshot {
        &self.budget.known
    }

    /// Returns the cost of the run's own calls so far.
    #[must_use]
    pub fn own_spending(&self) -> Spending {
        self.budget.own
    }

    /// Returns the reservation for the model call that is being made.
    #[must_use]
    pub fn granted(&self) -> Option<Spending> {
        self.budget.granted.as_ref().map(|g| g.amounts)
    }

    /// Returns the key of the open or next model call.
    pub(super) fn model_key(&self) -> StepKey {
        let (turn, attempt) = (self.turn.index.into(), self.turn.attempt.into());
        let parts = [Part::Text("model-"), Part::Number(turn), Part::Text("."), Part::Number(attempt)];
        StepKey::from(joined(&parts))
    }
}
