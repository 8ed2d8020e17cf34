//! The number, the depth and the parent loop of an event.
//!
//! A replay of the same inputs emits the same events with the same numbers, so a receiver that was connected to two
//! processes, or that reads a log and then a stream, drops what it has seen.
//!
//! ```
//! use std::collections::BTreeSet;
//!
//! use agent_core::event::{EventId, NumberedEvent};
//! use agent_core::run::{Input, Run, RunSetup};
//! use agent_core::{History, Timestamp};
//!
//! let (mut first, mut second) = (Vec::new(), Vec::new());
//! let prompts = || vec!["hello".into()];
//! let setup = || RunSetup::new("s-1.demo.1");
//! let run = Run::start(setup(), History::new(), prompts(), Timestamp(1), &mut first)?;
//! // Another process starts from the same data and continues.
//! let mut copy = Run::start(setup(), History::new(), prompts(), Timestamp(1), &mut second)?;
//! copy.apply(Timestamp(2), Input::ReplyStarted, &mut second)?;
//!
//! let mut seen: BTreeSet<EventId> = BTreeSet::new();
//! let mut new: Vec<NumberedEvent> = Vec::new();
//! for event in run.numbered(first).into_iter().chain(copy.numbered(second)) {
//!     if event.is_live() || seen.insert(event.id()) {
//!         new.push(event);
//!     }
//! }
//! let numbers: Vec<u64> = new.iter().map(|event| event.number).collect();
//! assert_eq!(numbers, [1, 2, 3, 4, 5]);
//! assert_eq!(new[4].id().to_string(), "s-1.demo.1#5");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use super::AgentEvent;
use crate::identity::LoopId;

/// The identity of a recorded event: its loop and its number in the loop. A replay of the loop emits the same event
/// with the same identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId {
    /// The id of the loop, or of the group for the start and the end of a group.
    pub loop_id: LoopId,
    /// The number of the event in the loop, from 1.
    pub number: u64,
}

/// Writes `loop#number`.
impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.loop_id, self.number)
    }
}

/// An event with its number in its loop and the place of the loop in the tree.
///
/// In JSON it is the object of the event with `number`, and with `depth` and `parent` unless they are 0 and absent:
///
/// ```
/// use agent_core::event::NumberedEvent;
/// let text = r#"{"number":3,"type":"input_rejected","loop_id":"s.m.1","reason":"no"}"#;
/// let event: NumberedEvent = serde_json::from_str(text)?;
/// assert_eq!((event.number, event.depth), (3, 0));
/// assert_eq!(serde_json::to_string(&event)?, text);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedEvent {
    /// The number of the event among the recorded events of its loop, from 1 without gaps. A live event has the number
    /// of the last recorded event before it, and so has the end of a run that could not be recorded. An event that a caller
    /// sent without a number has 0.
    pub number: u64,
    /// The number of delegating tool calls above the loop: 0 for the loops of an agent, its branches and its judge,
    /// and one more than its parent's for the loop of a sub-agent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The loop that this loop continues, or that started it.
    #[serde(rename = "parent", default, skip_serializing_if = "Option::is_none")]
    pub parent_loop_id: Option<LoopId>,
    /// The event as the loop emitted it.
    #[serde(flatten)]
    pub event: AgentEvent,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(depth: &u32) -> bool {
    *depth == 0
}

impl NumberedEvent {
    /// Creates an event with this number, for a loop at depth 0 without a parent.
    #[must_use]
    pub fn new(number: u64, event: AgentEvent) -> Self {
        Self { number, depth: 0, parent_loop_id: None, event }
    }

    /// Returns the identity of the event. A live event has the identity of the recorded event before it, so check
    /// [`is_live`](Self::is_live) before you drop a repeated one.
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId { loop_id: self.event.loop_id().clone(), number: self.number }
    }

    /// Returns whether the event is only delivered to receivers and not recorded.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.event.is_live()
    }

    /// Returns the event without its number.
    #[must_use]
    pub fn into_event(self) -> AgentEvent {
        self.event
    }
}
