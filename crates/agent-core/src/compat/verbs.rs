//! [`SeedVerbs`]: methods of an agent's handle under other names.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::{AgentError, AgentHandle, AgentSnapshot, IntoPrompt};
use crate::drive::{EventReceiver, EventSender};
use crate::history::{MessageRef, Repair};
use crate::identity::{ContinuationKind, LoopId, SessionId, SessionOrigin, Timestamp, ToolCallId};
use crate::message::{AgentMessage, Content};
use crate::model::ModelConfig;
use crate::run::{QueueKind, QueueMode, SteeringPolicy};
use crate::tool::AgentTool;

/// Methods of [`AgentHandle`] under other names. A [`BasicAgent`](crate::BasicAgent) has them through its handle.
pub trait SeedVerbs {
    /// Returns the handle whose methods the other methods call.
    fn as_handle(&self) -> &AgentHandle;

    /// The same as `request(prompt).events_to(tx).start()`.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::prompt`].
    fn prompt_with_sender(
        &self,
        prompt: impl IntoPrompt,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError> {
        self.as_handle().request(prompt).events_to(tx).start().map(drop)
    }

    /// The same as `request(messages).events_to(tx).start()`.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::prompt`].
    fn prompt_messages_with_sender(
        &self,
        messages: Vec<AgentMessage>,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError> {
        self.as_handle().request(messages).events_to(tx).start().map(drop)
    }

    /// The same as `request(prompt).merging(capacity).start()`.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::prompt`].
    fn prompt_merging(&self, prompt: impl IntoPrompt, capacity: usize) -> Result<EventReceiver, AgentError> {
        self.as_handle().request(prompt).merging(capacity).start()
    }

    /// The same as [`AgentHandle::continue_run`].
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::continue_run`].
    fn continue_from_context(&self) -> Result<EventReceiver, AgentError> {
        self.as_handle().continue_run()
    }

    /// The same as `request(()).continuing(kind).start()`.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::continue_run`].
    fn continue_as(&self, kind: ContinuationKind) -> Result<EventReceiver, AgentError> {
        self.as_handle().request(()).continuing(kind).start()
    }

    /// The same as `request(()).continuing(kind).events_to(tx).start()`.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::continue_run`].
    fn continue_with_sender(
        &self,
        kind: ContinuationKind,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError> {
        self.as_handle().request(()).continuing(kind).events_to(tx).start().map(drop)
    }

    /// The same as `send(())`.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::send`].
    fn go_on(&self) -> Result<EventReceiver, AgentError> {
        self.as_handle().send(())
    }

    /// The same as [`AgentHandle::snapshot`].
    fn checkpoint(&self) -> AgentSnapshot {
        self.as_handle().snapshot()
    }

    /// The same as [`AgentHandle::update_tools`].
    fn change_tools(&self, change: impl FnOnce(&mut Vec<Arc<dyn AgentTool>>)) {
        self.as_handle().update_tools(change);
    }

    /// Queues a steering message that does not extend a run: a run that has nothing else to do ends without it.
    fn steer_passively(&self, message: impl Into<AgentMessage>) {
        self.as_handle().inner.queue(QueueKind::PassiveSteering, message.into());
    }

    /// Removes the queued steering messages.
    fn clear_steering_queue(&self) {
        self.as_handle().inner.mailbox.clear(QueueKind::Steering);
    }

    /// Removes the queued follow-up messages.
    fn clear_follow_up_queue(&self) {
        self.as_handle().inner.mailbox.clear(QueueKind::FollowUp);
    }

    /// Removes the queued steering and follow-up messages. The results of deferred calls stay queued.
    fn clear_all_queues(&self) {
        self.clear_steering_queue();
        self.clear_follow_up_queue();
    }

    /// Returns whether a message is queued.
    fn has_queued_messages(&self) -> bool {
        !self.as_handle().inner.mailbox.view().is_empty()
    }

    /// Returns the messages of one queue, oldest first.
    fn queued_messages(&self, kind: QueueKind) -> Vec<AgentMessage> {
        let queues = self.as_handle().inner.mailbox.view();
        queues.of(kind).map(|q| q.entry.message().clone()).collect()
    }

    /// Returns the messages that the next step would take: steering first, otherwise follow-ups. Takes none.
    fn peek_queued_messages(&self) -> Vec<AgentMessage> {
        let next = self.as_handle().inner.mailbox.view().peek();
        next.iter().map(|q| q.entry.message().clone()).collect()
    }

    /// Returns how many steering messages enter at a time.
    fn steering_mode(&self) -> QueueMode {
        self.as_handle().inner.mailbox.view().modes().0
    }

    /// Returns how many follow-up messages enter at a time.
    fn follow_up_mode(&self) -> QueueMode {
        self.as_handle().inner.mailbox.view().modes().1
    }

    /// Returns what steering does to calls that have not started.
    fn steering_policy(&self) -> SteeringPolicy {
        self.as_handle().config().policy.steering_policy
    }

    /// Returns whether a run waits, for an answer or after an interruption.
    fn is_suspended(&self) -> bool {
        self.as_handle().state().is_suspended
    }

    /// Returns the error of the last run.
    fn error_message(&self) -> Option<String> {
        self.as_handle().state().error_message
    }

    /// Returns the last loop that was started.
    fn last_loop_id(&self) -> Option<LoopId> {
        self.as_handle().state().last_loop_id
    }

    /// Returns when the last run started.
    fn last_active_at(&self) -> Option<Timestamp> {
        self.as_handle().state().last_active_at
    }

    /// Returns the model of the next run.
    fn model(&self) -> Arc<ModelConfig> {
        self.as_handle().state().model
    }

    /// Returns the system prompt of the next run.
    fn system_prompt(&self) -> Arc<str> {
        self.as_handle().state().system_prompt
    }

    /// Returns the tools of the next run.
    fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        self.as_handle().state().tools
    }

    /// Appends a message to the conversation.
    ///
    /// # Errors
    /// Returns [`AgentError::Message`] for a message that cannot enter alone (a reply with calls, a result without its
    /// call), and the same errors as [`AgentHandle::replace_messages`].
    fn append_message(&self, message: impl Into<AgentMessage>) -> Result<(), AgentError> {
        self.as_handle().append(message)
    }

    /// Replaces the agent's conversation, ids and queues, as [`BasicAgent::restore`](crate::BasicAgent::restore).
    ///
    /// # Errors
    /// Returns the same errors as [`BasicAgent::restore`](crate::BasicAgent::restore).
    fn load_snapshot(&self, snapshot: AgentSnapshot) -> Result<(), AgentError> {
        self.as_handle().load(snapshot)
    }

    /// Starts a new session: a new id, and loops counted from 1. The conversation stays.
    fn new_session(&self) -> SessionId {
        self.as_handle().inner.start_session(SessionOrigin::Explicit)
    }

    /// Starts a new session if the agent has been idle for more than `threshold`. Returns the new id, or `None`.
    ///
    /// The idle time begins when the last run ends or is suspended. A session is never rotated during a run.
    ///
    /// The new session's first [`AgentStart`](crate::AgentStart) names the reason and the previous session.
    fn check_and_rotate(&self, threshold: Duration) -> Option<SessionId> {
        let agent = self.as_handle();
        let now = agent.config().services.environment.now();
        let idle = Duration::from_millis(now.millis_since(self.last_active_at()?));
        (idle > threshold && !agent.is_streaming()).then(|| {
            let (threshold_secs, previous_session_id) = (threshold.as_secs(), agent.session_id());
            agent.inner.start_session(SessionOrigin::Inactivity { threshold_secs, previous_session_id })
        })
    }

    /// The same as [`AgentHandle::messages`].
    fn get_context(&self) -> Vec<MessageRef> {
        self.as_handle().messages()
    }

    /// Returns the messages as a JSON array.
    ///
    /// # Errors
    /// Returns [`AgentError::Restore`] when a note's data cannot be written as JSON.
    fn save_messages(&self) -> Result<String, AgentError> {
        Ok(serde_json::to_string(&self.as_handle().messages())?)
    }

    /// Replaces the conversation with a JSON array of messages, and returns what had to be repaired.
    ///
    /// # Errors
    /// Returns [`AgentError::Restore`] when the text is not a list of messages, and the same errors as
    /// [`AgentHandle::replace_messages`].
    fn restore_messages(&self, json: &str) -> Result<Vec<Repair>, AgentError> {
        let messages: Vec<AgentMessage> = serde_json::from_str(json)?;
        self.as_handle().replace_messages(messages)
    }

    /// The same as `replace_messages(vec![])`. The queues and the error of the last run are retained.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::replace_messages`].
    fn clear_messages(&self) -> Result<(), AgentError> {
        self.as_handle().replace_messages(Vec::new()).map(drop)
    }

    /// The same as `replace_messages(vec![])`.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::replace_messages`].
    fn clear_context(&self) -> Result<(), AgentError> {
        self.as_handle().clear_messages()
    }

    /// Returns how [`AgentHandle::send`] without a message would record the continuation. It is a rerun if the
    /// conversation and the prompt are those of some point of the last loop, and a branch if they were changed.
    fn continuation_kind(&self) -> ContinuationKind {
        self.as_handle().inner.continuation_kind()
    }

    /// Replaces the content of a tool's result, for a run that continues from there as a branch.
    ///
    /// # Errors
    /// Returns [`AgentError::NoResult`] when the conversation has no result of this call, and the same errors as
    /// [`AgentHandle::replace_messages`].
    fn replace_tool_result(
        &self,
        call: impl Into<ToolCallId>,
        content: &[Content],
    ) -> Result<(), AgentError> {
        self.as_handle().check_idle()?;
        self.as_handle().inner.replace_tool_result(&call.into(), content)
    }
}

impl SeedVerbs for AgentHandle {
    fn as_handle(&self) -> &AgentHandle {
        self
    }
}
