//! The two ends of a stream of events.
//!
//! The default channel is unbounded: the loop never waits for a reader (REQ-032). A [`MergingReceiver`] is bounded: when
//! its reader lags, deltas of one block are merged, and nothing else is ever dropped (D36).

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use super::output::EventSender;
use crate::event::{AgentEvent, StreamDelta};

/// Events that a channel keeps room for when it has been read empty.
const ROOM: usize = 64;

/// Receives events, in order, as they happen. Dropping it does not stop the run.
pub struct EventReceiver {
    channel: Arc<Channel>,
}

/// An unbounded channel of events.
///
/// ```
/// let (tx, mut rx) = agent_core::event_channel();
/// drop(tx);
/// assert!(rx.try_recv().is_none());
/// ```
#[must_use]
pub fn event_channel() -> (EventSender, EventReceiver) {
    let channel = Channel::new(usize::MAX);
    (EventSender::queued(ChannelSender(Arc::clone(&channel))), EventReceiver { channel })
}

impl EventReceiver {
    /// The next event; `None` when the stream has ended.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        self.channel.next().await
    }

    /// The next event, if it is there.
    pub fn try_recv(&mut self) -> Option<AgentEvent> {
        self.channel.lock().take()
    }

    /// All events until the end.
    pub async fn collect(mut self) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.recv().await {
            events.push(event);
        }
        events
    }
}

impl Stream for EventReceiver {
    type Item = AgentEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        self.channel.poll_next(cx)
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        self.channel.leave();
    }
}

impl fmt::Debug for EventReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventReceiver")
    }
}

/// A bounded receiver that merges deltas when it lags.
pub struct MergingReceiver {
    channel: Arc<Channel>,
}

/// A channel that holds about `capacity` events: from there on a delta is merged into the last event where that is a
/// delta of the same block.
#[must_use]
pub fn merging_channel(capacity: usize) -> (EventSender, MergingReceiver) {
    let channel = Channel::new(capacity.max(1));
    (EventSender::queued(ChannelSender(Arc::clone(&channel))), MergingReceiver { channel })
}

impl MergingReceiver {
    /// The next event; `None` when the stream has ended.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        self.channel.next().await
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.channel.lock().events.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for MergingReceiver {
    fn drop(&mut self) {
        self.channel.leave();
    }
}

impl fmt::Debug for MergingReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MergingReceiver")
    }
}

/// What both ends share. Its own and not tokio's: that one takes 4 KiB before the first event, for each of thousands of
/// agents.
struct Channel {
    state: Mutex<State>,
    /// Events from which on deltas are merged.
    capacity: usize,
}

struct State {
    events: VecDeque<AgentEvent>,
    senders: usize,
    /// The receiver is gone: nothing is kept for it.
    unread: bool,
    reader: Option<Waker>,
}

impl State {
    fn take(&mut self) -> Option<AgentEvent> {
        let event = self.events.pop_front();
        if self.events.is_empty() && self.events.capacity() > ROOM {
            self.events.shrink_to(ROOM);
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

    async fn next(&self) -> Option<AgentEvent> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        // A reader that always finds an event must let other tasks run once in a while.
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
            // What it holds may be another end of this channel.
            drop(state);
            drop(left);
        }
        Poll::Pending
    }

    /// The receiver goes.
    fn leave(&self) {
        let mut state = self.lock();
        state.unread = true;
        let (unread, reader) = (std::mem::take(&mut state.events), state.reader.take());
        // What they hold is dropped outside the lock.
        drop(state);
        drop((unread, reader));
    }
}

/// The sending end; the stream ends when the last clone is dropped.
pub(super) struct ChannelSender(Arc<Channel>);

impl ChannelSender {
    pub(super) fn send(&self, event: AgentEvent) {
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

/// Puts a delta into the one before it; gives it back where they do not belong together.
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
