//! [`SeedVerbs`]: methods of an agent's handle under other names.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::{AgentError, AgentHandle, AgentSnapshot, IntoPrompt};
use crate::drive::{EventReceiver, EventSender};
use crate::history::{MessageRef, Repair};
use crate::identity::{ContinuationKind, LoopId, SessionId, Timestamp, ToolCallId};
use crate::message::{AgentMessage, Content};
use crate::model::ModelConfig;
use crate::run::{QueueKind, QueueMode, SteeringPolicy};
use crate::tool::AgentTool;

/// Methods of [`AgentHandle`] under other names. A [`BasicAgent`](crate::BasicAgent) has them through its handle.
pub trait SeedVerbs {
    /// The same as `request(prompt).events_to(tx).start()`.
    ///
    /// # Errors
    /// As [`AgentHandle::prompt`].
    fn prompt_with_sender(
        &self,
        prompt: impl IntoPrompt,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError>;
    /// The same as `request(messages).events_to(tx).start()`.
    ///
    /// # Errors
    /// As [`AgentHandle::prompt`].
    fn prompt_messages_with_sender(
        &self,
        messages: Vec<AgentMessage>,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError>;
    /// The same as `request(prompt).merging(capacity).start()`.
    ///
    /// # Errors
    /// As [`AgentHandle::prompt`].
    fn prompt_merging(&self, prompt: impl IntoPrompt, capacity: usize) -> Result<EventReceiver, AgentError>;
    /// The same as [`AgentHandle::continue_run`].
    ///
    /// # Errors
    /// As [`AgentHandle::continue_run`].
    fn continue_from_context(&self) -> Result<EventReceiver, AgentError>;
    /// The same as `request(()).continuing(kind).start()`.
    ///
    /// # Errors
    /// As [`AgentHandle::continue_run`].
    fn continue_as(&self, kind: ContinuationKind) -> Result<EventReceiver, AgentError>;
    /// The same as `request(()).continuing(kind).events_to(tx).start()`.
    ///
    /// # Errors
    /// As [`AgentHandle::continue_run`].
    fn continue_with_sender(
        &self,
        kind: ContinuationKind,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError>;
    /// The same as `send(())`.
    ///
    /// # Errors
    /// As [`AgentHandle::send`].
    fn go_on(&self) -> Result<EventReceiver, AgentError>;
    /// The same as [`AgentHandle::snapshot`].
    fn checkpoint(&self) -> AgentSnapshot;
    /// The same as [`AgentHandle::update_tools`].
    fn change_tools(&self, change: impl FnOnce(&mut Vec<Arc<dyn AgentTool>>));
    /// Queues a steering message that does not extend a run: a run that has nothing else to do ends without it.
    fn steer_passively(&self, message: impl Into<AgentMessage>);
    /// Removes the queued steering messages.
    fn clear_steering_queue(&self);
    /// Removes the queued follow-up messages.
    fn clear_follow_up_queue(&self);
    /// The same as [`AgentHandle::clear_queues`].
    fn clear_all_queues(&self);
    /// Returns whether a message is queued.
    fn has_queued_messages(&self) -> bool;
    /// Returns the messages of one queue, oldest first.
    fn queued_messages(&self, kind: QueueKind) -> Vec<AgentMessage>;
    /// Returns the messages that the next step would take: steering first, otherwise follow-ups. Takes none.
    fn peek_queued_messages(&self) -> Vec<AgentMessage>;
    /// Returns how many steering messages enter at a time.
    fn steering_mode(&self) -> QueueMode;
    /// Returns how many follow-up messages enter at a time.
    fn follow_up_mode(&self) -> QueueMode;
    /// Returns what steering does to calls that have not started.
    fn steering_policy(&self) -> SteeringPolicy;
    /// Returns whether a run waits, for an answer or after an interruption.
    fn is_suspended(&self) -> bool;
    /// Returns the error of the last run.
    fn error_message(&self) -> Option<String>;
    /// Returns the last loop that was started.
    fn last_loop_id(&self) -> Option<LoopId>;
    /// Returns when the last run started.
    fn last_active_at(&self) -> Option<Timestamp>;
    /// Returns the model of the next run.
    fn model(&self) -> Arc<ModelConfig>;
    /// Returns the system prompt of the next run.
    fn system_prompt(&self) -> Arc<str>;
    /// Returns the tools of the next run.
    fn tools(&self) -> Vec<Arc<dyn AgentTool>>;
    /// Appends a message to the conversation.
    ///
    /// # Errors
    /// [`AgentError::Message`] for a message that cannot enter alone (a reply with calls, a result without its call), and
    /// as [`AgentHandle::replace_messages`].
    fn append_message(&self, message: impl Into<AgentMessage>) -> Result<(), AgentError>;
    /// Replaces the agent's conversation, ids and queues, as [`BasicAgent::restore`](crate::BasicAgent::restore).
    ///
    /// # Errors
    /// As [`BasicAgent::restore`](crate::BasicAgent::restore).
    fn load_snapshot(&self, snapshot: AgentSnapshot) -> Result<(), AgentError>;
    /// Starts a new session: a new id, and loops counted from 1. The conversation stays.
    fn new_session(&self) -> SessionId;
    /// Starts a new session if the last run started more than `threshold` ago. Returns the new id, or `None`.
    ///
    /// The new session's first [`AgentStart`](crate::AgentStart) names the reason and the previous session.
    fn check_and_rotate(&self, threshold: Duration) -> Option<SessionId>;
    /// The same as [`AgentHandle::messages`].
    fn get_context(&self) -> Vec<MessageRef>;
    /// Returns the messages as a JSON array.
    ///
    /// # Errors
    /// [`AgentError::Restore`] when a note's data cannot be written as JSON.
    fn save_messages(&self) -> Result<String, AgentError>;
    /// Replaces the conversation with a JSON array of messages, and returns what had to be repaired.
    ///
    /// # Errors
    /// [`AgentError::Restore`] when the text is not a list of messages, and as [`AgentHandle::replace_messages`].
    fn restore_messages(&self, json: &str) -> Result<Vec<Repair>, AgentError>;
    /// The same as `replace_messages(vec![])`. The queues and the error of the last run are retained.
    ///
    /// # Errors
    /// As [`AgentHandle::replace_messages`].
    fn clear_messages(&self) -> Result<(), AgentError>;
    /// The same as `replace_messages(vec![])`.
    ///
    /// # Errors
    /// As [`AgentHandle::replace_messages`].
    fn clear_context(&self) -> Result<(), AgentError>;
    /// Returns how [`AgentHandle::send`] without a message would record the continuation. It is a rerun if the
    /// conversation and the prompt are those of some point of the last loop, and a branch if they were changed.
    fn continuation_kind(&self) -> ContinuationKind;
    /// Replaces the content of a tool's result, for a run that continues from there as a branch.
    ///
    /// # Errors
    /// [`AgentError::NoResult`] when the conversation has no result of this call, and as
    /// The same as [`AgentHandle::replace_messages`].
    fn replace_tool_result(&self, call: impl Into<ToolCallId>, content: &[Content])
    -> Result<(), AgentError>;
}

impl SeedVerbs for AgentHandle {
    fn prompt_with_sender(
        &self,
        prompt: impl IntoPrompt,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError> {
        self.request(prompt).events_to(tx).start().map(drop)
    }

    fn prompt_messages_with_sender(
        &self,
        messages: Vec<AgentMessage>,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError> {
        self.request(messages).events_to(tx).start().map(drop)
    }

    fn prompt_merging(&self, prompt: impl IntoPrompt, capacity: usize) -> Result<EventReceiver, AgentError> {
        self.request(prompt).merging(capacity).start()
    }

    fn continue_from_context(&self) -> Result<EventReceiver, AgentError> {
        self.continue_run()
    }

    fn continue_as(&self, kind: ContinuationKind) -> Result<EventReceiver, AgentError> {
        self.request(()).continuing(kind).start()
    }

    fn continue_with_sender(
        &self,
        kind: ContinuationKind,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError> {
        self.request(()).continuing(kind).events_to(tx).start().map(drop)
    }

    fn go_on(&self) -> Result<EventReceiver, AgentError> {
        self.send(())
    }

    fn checkpoint(&self) -> AgentSnapshot {
        self.snapshot()
    }

    fn change_tools(&self, change: impl FnOnce(&mut Vec<Arc<dyn AgentTool>>)) {
        self.update_tools(change);
    }

    fn steer_passively(&self, message: impl Into<AgentMessage>) {
        self.queue(QueueKind::PassiveSteering, message.into());
    }

    fn clear_steering_queue(&self) {
        self.clear_queue(QueueKind::Steering);
    }

    fn clear_follow_up_queue(&self) {
        self.clear_queue(QueueKind::FollowUp);
    }

    fn clear_all_queues(&self) {
        self.clear_queues();
    }

    fn has_queued_messages(&self) -> bool {
        !self.queues().is_empty()
    }

    fn queued_messages(&self, kind: QueueKind) -> Vec<AgentMessage> {
        self.queues().of(kind).map(|q| q.entry.message().clone()).collect()
    }

    fn peek_queued_messages(&self) -> Vec<AgentMessage> {
        self.queues().peek().iter().map(|q| q.entry.message().clone()).collect()
    }

    fn steering_mode(&self) -> QueueMode {
        self.queues().modes().0
    }

    fn follow_up_mode(&self) -> QueueMode {
        self.queues().modes().1
    }

    fn steering_policy(&self) -> SteeringPolicy {
        self.config().policy.steering_policy
    }

    fn is_suspended(&self) -> bool {
        self.state().is_suspended
    }

    fn error_message(&self) -> Option<String> {
        self.state().error_message
    }

    fn last_loop_id(&self) -> Option<LoopId> {
        self.state().last_loop_id
    }

    fn last_active_at(&self) -> Option<Timestamp> {
        self.state().last_active_at
    }

    fn model(&self) -> Arc<ModelConfig> {
        self.state().model
    }

    fn system_prompt(&self) -> Arc<str> {
        self.state().system_prompt
    }

    fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        self.state().tools
    }

    fn append_message(&self, message: impl Into<AgentMessage>) -> Result<(), AgentError> {
        self.append(message)
    }

    fn load_snapshot(&self, snapshot: AgentSnapshot) -> Result<(), AgentError> {
        self.load(snapshot)
    }

    fn new_session(&self) -> SessionId {
        self.start_new_session()
    }

    fn check_and_rotate(&self, threshold: Duration) -> Option<SessionId> {
        self.rotate_if_idle(threshold)
    }

    fn get_context(&self) -> Vec<MessageRef> {
        self.messages()
    }

    fn save_messages(&self) -> Result<String, AgentError> {
        Ok(serde_json::to_string(&self.messages())?)
    }

    fn restore_messages(&self, json: &str) -> Result<Vec<Repair>, AgentError> {
        let messages: Vec<AgentMessage> = serde_json::from_str(json)?;
        self.replace_messages(messages)
    }

    fn clear_messages(&self) -> Result<(), AgentError> {
        self.replace_messages(Vec::new()).map(drop)
    }

    fn clear_context(&self) -> Result<(), AgentError> {
        self.clear_messages()
    }

    fn continuation_kind(&self) -> ContinuationKind {
        self.next_continuation()
    }

    fn replace_tool_result(
        &self,
        call: impl Into<ToolCallId>,
        content: &[Content],
    ) -> Result<(), AgentError> {
        self.change_tool_result(&call.into(), content)
    }
}
