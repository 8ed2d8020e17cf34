//! The channel of events from a loop to its reader.
//!
//! The default channel is unbounded, so the loop never waits for its reader. A [`merging_channel`] is bounded:
//! when its reader is slow, deltas of one block are merged, and no event is dropped.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use tokio::sync::mpsc::UnboundedSender;

use crate::event::{AgentEvent, RunEnd, RunFailure, StreamDelta};

/// The number of events for which an emptied channel keeps its capacity.
const RETAINED_CAPACITY: usize = 64;

/// Receives the events of a run in order, as they happen. Dropping it does not stop the run.
pub struct EventReceiver {
    channel: Arc<Channel>,
    end: Option<RunEnd>,
}

/// Shows the number of waiting events.
impl fmt::Debug for EventReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventReceiver").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// Returns an unbounded channel of events.
///
/// ```
/// let (tx, mut rx) = agent_core::event_channel();
/// drop(tx);
/// assert!(rx.try_recv().is_none());
/// ```
#[must_use]
pub fn event_channel() -> (EventSender, EventReceiver) {
    EventReceiver::with_capacity(usize::MAX)
}

impl EventReceiver {
    fn with_capacity(capacity: usize) -> (EventSender, Self) {
        let channel = Channel::new(capacity);
        (EventSender::queued(ChannelSender(Arc::clone(&channel))), Self { channel, end: None })
    }

    /// Waits for the next event. Returns `None` when the stream has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Returns the next event if one waits.
    pub fn try_recv(&mut self) -> Option<AgentEvent> {
        let event = self.channel.lock().take();
        self.note_end(event.as_ref());
        event
    }

    /// Waits until the stream has ended, discards the events on the way, and returns how the run ended.
    ///
    /// Call it after reading the events, or alone if the events do not matter. If the events of several runs go through the
    /// stream, it returns the end of the last one.
    pub async fn end(&mut self) -> RunEnd {
        while self.recv().await.is_some() {}
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

    /// Returns the number of events that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.channel.lock().events.len()
    }

    /// Returns whether no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        let polled = self.channel.poll_next(cx);
        if let Poll::Ready(event) = &polled {
            self.note_end(event.as_ref());
        }
        polled
    }

    fn note_end(&mut self, event: Option<&AgentEvent>) {
        if let Some(end) = event.and_then(RunEnd::of) {
            self.end = Some(end);
        }
    }
}

impl Stream for EventReceiver {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        self.poll_recv(cx)
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        self.channel.close_receiver();
    }
}

/// Returns a channel that holds about `capacity` waiting events (at least 1).
///
/// When more events wait, a delta is merged into the last waiting event if that is a delta of the same block. Events of
/// other kinds are never merged or dropped, so the channel can hold more than `capacity` of them.
#[must_use]
pub fn merging_channel(capacity: usize) -> (EventSender, EventReceiver) {
    EventReceiver::with_capacity(capacity.max(1))
}

/// The shared state of both ends. tokio's channel would allocate 4 KiB before the first event, for each of thousands
/// of agents.
struct Channel {
    state: Mutex<State>,
    /// The number of events from which deltas are merged.
    capacity: usize,
}

/// Shows figures, without the waiting events.
impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Channel")
            .field("waiting", &state.events.len())
            .field("senders", &state.senders)
            .finish_non_exhaustive()
    }
}

struct State {
    events: VecDeque<AgentEvent>,
    senders: usize,
    /// Whether the receiver has been dropped, so that no events are stored.
    unread: bool,
    reader: Option<Waker>,
}

impl State {
    fn take(&mut self) -> Option<AgentEvent> {
        let event = self.events.pop_front();
        if self.events.is_empty() && self.events.capacity() > RETAINED_CAPACITY {
            self.events.shrink_to(RETAINED_CAPACITY);
        }
        event
    }
}

impl Channel {
    fn new(capacity: usize) -> Arc<Self> {
        let state = State { events: VecDeque::new(), senders: 1, unread: false, reader: None };
        Arc::new(Self { state: Mutex::new(state), capacity })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
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

    fn poll_state(&self, cx: &Context<'_>) -> Poll<Option<AgentEvent>> {
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
        // The events and the waker are dropped outside the lock.
        drop(state);
        drop((unread, reader));
    }
}

/// The sending end of an event stream. Sending never waits and never fails; if the receiver has been dropped, events are
/// discarded.
#[derive(Debug, Clone)]
pub struct EventSender(Target);

#[derive(Debug, Clone)]
enum Target {
    Discard,
    Channel(UnboundedSender<AgentEvent>),
    Queue(ChannelSender),
    /// Everything goes to the first sender, and the event that ends a run to the second one, too.
    WithEnd(Arc<(EventSender, EventSender)>),
}

impl EventSender {
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

    fn queued(tx: ChannelSender) -> Self {
        Self(Target::Queue(tx))
    }

    /// Returns a sender that also sends the event that ends a run to `end`.
    pub(crate) fn with_end_to(self, end: Self) -> Self {
        Self(Target::WithEnd(Arc::new((self, end))))
    }

    /// Sends an event without waiting.
    pub fn send(&self, event: AgentEvent) {
        match &self.0 {
            Target::Discard => {}
            Target::Channel(tx) => {
                let _ = tx.send(event);
            }
            Target::Queue(tx) => tx.send(event),
            Target::WithEnd(both) => {
                if event.is_terminal() {
                    both.1.send(event.clone());
                }
                both.0.send(event);
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
    fn send(&self, event: AgentEvent) {
        let mut state = self.0.lock();
        if state.unread {
            return;
        }
        let full = state.events.len() >= self.0.capacity;
        let left = match state.events.back_mut() {
            Some(last) if full => merge(last, event),
            _ => Some(event),
        };
        if let Some(event) = left {
            state.events.push_back(event);
        }
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
fn merge(last: &mut AgentEvent, event: AgentEvent) -> Option<AgentEvent> {
    let (
        AgentEvent::MessageUpdate { step, attempt, message, content_index, delta, .. },
        AgentEvent::MessageUpdate {
            step: s, attempt: a, message: newer, content_index: c, delta: more, ..
        },
    ) = (last, &event)
    else {
        return Some(event);
    };
    if step != s || attempt != a || content_index != c {
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
