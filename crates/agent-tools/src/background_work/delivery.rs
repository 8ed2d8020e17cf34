//! Connects the work to its agent: delivers ends, follows aborts, and answers the calls of an earlier process.

use std::sync::{Arc, Weak};

use agent_core::agent::WeakAgent;
use agent_core::event::Ended;
use agent_core::message::DeferredCall;
use agent_core::{
    AgentError, AgentEvent, AgentHandle, AgentMessage, HistoryError, Message, Timestamp, ToolContext,
    ToolResult,
};
use serde_json::json;

use super::job::HANDLE_PREFIX;
use super::{AfterAbort, BackgroundError, BackgroundWork, Shared, WhenIdle, WorkInfo, WorkState};

/// The result of a call whose process ended before the work did, or before it could report the end.
pub const OUTCOME_UNKNOWN: &str = "The work ended with the process that ran it, and its outcome is unknown. Its output is \
     gone. Check what it has done before you start it again.";

/// Ends all work when the agent, whose listener has it, is dropped.
struct WithAgent(Weak<Shared>);

impl Drop for WithAgent {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.cancel(WorkState::Aborted, |_| true);
        }
    }
}

impl BackgroundWork {
    /// Connects the work to an agent, whose tools start it and whose conversation receives the ends.
    ///
    /// Call it after the agent was restored from a session or a snapshot. Calls whose work ran in an earlier process get
    /// the result that the work has ended and that its outcome is unknown; these calls are returned. Without this method,
    /// nothing can start in the background. Another call for the same agent only answers such calls.
    ///
    /// # Errors
    /// Returns [`BackgroundError::AttachedElsewhere`] if another agent is attached and still exists.
    pub fn attach(&self, agent: &AgentHandle) -> Result<Vec<DeferredCall>, BackgroundError> {
        // Not under the lock: if this is the last handle of the other agent, dropping it ends its work, which locks the list.
        match self.agent() {
            Some(attached) if attached.agent_id() != agent.agent_id() => {
                return Err(BackgroundError::AttachedElsewhere);
            }
            Some(_) => {}
            None => {
                self.follow(agent);
                self.shared.inner().attached = Some(agent.downgrade());
            }
        }
        Ok(self.answer_lost(agent))
    }

    /// Listens for aborted runs of the agent.
    fn follow(&self, agent: &AgentHandle) {
        let (shared, after_abort) = (Arc::downgrade(&self.shared), self.after_abort);
        let with_agent = WithAgent(Weak::clone(&shared));
        let handle = agent.downgrade();
        let subscription = agent.subscribe(move |event| {
            let _bound = &with_agent;
            let AgentEvent::AgentEnd(end) = event else { return };
            let is_aborted = end.ended == Ended::Aborted && after_abort == AfterAbort::End;
            let is_own = || handle.upgrade().and_then(|agent| agent.snapshot().last_loop_id);
            if is_aborted
                && is_own().as_ref() == Some(&end.loop_id)
                && let Some(shared) = shared.upgrade()
            {
                shared.cancel(WorkState::Aborted, |_| true);
            }
        });
        // A subscription would keep the listener when the agent is dropped.
        drop(subscription);
    }

    /// Answers the calls of which this process knows no work.
    fn answer_lost(&self, agent: &AgentHandle) -> Vec<DeferredCall> {
        let snapshot = agent.snapshot();
        let waiting = match &snapshot.suspended {
            Some(run) => run.deferred(),
            None => snapshot.history.deferred(),
        };
        let is_known =
            |call: &DeferredCall| self.shared.inner().works.values().any(|work| work.info.id == call.handle);
        let mut lost = Vec::new();
        for call in waiting {
            if !call.handle.as_str().starts_with(HANDLE_PREFIX) || is_known(&call) {
                continue;
            }
            let details = json!({"background": {"id": call.handle, "state": WorkState::Lost.name()}});
            let result = ToolResult::error(OUTCOME_UNKNOWN).with_details(details);
            // An error means that the call has a result already, which waits for the next run.
            if agent.complete(call.tool_call_id.clone(), result).is_ok() {
                lost.push(call);
            }
        }
        lost
    }

    fn agent(&self) -> Option<AgentHandle> {
        self.shared.inner().attached.as_ref().and_then(WeakAgent::upgrade)
    }

    /// Checks that the call was made by the loop of the attached agent.
    pub(super) fn check_loop(&self, ctx: &ToolContext) -> Result<(), BackgroundError> {
        let agent = self.agent().ok_or(BackgroundError::NotAttached)?;
        match agent.snapshot().last_loop_id {
            Some(id) if id == ctx.loop_id => Ok(()),
            _ => Err(BackgroundError::OtherLoop),
        }
    }

    /// Returns the time of the agent.
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.agent().map(|agent| agent.config().services.environment.now())
    }

    /// Queues the result of the call. An agent that has forgotten the call (`reset`) does not receive it.
    pub(super) fn deliver(&self, info: &WorkInfo, result: &ToolResult) {
        let Some(agent) = self.agent() else { return };
        match agent.complete(info.call.clone(), result.clone()) {
            Ok(()) => {}
            // The conversation has a result already, or was cleared.
            Err(AgentError::Message(HistoryError::AlreadyCompleted(_) | HistoryError::UnknownCall(_))) => {}
            // A hook has replaced the result that said that the work continues.
            Err(_) => agent.steer(AgentMessage::user(result.to_text())),
        }
    }

    /// Starts a run with the message of this work if no run takes it. Work that was aborted starts none.
    pub(super) async fn wake(&self, number: u64) {
        let info = self.shared.inner().works.get(&number).map(|work| work.info.clone());
        let Some(info) = info else { return };
        if self.when_idle == WhenIdle::Wait || info.state == WorkState::Aborted {
            return;
        }
        while let Some(agent) = self.agent().filter(|agent| is_queued(agent, &info)) {
            match agent.continue_run() {
                Ok(events) => return drop(events),
                // The run that is open may take the message, or end without it.
                Err(AgentError::Busy) => agent.wait_for_idle().await,
                // A run that waits for an answer takes the message when it is resumed.
                Err(_) => return,
            }
        }
    }
}

/// Returns whether the message with the result of the call waits for a run.
fn is_queued(agent: &AgentHandle, info: &WorkInfo) -> bool {
    agent.snapshot().queued.iter().any(|queued| match queued.entry.message().as_llm() {
        Some(Message::User(user)) => {
            user.deferred.as_ref().is_some_and(|call| call.tool_call_id == info.call)
        }
        _ => false,
    })
}
