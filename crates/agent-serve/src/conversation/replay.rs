//! Recorded events of a conversation, read from its session in pages.

use agent_core::event::NumberedEvent;
use agent_core::{AgentEvent, LoopId};
use agent_session::{RecordedEvent, Session};

use super::events::Frame;

/// Returns the number of recorded events of a session, and for its last loop the number of events before it.
pub(crate) fn count(session: &Session) -> (u64, Option<(LoopId, u64)>) {
    let mut last = 0;
    let mut current = None;
    for record in &session.loops {
        current = Some((record.loop_id.clone(), last));
        last += record.events.len() as u64;
    }
    (last, current)
}

/// Encodes the recorded events after `number`, until they have `max_bytes` bytes. Returns at least one event if there is one.
pub(crate) fn page(session: &Session, number: u64, max_bytes: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    let (mut at, mut bytes) = (0, 0);
    for record in &session.loops {
        let events = record.events.len() as u64;
        if at + events <= number {
            at += events;
            continue;
        }
        for event in &record.events {
            at += 1;
            if at <= number {
                continue;
            }
            let in_loop = event.sequence + 1;
            let frame = match &event.event {
                RecordedEvent::Known(known) => {
                    let parent_loop_id = record.parent_loop_id.clone();
                    let event = AgentEvent::clone(known);
                    let numbered = NumberedEvent { number: in_loop, depth: 0, parent_loop_id, event };
                    Frame::new(&numbered, Some(at))
                }
                RecordedEvent::Foreign(value) => {
                    let mut value = value.clone();
                    if let Some(object) = value.as_object_mut() {
                        object.insert("number".to_owned(), in_loop.into());
                    }
                    Frame::of_value(&value, Some(at))
                }
                _ => None,
            };
            let Some(frame) = frame else { continue };
            bytes += frame.json.len();
            if bytes > max_bytes && !frames.is_empty() {
                return frames;
            }
            frames.push(frame);
        }
    }
    frames
}
