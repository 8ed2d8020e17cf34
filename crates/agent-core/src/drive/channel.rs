//! The channel of events from a loop to its reader.
//!
//! The loop never waits for its reader. When [`MAX_WAITING_EVENTS`] events wait, deltas of one block are merged, and no event
//! is dropped; a [`merging_channel`] sets another number.

mod sender;

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

pub use sender::EventSender;
use sender::merge;

use crate::event::{AgentEvent, NumberedEvent, RunEnd, RunFailure};
use crate::identity::LoopId;

/// The number of waiting events from which an [`event_channel`] merges deltas: 4,096. A receiver that is never read then
/// holds the text of the replies and the few other events of each turn, and not an event for each piece.
pub const MAX_WAITING_EVENTS: usize = 4_096;

/// The number of waiting events that are searched for one of the same loop when deltas are merged.
const SEARCHED: usize = 256;

/// The number of events for which an emptied channel keeps its capacity.
const RETAINED_CAPACITY: usize = 64;

/// The initial capacity of the queue.
const USUAL_EVENTS: usize = 8;

/// Receives the events of a run in order, as they happen. Dropping it does not stop the run.
pub struct EventReceiver {
    channel: Arc<Channel>,
    skips_sub_agents: bool,
    end: Option<RunEnd>,
}

/// Shows the number of waiting events.
impl fmt::Debug for EventReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventReceiver").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// Returns a channel of events that merges deltas when [`MAX_WAITING_EVENTS`] events wait.
///
/// ```
/// let (tx, mut rx) = agent_core::event_channel();
/// drop(tx);
/// assert!(rx.try_recv().is_none());
/// ```
#[must_use]
pub fn event_channel() -> (EventSender, EventReceiver) {
    EventReceiver::with_capacity(MAX_WAITING_EVENTS)
}

impl EventReceiver {
    fn with_capacity(capacity: usize) -> (EventSender, Self) {
        let channel = Channel::new(capacity);
        let sender = EventSender::queue(Arc::clone(&channel));
        (sender, Self { channel, skips_sub_agents: false, end: None })
    }

    /// Leaves out the events of sub-agents, so that text and tool calls are those of the run itself. Without this, the
    /// events of a sub-agent's loop come between the start and the end of the call that started it.
    #[must_use]
    pub fn without_sub_agents(mut self) -> Self {
        self.skips_sub_agents = true;
        self
    }

    /// Waits for the next event. Returns `None` when the stream has ended. The events of sub-agents are included, with
    /// their own loop ids.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        self.recv_numbered().await.map(NumberedEvent::into_event)
    }

    /// Waits for the next event and returns it with its number, the depth of its loop and its parent loop. Returns
    /// `None` when the stream has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn recv_numbered(&mut self) -> Option<NumberedEvent> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Returns the next event if one waits.
    pub fn try_recv(&mut self) -> Option<AgentEvent> {
        loop {
            let event = self.channel.lock().take()?;
            if self.accepts(&event) {
                return Some(event.into_event());
            }
        }
    }

    /// Waits until the stream has ended, discards the events on the way, and returns how the run ended.
    ///
    /// Call it after reading the events, or alone if the events do not matter. If the events of several runs go through the
    /// stream, it returns the end of the last one. The end of a sub-agent's loop does not count.
    pub async fn end(&mut self) -> RunEnd {
        while self.recv_numbered().await.is_some() {}
        self.end.clone().unwrap_or_else(|| {
            let reason = "its events ended without an end of the run".to_owned();
            RunEnd::Failed(RunFailure::Interrupted { reason })
        })
    }

    /// Waits until the stream has ended and returns all events.
    pub async fn collect(mut self) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.recv().await {
            events.push(event);
        }
        events
    }

    /// Waits until the stream has ended and returns all events with their numbers.
    pub async fn collect_numbered(mut self) -> Vec<NumberedEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.recv_numbered().await {
            events.push(event);
        }
        events
    }

    /// Returns the number of events that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.channel.lock().len()
    }

    /// Returns whether no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<NumberedEvent>> {
        loop {
            let event = std::task::ready!(self.channel.poll_next(cx));
            if event.as_ref().is_none_or(|event| self.accepts(event)) {
                return Poll::Ready(event);
            }
        }
    }

    /// Notes the end of a run of the stream, and returns whether the reader wants the event.
    fn accepts(&mut self, event: &NumberedEvent) -> bool {
        let is_own = self.channel.depth.is_own(event);
        if is_own && let Some(end) = RunEnd::of(&event.event) {
            self.end = Some(end);
        }
        is_own || !self.skips_sub_agents
    }
}

impl Stream for EventReceiver {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        self.poll_recv(cx).map(|event| event.map(NumberedEvent::into_event))
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        self.channel.close_receiver();
    }
}

/// Returns a channel that holds about `capacity` waiting events (at least 1).
///
/// When more events wait, a delta is merged into the last waiting event of its loop if that is a delta of the same block. Events of
/// other kinds are never merged or dropped, so the channel can hold more than `capacity` of them.
#[must_use]
pub fn merging_channel(capacity: usize) -> (EventSender, EventReceiver) {
    EventReceiver::with_capacity(capacity.max(1))
}

/// The depth of the loops to which a stream belongs: the smallest one of its events and of the loops that announced theirs.
/// A loop that is resumed announces it, because its sub-agents can emit events before it does.
#[derive(Debug)]
struct OwnDepth(AtomicU32);

impl Default for OwnDepth {
    fn default() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }
}

impl OwnDepth {
    fn announce(&self, depth: u32) {
        self.0.fetch_min(depth, Ordering::Relaxed);
    }

