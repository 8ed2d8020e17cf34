//! Events as they are recorded.

use agent_core::AgentEvent;
use serde_json::Value;

/// An event and its place in its loop.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LoopEvent {
    /// Its number in the loop, from 0, without gaps.
    pub sequence: u64,
    /// The event that was recorded.
    pub event: RecordedEvent,
}

/// An event of this version, or one of a later version, which is kept as it is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RecordedEvent {
    /// One that this version knows.
    Known(Box<AgentEvent>),
    /// One that it does not know.
    Foreign(Value),
}

impl LoopEvent {
    /// An event at this place.
    #[must_use]
    pub fn new(sequence: u64, event: AgentEvent) -> Self {
        Self { sequence, event: RecordedEvent::Known(Box::new(event)) }
    }

    /// The event, where this version knows it.
    #[must_use]
    pub fn known(&self) -> Option<&AgentEvent> {
        match &self.event {
            RecordedEvent::Known(event) => Some(event),
            RecordedEvent::Foreign(_) => None,
        }
    }
}
