//! Telling the observing hooks what happened. They cannot stop anything.

use std::panic::AssertUnwindSafe;

use super::shell::Shell;
use crate::event::{AgentEnd, AgentEvent};
use crate::hooks::{Observer, ToolUpdateInfo, TurnEnded};
use crate::message::{Message, StopReason};

/// What hooks are told after an event was passed on.
pub(super) enum Note {
    Error(String),
    Turn(TurnEnded),
    Loop(Box<AgentEnd>),
    Update(ToolUpdateInfo),
}

impl Shell {
    /// What the hooks have to be told after an event was passed on.
    pub(super) fn note(&self, event: &AgentEvent) -> Option<Note> {
        match event {
            AgentEvent::MessageEnd { message, superseded: false, .. } => {
                let Some(Message::Assistant(reply)) = message.as_llm() else { return None };
                self.config.hooks.turn.on_error.first()?;
                (reply.stop_reason == StopReason::Error).then(|| {
                    Note::Error(reply.error_message.clone().unwrap_or_else(|| "Unknown error".to_owned()))
                })
            }
            AgentEvent::TurnEnd { loop_id, message, usage, tool_results, .. } => {
                self.config.hooks.turn.after.first()?;
                Some(Note::Turn(TurnEnded {
                    loop_id: loop_id.clone(),
                    history: self.run().map(|r| r.history().clone()).unwrap_or_default(),
                    message: message.clone(),
                    tool_results: tool_results.clone(),
                    usage: *usage,
                }))
            }
            AgentEvent::AgentEnd(end) => {
                self.config.hooks.run.after.first()?;
                self.started.then(|| Note::Loop(end.clone()))
            }
            AgentEvent::RetryStart(retry) => {
                tracing::warn!(
                    attempt = retry.attempt,
                    max_retries = retry.max_attempts,
                    delay_ms = retry.delay_ms,
                    error = retry.error.as_deref().unwrap_or_default(),
                    "the call of the model failed and is tried again"
                );
                None
            }
            AgentEvent::RouteChanged(change) => {
                tracing::warn!(
                    from = %change.from.model,
                    to = %change.to.model,
                    error = %change.error,
                    "the model failed and another one is asked"
                );
                None
            }
            _ => None,
        }
    }

    /// Observers cannot stop anything: a panic of theirs is noted and goes no further.
    pub(super) fn observe(&self, note: Option<Note>) {
        let Some(note) = note else { return };
        let hooks = &self.config.hooks;
        match &note {
            Note::Error(text) => call_each(&hooks.turn.on_error, text),
            Note::Turn(turn) => call_each(&hooks.turn.after, turn),
            Note::Loop(end) => call_each(&hooks.run.after, end),
            Note::Update(update) => call_each(&hooks.tool.after_update, update),
        }
    }

    pub(super) fn observe_update(&self, update: ToolUpdateInfo) {
        self.observe(Some(Note::Update(update)));
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