    /// Returns whether the event belongs to a loop of the stream, not to a sub-agent's. Call it for each event.
    fn is_own(&self, event: &NumberedEvent) -> bool {
        // The senders of a stream at different depths wait for each other, so nothing changes it in between.
        let known = self.0.load(Ordering::Relaxed);
        if event.depth < known {
            self.0.store(event.depth, Ordering::Relaxed);
        }
        event.depth <= known
    }
}

/// The shared state of both ends. tokio's channel would allocate 4 KiB before the first event, for each of thousands
/// of agents.
struct Channel {
    state: Mutex<State>,
    depth: OwnDepth,
    /// The number of events from which deltas are merged.
    capacity: usize,
}

/// Shows figures, without the waiting events.
impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Channel")
            .field("waiting", &state.len())
            .field("senders", &state.senders)
            .finish_non_exhaustive()
    }
}

struct State {
    events: VecDeque<Waiting>,
    /// The number of `events` that are places.
    places: usize,
    /// The place of the last event that was sent.
    sent: BoxedPlace,
    /// The place of the last event that was read.
    read: BoxedPlace,
    senders: usize,
    /// Whether the receiver has been dropped, so that no events are stored.
    unread: bool,
    reader: Option<Waker>,
}

/// A part of the queue. The place stands before an event only where it changes, because thousands of agents may have
/// waiting events.
enum Waiting {
    /// The number of an event, and the event.
    Event(u64, AgentEvent),
    /// The place of the following events.
    Place(BoxedPlace),
}

/// A place; `None` for that of a first loop, which most streams never leave.
type BoxedPlace = Option<Box<Place>>;

/// The depth and the parent of a loop.
#[derive(Clone, PartialEq, Default)]
struct Place {
    depth: u32,
    parent_loop_id: Option<LoopId>,
}

impl State {
    /// Returns the number of events that wait.
    fn len(&self) -> usize {
        self.events.len() - self.places
    }

    /// Adds an event, or merges it into the last one if there are `capacity` or more.
    fn put(&mut self, event: NumberedEvent, capacity: usize) {
        let NumberedEvent { number, depth, parent_loop_id, event } = event;
        let place = Place { depth, parent_loop_id };
        let moved = self.sent.as_deref().map_or_else(|| place != Place::default(), |sent| place != *sent);
        let full = self.len() >= capacity;
        let event = if full { self.merged(event) } else { Some(event) };
        let Some(event) = event else { return };
        if moved {
            let place = (place != Place::default()).then(|| Box::new(place));
            self.events.push_back(Waiting::Place(place.clone()));
            self.places += 1;
            self.sent = place;
        }
        self.events.push_back(Waiting::Event(number, event));
    }

    /// Merges an event into the last waiting event of its loop. Returns it if that is not possible. Loops that run at the same
    /// time alternate, and the order of the events of each is preserved.
    fn merged(&mut self, event: AgentEvent) -> Option<AgentEvent> {
        let last = self.events.iter_mut().rev().take(SEARCHED).find_map(|waiting| match waiting {
            Waiting::Event(_, last) if last.loop_id() == event.loop_id() => Some(last),
            Waiting::Event(..) | Waiting::Place(_) => None,
        });
        match last {
            Some(last) => merge(last, event),
            None => Some(event),
        }
    }

    fn take(&mut self) -> Option<NumberedEvent> {
        let mut event = None;
        while let Some(next) = self.events.pop_front() {
            match next {
                Waiting::Place(place) => {
                    self.places -= 1;
                    self.read = place;
                }
                Waiting::Event(number, next) => {
                    let Place { depth, parent_loop_id } = self.read.as_deref().cloned().unwrap_or_default();
                    event = Some(NumberedEvent { number, depth, parent_loop_id, event: next });
                    break;
                }
            }
        }
        if self.events.is_empty() && self.events.capacity() > RETAINED_CAPACITY {
            self.events.shrink_to(RETAINED_CAPACITY);
        }
        event
    }
}

impl Channel {
    fn new(capacity: usize) -> Arc<Self> {
        let state = State {
            // A run without tools emits about so many events before its receiver is polled.
            events: VecDeque::with_capacity(USUAL_EVENTS),
            places: 0,
            sent: None,
            read: None,
            senders: 1,
            unread: false,
            reader: None,
        };
        Arc::new(Self { state: Mutex::new(state), depth: OwnDepth::default(), capacity })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<NumberedEvent>> {
        // A reader that always finds an event must let other tasks run from time to time.
        #[cfg(feature = "system")]
        let turn = std::task::ready!(tokio::task::coop::poll_proceed(cx));
        let polled = self.poll_state(cx);
        #[cfg(feature = "system")]
        if polled.is_ready() {
            turn.made_progress();
        }
        polled
    }

    fn poll_state(&self, cx: &Context<'_>) -> Poll<Option<NumberedEvent>> {
        let mut state = self.lock();
        if let Some(event) = state.take() {
            return Poll::Ready(Some(event));
        }
        if state.senders == 0 {
            return Poll::Ready(None);
        }
        if !state.reader.as_ref().is_some_and(|r| r.will_wake(cx.waker())) {
            let left = state.reader.replace(cx.waker().clone());
            // Dropping the waker may drop another end of this channel, which takes the lock.
            drop(state);
            drop(left);
        }
        Poll::Pending
    }

    /// Drops the waiting events when the receiver is dropped.
    fn close_receiver(&self) {
        let mut state = self.lock();
        state.unread = true;
        let (unread, reader) = (std::mem::take(&mut state.events), state.reader.take());
        state.places = 0;
        // The events and the waker are dropped outside the lock.
        drop(state);
        drop((unread, reader));
    }
}
