//! Steering, queues, abort, reset.

use std::sync::Arc;

use super::{AgentState, BasicAgent};
use crate::drive::Audience as _;
use crate::drive::{EventSender, Output, QueueView};
use crate::history::{Entry, History, MessageRef};
use crate::message::AgentMessage;
use crate::run::{Input, QueueKind, QueueMode, Queued, SteeringPolicy};

impl BasicAgent {
    /// Queues a message for the next call of the model. An agent that would stop goes on; calls that have not begun are
    /// skipped where the policy says so (D1).
    pub fn steer(&self, message: impl Into<AgentMessage>) {
        self.queue(QueueKind::Steering, message.into());
    }

    /// Like [`steer`](Self::steer), but the message does not keep an agent going that would stop (B-044).
    pub fn steer_passively(&self, message: impl Into<AgentMessage>) {
        self.queue(QueueKind::PassiveSteering, message.into());
    }

    /// Queues a message for when nothing else is left to do.
    pub fn follow_up(&self, message: impl Into<AgentMessage>) {
        self.queue(QueueKind::FollowUp, message.into());
    }

    fn queue(&self, kind: QueueKind, message: AgentMessage) {
        let counter = self.settings().config.token_counter.clone();
        let tokens = counter.count_message(&message);
        self.inner.mailbox.queue(Queued::new(kind, Entry::new(MessageRef::new(message), tokens)));
    }

    /// Empties the steering queue.
    pub fn clear_steering_queue(&self) {
        self.inner.mailbox.clear(QueueKind::Steering);
    }

    /// Empties the follow-up queue.
    pub fn clear_follow_up_queue(&self) {
        self.inner.mailbox.clear(QueueKind::FollowUp);
    }

    /// Empties both queues.
    pub fn clear_all_queues(&self) {
        self.clear_steering_queue();
        self.clear_follow_up_queue();
    }

    /// Whether a message is queued.
    #[must_use]
    pub fn has_queued_messages(&self) -> bool {
        !self.queues().is_empty()
    }

    /// The messages of a queue, oldest first.
    #[must_use]
    pub fn queued_messages(&self, kind: QueueKind) -> Vec<AgentMessage> {
        self.queues().of(kind).map(|q| q.entry.message().clone()).collect()
    }

    /// What the next drain would give: steering first, else follow-ups. Nothing is taken (B-041).
    #[must_use]
    pub fn peek_queued_messages(&self) -> Vec<AgentMessage> {
        self.queues().peek().iter().map(|q| q.entry.message().clone()).collect()
    }

    fn queues(&self) -> QueueView {
        self.inner.mailbox.view()
    }

    /// How many steering messages are taken at once.
    #[must_use]
    pub fn steering_mode(&self) -> QueueMode {
        self.queues().modes().0
    }

    /// How many follow-ups are taken at once.
    #[must_use]
    pub fn follow_up_mode(&self) -> QueueMode {
        self.queues().modes().1
    }

    /// What steering does to calls that have not begun.
    #[must_use]
    pub fn steering_policy(&self) -> SteeringPolicy {
        self.settings().config.steering_policy
    }

    /// Ends the open run: the model's answer is cut, tools are cancelled. What was said is kept. A run that waits for an
    /// answer ends, and so do branches that are being explored. Without any of them nothing happens.
    pub fn abort(&self) {
        let branches = {
            let mut state = self.lock();
            if let Some(cancel) = &state.cancel {
                cancel.cancel();
            }
            std::mem::take(&mut state.explorations)
        };
        branches.cancel();
        // A run that waits is ended like any other, with journal and hooks; without a runtime by hand.
        if !self.is_suspended() || self.resume_with(Some(Input::abort(None)), EventSender::none()).is_ok() {
            return;
        }
        let now = self.settings().config.environment.now();
        let suspended = self.lock().suspended.take();
        let Some(mut run) = suspended else { return };
        let mut events = Vec::new();
        // A run that was cut off elsewhere may wait for calls that nobody runs; the second abort ends these.
        for _ in 0..2 {
            if run.ended().is_none() {
                let _ = run.apply(now, Input::abort(None), &mut events);
            }
        }
        for event in &events {
            self.lock().reduce(event);
            self.inner.listeners.tell_now(event);
        }
        self.inner.settle(*run, &Output::to(EventSender::none()));
    }

    /// Aborts the open run, waits for its end, and forgets conversation, queues and error. Model, tools and system prompt
    /// stay (REQ-065, D39).
    pub async fn reset(&self) {
        self.abort();
        self.wait_for_idle().await;
        self.clear_all_queues();
        self.inner.prefixes.forget();
        let mut state = self.lock();
        state.history = History::new();
        state.rewound = false;
        state.tail.clear();
        state.error = None;
        state.pending.clear();
        state.stream_message = None;
        state.suspended = None;
    }

    /// Whether a run is open.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.lock().is_streaming
    }

    /// Whether a run waits for an answer.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.lock().suspended.is_some()
    }

    /// What a run waits for a person to answer.
    #[must_use]
    pub fn questions(&self) -> Vec<crate::event::Question> {
        self.lock().suspended.as_ref().map(|run| run.questions()).unwrap_or_default()
    }

    /// The error of the last run.
    #[must_use]
    pub fn error_message(&self) -> Option<String> {
        self.lock().error.clone()
    }

    /// All that the agent knows now. May be called from a listener.
    #[must_use]
    pub fn state(&self) -> AgentState {
        let settings = self.settings().clone();
        let state = self.lock();
        AgentState {
            system_prompt: settings.system_prompt,
            model: Arc::clone(&settings.config.model),
            thinking_level: settings.config.thinking_level,
            tools: settings.tools.tools().to_vec(),
            messages: state.messages(),
            is_streaming: state.is_streaming,
            stream_message: state.stream_message.clone(),
            pending_tool_calls: state.pending.clone(),
            error_message: state.error.clone(),
        }
    }
}
