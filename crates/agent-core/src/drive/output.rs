//! The destination of a run's events: a channel, and the audience of an agent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::channel::EventSender;
use super::journaling::CutOff;
use super::patience::Patience;
use crate::event::{AgentEvent, NumberedEvent};
use crate::run::Run;

/// The error of a listener that panicked, with its message.
#[derive(Debug, Clone, thiserror::Error)]
#[error("a listener panicked: {0}")]
pub(crate) struct ListenerPanicked(pub(crate) String);

/// Receives the events of an agent before its channel does: first its state, then its listeners in order.
#[async_trait]
pub(crate) trait Audience: Send + Sync {
    /// Updates the state of the agent with the event. Not called for the events of sub-agents.
    fn reduce(&self, event: &AgentEvent);

    /// Returns whether there is any listener.
    fn has_listeners(&self) -> bool;

    /// Calls the listeners one after the other and awaits each, after an abort as long as `patience` allows.
    async fn notify(&self, event: &AgentEvent, patience: &Patience<'_>) -> Result<(), ListenerPanicked>;

    /// Calls the listeners that need not be awaited, for a run that is being interrupted.
    fn notify_now(&self, event: &AgentEvent);

    /// Receives the run when the shell is finished with it, and releases the event that `output` withholds. Of a run
    /// that was interrupted while it was journaled, `run` is what is journaled, closed, and `cut_off` can be resumed.
    fn settle(&self, run: Run, cut_off: Option<Box<CutOff>>, output: &Output);
}

/// The destination of one run's events.
pub(crate) struct Output {
    tx: EventSender,
    audience: Option<Arc<dyn Audience>>,
    /// The depth of the run's loop. Deeper events belong to sub-agents.
    depth: u32,
    /// The last event for the channel of an agent. It is sent after the agent has received the run, so that the agent is
    /// idle when a reader receives the end.
    withheld: Mutex<Option<Box<NumberedEvent>>>,
}

impl Output {
    pub(crate) fn to(tx: EventSender) -> Self {
        Self { tx, audience: None, depth: 0, withheld: Mutex::default() }
    }

    pub(crate) fn with_audience(tx: EventSender, audience: Arc<dyn Audience>) -> Self {
        Self { tx, audience: Some(audience), depth: 0, withheld: Mutex::default() }
    }

    /// Sets the depth of the run's loop, which is 0 at first.
    pub(crate) fn set_depth(&mut self, depth: u32) {
        self.tx.announce(depth);
        self.depth = depth;
    }

    /// Returns whether listeners must be awaited for each event.
    pub(crate) fn has_listeners(&self) -> bool {
        self.audience.as_ref().is_some_and(|audience| audience.has_listeners())
    }

    /// Emits an event and awaits the listeners, after an abort as long as `patience` allows.
    pub(crate) async fn emit(
        &self,
        event: NumberedEvent,
        patience: &Patience<'_>,
    ) -> Result<(), ListenerPanicked> {
        let mut notified = Ok(());
        if let Some(audience) = &self.audience {
            self.reduce(&**audience, &event);
            if audience.has_listeners() {
                notified = audience.notify(&event.event, patience).await;
            }
        }
        self.send(event);
        notified
    }

    /// Emits an event unless a listener must be awaited; in that case, returns it.
    pub(crate) fn try_emit(&self, event: NumberedEvent) -> Option<NumberedEvent> {
        if let Some(audience) = &self.audience {
            if audience.has_listeners() {
                return Some(event);
            }
            self.reduce(&**audience, &event);
        }
        self.send(event);
        None
    }

    /// Emits an event without awaiting any listener.
    pub(crate) fn emit_now(&self, event: NumberedEvent) {
        if let Some(audience) = &self.audience {
            self.reduce(&**audience, &event);
            audience.notify_now(&event.event);
        }
        self.send(event);
    }

    /// Updates the state of the agent, unless a sub-agent emitted the event.
    fn reduce(&self, audience: &dyn Audience, event: &NumberedEvent) {
        if event.depth <= self.depth {
            audience.reduce(&event.event);
        }
    }

    fn send(&self, event: NumberedEvent) {
        if self.audience.is_some() && event.event.is_terminal() && event.depth <= self.depth {
            *self.withheld() = Some(Box::new(event));
        } else {
            self.tx.send_numbered(event);
        }
    }

    /// Returns whether a last event is withheld, which another one would replace.
    pub(crate) fn withholds(&self) -> bool {
        self.withheld().is_some()
    }

    fn withheld(&self) -> MutexGuard<'_, Option<Box<NumberedEvent>>> {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the withheld last event, after the agent has received the run.
    pub(crate) fn release(&self) {
        if let Some(event) = self.withheld().take() {
            self.tx.send_numbered(*event);
        }
    }

    /// Hands the run to the audience, or releases the last event if there is none.
    pub(crate) fn settle(&self, run: Run, cut_off: Option<Box<CutOff>>) {
        match &self.audience {
            Some(audience) => audience.settle(run, cut_off, self),
            None => self.release(),
        }
    }
}
