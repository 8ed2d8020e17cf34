//! Calls the observing hooks after an event has been delivered. Observers cannot stop or change the run.

use std::panic::AssertUnwindSafe;

use crate::event::{AgentEnd, AgentEvent};
use crate::hooks::{Hooks, Observer, ToolUpdateInfo, TurnEnded};
use crate::message::{Message, StopReason};
use crate::run::Run;

/// The arguments of an observing hook. They are collected before the event is delivered, because delivery consumes
/// the event.
pub(super) enum Observation {
    Error(String),
    Turn(TurnEnded),
    Loop(Box<AgentEnd>),
    Update(ToolUpdateInfo),
}

impl Observation {
    /// Returns what the observing hooks receive for `event`, if any hook observes it. Also logs retries and changes
    /// of route. `started` says whether the run has emitted `AgentStart`.
    pub(super) fn of(event: &AgentEvent, hooks: &Hooks, run: Option<&Run>, started: bool) -> Option<Self> {
        match event {
            AgentEvent::MessageEnd { message, superseded: false, .. } => {
                let Some(Message::Assistant(reply)) = message.as_llm() else { return None };
                hooks.turn.on_error.first()?;
                (reply.stop_reason == StopReason::Error).then(|| {
                    Self::Error(reply.error_message.clone().unwrap_or_else(|| "Unknown error".to_owned()))
                })
            }
            AgentEvent::TurnEnd { loop_id, message, usage, tool_results, .. } => {
                hooks.turn.after.first()?;
                Some(Self::Turn(TurnEnded {
                    loop_id: loop_id.clone(),
                    history: run.map(|r| r.history().clone()).unwrap_or_default(),
                    message: message.clone(),
                    tool_results: tool_results.clone(),
                    usage: *usage,
                }))
            }
            AgentEvent::AgentEnd(end) => {
                hooks.run.after.first()?;
                started.then(|| Self::Loop(end.clone()))
            }
            AgentEvent::RetryStart(retry) => {
                tracing::warn!(
                    attempt = retry.attempt,
                    max_retries = retry.max_attempts,
                    delay_ms = retry.delay_ms,
                    error = retry.error.as_deref().unwrap_or_default(),
                    "the model call failed and is retried"
                );
                None
            }
            AgentEvent::RouteChanged(change) => {
                tracing::warn!(
                    from = %change.from.model,
                    to = %change.to.model,
                    error = %change.error,
                    "the model failed and the next route is called"
                );
                None
            }
            _ => None,
        }
    }

    /// Calls the hooks that observe this. A panic of a hook is logged and has no other effect.
    pub(super) fn notify(&self, hooks: &Hooks) {
        match self {
            Self::Error(text) => call_each(&hooks.turn.on_error, text),
            Self::Turn(turn) => call_each(&hooks.turn.after, turn),
            Self::Loop(end) => call_each(&hooks.run.after, end),
            Self::Update(update) => call_each(&hooks.tool.after_update, update),
        }
    }
}

/// Calls each observer. A panic of one does not keep the others from running.
fn call_each<A>(observers: &[Observer<A>], value: &A) {
    for observer in observers {
        if std::panic::catch_unwind(AssertUnwindSafe(|| observer(value))).is_err() {
            tracing::error!("an observing hook panicked");
        }
    }
}
