//! Where events go: a channel, and the audience of an agent.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedSender;

use super::channel::ChannelSender;
use crate::event::AgentEvent;
use crate::run::Run;

/// The sending end of a stream of events. Sending never waits and never fails: events for a receiver that is gone are
/// dropped.
#[derive(Clone)]
pub struct EventSender(Target);

#[derive(Clone)]
enum Target {
    Nobody,
    Channel(UnboundedSender<AgentEvent>),
    Queue(ChannelSender),
}

impl EventSender {
    /// Sends nothing anywhere.
    #[must_use]
    pub fn none() -> Self {
        Self(Target::Nobody)
    }

    /// Sends into a channel of the caller's.
    #[must_use]
    pub fn channel(tx: UnboundedSender<AgentEvent>) -> Self {
        Self(Target::Channel(tx))
    }

    pub(super) fn queued(tx: ChannelSender) -> Self {
        Self(Target::Queue(tx))
    }

    /// Sends an event.
    pub fn send(&self, event: AgentEvent) {
        match &self.0 {
            Target::Nobody => {}
            Target::Channel(tx) => {
                let _ = tx.send(event);
            }
            Target::Queue(tx) => tx.send(event),
        }
    }
}

impl From<UnboundedSender<AgentEvent>> for EventSender {
    fn from(tx: UnboundedSender<AgentEvent>) -> Self {
        Self::channel(tx)
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventSender")
    }
}

/// A listener panicked.
#[derive(Debug, Clone)]
pub(crate) struct ListenerPanicked(pub(crate) String);

/// Who hears the events of an agent before its channel does: its state, then its listeners in their order.
#[async_trait]
pub(crate) trait Audience: Send + Sync {
    /// Takes the event into the state.
    fn reduce(&self, event: &AgentEvent);

    /// Whether anybody listens.
    fn has_listeners(&self) -> bool;

    /// Tells the listeners, one after the other, and waits for each.
    async fn notify(&self, event: &AgentEvent) -> Result<(), ListenerPanicked>;

    /// Tells those listeners that need no waiting, for a run that is being cut off.
    fn notify_now(&self, event: &AgentEvent);

    /// Takes over what a shell leaves, also of a run that was cut off, and sends what `output` holds back.
    fn settle(&self, run: Run, output: &Output);
}

/// Where the events of one run go.
pub(crate) struct Output {
    tx: EventSender,
    audience: Option<Arc<dyn Audience>>,
    /// The last event for the channel of an agent: it is sent when the agent has taken over the run, so that whoever sees
    /// the end finds the agent idle.
    held: Mutex<Option<Box<AgentEvent>>>,
}

impl Output {
    pub(crate) fn to(tx: EventSender) -> Self {
        Self { tx, audience: None, held: Mutex::default() }
    }

    pub(crate) fn with_audience(tx: EventSender, audience: Arc<dyn Audience>) -> Self {
        Self { tx, audience: Some(audience), held: Mutex::default() }
    }

    /// Whether somebody has to be waited for with each event.
    pub(crate) fn has_listeners(&self) -> bool {
        self.audience.as_ref().is_some_and(|audience| audience.has_listeners())
    }

    /// Passes an event on.
    pub(crate) async fn emit(&self, event: AgentEvent) -> Result<(), ListenerPanicked> {
        let mut notified = Ok(());
        if let Some(audience) = &self.audience {
            audience.reduce(&event);
            if audience.has_listeners() {
                notified = audience.notify(&event).await;
            }
        }
        self.send(event);
        notified
    }

    /// Passes an event on where nobody has to be waited for; gives it back where somebody has.
    pub(crate) fn try_emit(&self, event: AgentEvent) -> Option<AgentEvent> {
        if let Some(audience) = &self.audience {
            if audience.has_listeners() {
                return Some(event);
            }
            audience.reduce(&event);
        }
        self.send(event);
        None
    }

    /// Passes an event on without waiting for anybody.
    pub(crate) fn emit_now(&self, event: AgentEvent) {
        if let Some(audience) = &self.audience {
            audience.reduce(&event);
            audience.notify_now(&event);
        }
        self.send(event);
    }

    fn send(&self, event: AgentEvent) {
        if self.audience.is_some() && event.is_terminal() {
            *self.held() = Some(Box::new(event));
        } else {
            self.tx.send(event);
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<Box<AgentEvent>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the last event, after the agent has taken over the run.
    pub(crate) fn release(&self) {
        if let Some(event) = self.held().take() {
            self.tx.send(*event);
        }
    }

    /// Hands over what there is of the run.
    pub(crate) fn settle(&self, run: Run) {
        match &self.audience {
            Some(audience) => audience.settle(run, self),
            None => self.release(),
        }
    }
}
