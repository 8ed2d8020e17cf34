//! The queue of signals from the running tools of a group to the driver. Allocates nothing until a tool sends a signal.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::message::ToolCall;
use crate::tool::ToolSignal;

/// Queues the signals of concurrently running tools in the order in which they were sent.
#[derive(Default)]
pub(super) struct ToolSignals {
    queue: Mutex<VecDeque<(ToolCall, ToolSignal)>>,
    ready: Notify,
}

impl ToolSignals {
    /// Adds a signal and wakes the driver.
    pub(super) fn push(&self, call: ToolCall, signal: ToolSignal) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back((call, signal));
        self.ready.notify_one();
    }

    /// Removes and returns the next signal, if there is one.
    pub(super) fn take(&self) -> Option<(ToolCall, ToolSignal)> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits for the next signal.
    pub(super) async fn next(&self) -> (ToolCall, ToolSignal) {
        loop {
            if let Some(signal) = self.take() {
                return signal;
            }
            self.ready.notified().await;
        }
    }
}
