//! What the tools of a group say while they run, in its order. Nothing is allocated before one of them speaks.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::message::ToolCall;
use crate::tool::ToolSignal;

/// A queue from the tools of a group to their driver.
#[derive(Default)]
pub(super) struct Signals {
    queue: Mutex<VecDeque<(ToolCall, ToolSignal)>>,
    ready: Notify,
}

impl Signals {
    pub(super) fn push(&self, call: ToolCall, signal: ToolSignal) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back((call, signal));
        self.ready.notify_one();
    }

    /// The next one that is there.
    pub(super) fn take(&self) -> Option<(ToolCall, ToolSignal)> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// The next one; waits for it.
    pub(super) async fn next(&self) -> (ToolCall, ToolSignal) {
        loop {
            if let Some(signal) = self.take() {
                return signal;
            }
            self.ready.notified().await;
        }
    }
}
