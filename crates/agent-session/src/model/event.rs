//! The recorded events of a loop.

use agent_core::AgentEvent;
use serde_json::Value;

/// An event and its number in its loop.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LoopEvent {
    /// The number of the event in its loop, from 0, without gaps. It is one less than the
    /// [number](agent_core::event::NumberedEvent::number) that receivers get, unless live events were recorded, too.
    pub sequence: u64,
    /// The event that was recorded.
    pub event: RecordedEvent,
}

/// An event that this version knows, or one of a later version, which is preserved unchanged.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RecordedEvent {
    /// An event that this version knows.
    Known(Box<AgentEvent>),
    /// An event of a kind that this version does not know.
    Foreign(Value),
}

impl LoopEvent {
    /// Creates an event with its number in the loop.
    #[must_use]
    pub fn new(sequence: u64, event: AgentEvent) -> Self {
        Self { sequence, event: RecordedEvent::Known(Box::new(event)) }
    }

    /// Returns the event; `None` if this version does not know its kind.
    #[must_use]
    pub fn known(&self) -> Option<&AgentEvent> {
        match &self.event {
            RecordedEvent::Known(event) => Some(event),
            RecordedEvent::Foreign(_) => None,
        }
    }
}
