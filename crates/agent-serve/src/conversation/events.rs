//! The events of a conversation for its readers: numbered over all loops, in a bounded buffer.
//!
//! The number of a recorded event is its place among the recorded events of all loops of the session, from 1. It is the same
//! in every process, because it follows from the session. A live event has no number of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::event::NumberedEvent;
use agent_core::{AgentEvent, Ended, LoopId, MessageRef};
use bytes::Bytes;
use serde::Serialize as _;
use tokio::sync::watch;

/// The maximum number of events that a reader takes at once.
const BATCH: usize = 64;

/// An event as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The number, for an event that a reader can resume after.
    pub(crate) number: Option<u64>,
    /// The type of the event.
    pub(crate) kind: Arc<str>,
    /// The event as JSON, on one line.
    pub(crate) json: Bytes,
}

impl Frame {
    /// Encodes an event. The type is taken from its JSON, so the two agree.
    pub(crate) fn new(event: &NumberedEvent, number: Option<u64>) -> Option<Self> {
        let value = event.serialize(serde_json::value::Serializer).ok()?;
        Self::of_value(&value, number)
    }

    pub(crate) fn of_value(value: &serde_json::Value, number: Option<u64>) -> Option<Self> {
        let kind = value.get("type").and_then(serde_json::Value::as_str)?;
        // A line end in the type, which a stored event of another version could have, would be a field of the stream.
        let kind = if kind.contains(['\n', '\r', '\0']) { "unknown".into() } else { kind.into() };
        let json = serde_json::to_vec(value).ok()?.into();
        Some(Self { number, kind, json })
    }
}

/// Returns whether the session has the event when a reader gets it. The start of a reply is recorded with its end, and the end of
/// an interrupted run is not recorded.
fn is_recorded(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::MessageStart { message, .. } => !is_reply(message),
        AgentEvent::AgentEnd(end) => !matches!(end.ended, Ended::Interrupted { .. }),
        event => !event.is_live(),
    }
}

fn is_reply(message: &MessageRef) -> bool {
    message.role() == "assistant"
}

/// The latest events of a conversation. Readers have a [`Cursor`] each.
#[derive(Debug)]
pub(crate) struct Ring {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    max_events: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct State {
    frames: VecDeque<Held>,
    bytes: usize,
    /// The number of frames that have ever left the buffer.
    left: u64,
    /// The number of the last recorded event that is not in the buffer any more.
    before: u64,
    /// The number of the last recorded event.
    last: u64,
    /// The loop of the last event, and the number of the last event before that loop.
    current: Option<(LoopId, u64)>,
    closed: bool,
}

#[derive(Debug)]
struct Held {
    frame: Frame,
    /// The number of the last recorded event, this one included.
    at: u64,
}

/// The place of a reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    /// The number of the last recorded event that the reader has.
    pub(crate) number: u64,
    /// The next frame, counted from the first one ever buffered; `None` before the reader has one.
    next: Option<u64>,
}

impl Cursor {
    pub(crate) fn after(number: u64) -> Self {
        Self { number, next: None }
    }
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Found {
    /// Further events, and the number of live events that the reader has missed before them.
    Events(Vec<Frame>, u64),
    /// The next events have left the buffer; the session has those up to this number.
    InSession,
    /// Nothing new.
    Nothing,
    /// The conversation was released, and nothing is left in the buffer.
    Closed,
    /// The reader is ahead of the conversation.
    Ahead {
        /// The number of the last event.
        last: u64,
    },
}

impl Ring {
    /// Creates a buffer for a session with this many recorded events, of which `before` precede the loop that continues.
    pub(crate) fn new(
        last: u64,
        current: Option<(LoopId, u64)>,
        max_events: usize,
        max_bytes: usize,
    ) -> Self {
        let state =
            State { frames: VecDeque::new(), bytes: 0, left: 0, before: last, last, current, closed: false };
        let (changed, _) = watch::channel(0);
        Self { state: Mutex::new(state), changed, max_events: max_events.max(1), max_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Returns a receiver that is notified of each change.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Returns the number of the last recorded event.
    pub(crate) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Returns the number of events before the last loop; `None` if there is no loop.
    pub(crate) fn before_last_loop(&self) -> Option<u64> {
        self.lock().current.as_ref().map(|(_, before)| *before)
    }

    /// Adds an event.
    pub(crate) fn push(&self, event: &NumberedEvent) {
        let mut state = self.lock();
        let number = state.number_of(event);
        if let Some(number) = number {
            state.last = number;
        }
        let Some(frame) = Frame::new(event, number) else {
            tracing::error!(event = %event.id(), "an event could not be encoded");
            return;
        };
        state.bytes += frame.json.len();
        let at = state.last;
        state.frames.push_back(Held { frame, at });
        while state.frames.len() > self.max_events || (state.bytes > self.max_bytes && state.frames.len() > 1)
        {
            state.evict();
        }
        drop(state);
        self.notify();
    }

    /// Empties the buffer when the session has other events than were delivered. Readers get them from the session.
    pub(crate) fn resync(&self, last: u64, current: Option<(LoopId, u64)>) {
        let mut state = self.lock();
        while !state.frames.is_empty() {
            state.evict();
        }
        // A reader that has read the whole buffer has missed something, too.
        state.left += 1;
        (state.last, state.before, state.current) = (last, last, current);
        drop(state);
        self.notify();
    }

    /// Ends the streams of all readers after what is buffered.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.notify();
    }

    /// Returns what follows a cursor, and moves it.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Found {
        let state = self.lock();
        if cursor.number > state.last {
            return Found::Ahead { last: state.last };
        }
        if cursor.number < state.before && cursor.next.is_none_or(|next| next < state.left) {
            return Found::InSession;
        }
        let (from, missed) = match cursor.next {
            Some(next) if next >= state.left => (next - state.left, 0),
            // Only live events are missing.
            Some(next) => (0, state.left - next),
            None => (state.place_after(cursor.number), 0),
        };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let frames: Vec<Frame> =
            state.frames.iter().skip(from).take(BATCH).map(|held| held.frame.clone()).collect();
        if let Some(number) = frames.iter().rev().find_map(|frame| frame.number) {
            cursor.number = number;
        }
        let at = state.left.saturating_add(from as u64);
        cursor.next = Some(at.saturating_add(frames.len() as u64));
        match frames.is_empty() {
            false => Found::Events(frames, missed),
            true if state.closed => Found::Closed,
            true => Found::Nothing,
        }
    }
}

impl State {
    /// Returns the number of an event, if a reader can resume after it.
    fn number_of(&mut self, event: &NumberedEvent) -> Option<u64> {
        if event.depth > 0 || event.number == 0 {
            return None;
        }
        let loop_id = event.event.loop_id();
        let base = match &self.current {
            Some((current, base)) if current == loop_id => *base,
            _ => {
                self.current = Some((loop_id.clone(), self.last));
                self.last
            }
        };
        is_recorded(&event.event).then(|| base.saturating_add(event.number))
    }

    fn evict(&mut self) {
        if let Some(held) = self.frames.pop_front() {
            self.bytes -= held.frame.json.len();
            self.left += 1;
            self.before = held.at;
        }
    }

    /// Returns the position of the first frame after the recorded event with this number.
    fn place_after(&self, number: u64) -> u64 {
        let is_after = |held: &Held| match held.frame.number {
            Some(own) => own > number,
            None => held.at >= number,
        };
        self.frames.iter().position(is_after).unwrap_or(self.frames.len()) as u64
    }
}

#[cfg(test)]
mod tests;
