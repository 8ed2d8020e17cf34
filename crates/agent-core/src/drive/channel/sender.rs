//! The sender of events.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use super::{Channel, OwnDepth};
use crate::event::{AgentEvent, NumberedEvent, StreamDelta};

/// The sending end of an event stream. Sending never waits and never fails; if the receiver has been dropped, events are
/// discarded.
#[derive(Debug, Clone)]
pub struct EventSender(Target);

#[derive(Clone)]
enum Target {
    Discard,
    Channel(UnboundedSender<AgentEvent>),
    Numbered(UnboundedSender<NumberedEvent>),
    Queue(ChannelSender),
    Function(Arc<dyn Fn(NumberedEvent) + Send + Sync>),
    WithEnd(Arc<WithEnd>),
}

/// Everything goes to the first sender, and the event that ends the run to the second one, too.
#[derive(Debug)]
struct WithEnd {
    all: EventSender,
    end: EventSender,
    depth: OwnDepth,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discard => f.write_str("Discard"),
            Self::Channel(tx) => f.debug_tuple("Channel").field(tx).finish(),
            Self::Numbered(tx) => f.debug_tuple("Numbered").field(tx).finish(),
            Self::Queue(tx) => f.debug_tuple("Queue").field(tx).finish(),
            Self::Function(_) => f.write_str("Function"),
            Self::WithEnd(both) => f.debug_tuple("WithEnd").field(both).finish(),
        }
    }
}

impl EventSender {
    pub(super) fn queue(channel: Arc<Channel>) -> Self {
        Self(Target::Queue(ChannelSender(channel)))
    }

    /// Creates a sender that drops all events.
    #[must_use]
    pub fn none() -> Self {
        Self(Target::Discard)
    }

    /// Creates a sender for a channel of the caller.
    #[must_use]
    pub fn channel(tx: UnboundedSender<AgentEvent>) -> Self {
        Self(Target::Channel(tx))
    }

    /// Creates a sender for a channel of the caller that gets each event with its number, the depth of its loop and its
    /// parent loop.
    #[must_use]
    pub fn numbered(tx: UnboundedSender<NumberedEvent>) -> Self {
        Self(Target::Numbered(tx))
    }

    /// Creates a sender that calls a function with each event.
    pub(crate) fn function(receive: Arc<dyn Fn(NumberedEvent) + Send + Sync>) -> Self {
        Self(Target::Function(receive))
    }

    /// Returns a sender that also sends the event that ends a run to `end`.
    pub(crate) fn with_end_to(self, end: Self) -> Self {
        Self(Target::WithEnd(Arc::new(WithEnd { all: self, end, depth: OwnDepth::default() })))
    }

    /// Sends an event without waiting. A receiver gets it with the number 0.
    pub fn send(&self, event: AgentEvent) {
        self.send_numbered(NumberedEvent::new(0, event));
    }

    /// Tells the reader the depth of a loop whose events it will get.
    pub(in crate::drive) fn announce(&self, depth: u32) {
        match &self.0 {
            Target::Queue(tx) => tx.0.depth.announce(depth),
            Target::WithEnd(both) => {
                both.depth.announce(depth);
                both.all.announce(depth);
            }
            Target::Discard | Target::Channel(_) | Target::Numbered(_) | Target::Function(_) => {}
        }
    }

    /// Sends an event with its number.
    pub(crate) fn send_numbered(&self, event: NumberedEvent) {
        match &self.0 {
            Target::Discard => {}
            Target::Channel(tx) => {
                let _ = tx.send(event.into_event());
            }
            Target::Numbered(tx) => {
                let _ = tx.send(event);
            }
            Target::Queue(tx) => tx.send(event),
            Target::Function(receive) => receive(event),
            Target::WithEnd(both) => {
                if both.depth.is_own(&event) && event.event.is_terminal() {
                    both.end.send_numbered(event.clone());
                }
                both.all.send_numbered(event);
            }
        }
    }
}

impl From<UnboundedSender<AgentEvent>> for EventSender {
    fn from(tx: UnboundedSender<AgentEvent>) -> Self {
        Self::channel(tx)
    }
}

/// The sending end of a [`Channel`]. The stream ends when the last clone is dropped.
#[derive(Debug)]
struct ChannelSender(Arc<Channel>);

impl ChannelSender {
    fn send(&self, event: NumberedEvent) {
        let mut state = self.0.lock();
        if state.unread {
            return;
        }
        state.put(event, self.0.capacity);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Clone for ChannelSender {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for ChannelSender {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        let reader = if state.senders == 0 { state.reader.take() } else { None };
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// Merges a delta into the delta before it. Returns the event if they do not belong together.
pub(super) fn merge(last: &mut AgentEvent, event: AgentEvent) -> Option<AgentEvent> {
    let (
        AgentEvent::MessageUpdate { loop_id, step, attempt, message, content_index, delta },
        AgentEvent::MessageUpdate {
            loop_id: l,
            step: s,
            attempt: a,
            message: newer,
            content_index: c,
            delta: more,
        },
    ) = (last, &event)
    else {
        return Some(event);
    };
    if loop_id != l || step != s || attempt != a || content_index != c {
        return Some(event);
    }
    match (delta, more) {
        (StreamDelta::Text { text: delta }, StreamDelta::Text { text: more })
        | (StreamDelta::Thinking { text: delta }, StreamDelta::Thinking { text: more })
        | (StreamDelta::ToolCallDelta { text: delta }, StreamDelta::ToolCallDelta { text: more }) => {
            delta.push_str(more)
        }
        _ => return Some(event),
    }
    *message = newer.clone();
    None
}
