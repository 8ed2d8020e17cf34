//! The two ends of a stream of events.
//!
//! The default channel is unbounded: the loop never waits for a reader (REQ-032). A [`MergingReceiver`] is bounded: when
//! its reader lags, deltas of one block are merged, and nothing else is ever dropped (D36).

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::output::EventSender;
use crate::event::{AgentEvent, StreamDelta};

/// Receives events, in order, as they happen. Dropping it does not stop the run.
pub struct EventReceiver {
    rx: UnboundedReceiver<AgentEvent>,
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
    let (tx, rx) = mpsc::unbounded_channel();
    (EventSender::channel(tx), EventReceiver { rx })
}

impl EventReceiver {
    /// The next event; `None` when the stream has ended.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        self.rx.recv().await
    }

    /// The next event, if it is there.
    pub fn try_recv(&mut self) -> Option<AgentEvent> {
        self.rx.try_recv().ok()
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

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        self.rx.poll_recv(cx)
    }
}

impl fmt::Debug for EventReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventReceiver")
    }
}

/// A bounded receiver that merges deltas when it lags.
pub struct MergingReceiver {
    shared: Arc<Merging>,
}

pub(super) struct Merging {
    state: Mutex<State>,
    ready: Notify,
    capacity: usize,
}

struct State {
    events: VecDeque<AgentEvent>,
    senders: usize,
    /// The receiver is gone: nothing is kept for it.
    unread: bool,
}

/// A channel that holds about `capacity` events: from there on a delta is merged into the last event where that is a
/// delta of the same block.
#[must_use]
pub fn merging_channel(capacity: usize) -> (EventSender, MergingReceiver) {
    let shared = Arc::new(Merging {
        state: Mutex::new(State { events: VecDeque::new(), senders: 1, unread: false }),
        ready: Notify::new(),
        capacity: capacity.max(1),
    });
    (EventSender::merging(MergingSender(Arc::clone(&shared))), MergingReceiver { shared })
}

impl MergingReceiver {
    /// The next event; `None` when the stream has ended.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        loop {
            let ready = self.shared.ready.notified();
            {
                let mut state = self.shared.lock();
                if let Some(event) = state.events.pop_front() {
                    return Some(event);
                }
                if state.senders == 0 {
                    return None;
                }
            }
            ready.await;
        }
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.lock().events.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for MergingReceiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.unread = true;
        let unread = std::mem::take(&mut state.events);
        // What the events hold is dropped outside the lock.
        drop(state);
        drop(unread);
    }
}

impl fmt::Debug for MergingReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MergingReceiver")
    }
}

impl Merging {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending end; the stream ends when the last clone is dropped.
pub(super) struct MergingSender(Arc<Merging>);

impl MergingSender {
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
        drop(state);
        self.0.ready.notify_one();
    }
}

impl Clone for MergingSender {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for MergingSender {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.ready.notify_one();
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
        (StreamDelta::Text { delta }, StreamDelta::Text { delta: more })
        | (StreamDelta::Thinking { delta }, StreamDelta::Thinking { delta: more })
        | (StreamDelta::ToolCallDelta { delta }, StreamDelta::ToolCallDelta { delta: more }) => {
            delta.push_str(more)
        }
        _ => return Some(event),
    }
    *message = newer.clone();
    None
}
