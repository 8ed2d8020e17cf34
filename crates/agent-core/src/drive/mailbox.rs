//! The way from a handle into an open run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::run::{Input, QueueKind, QueueMode, Queued, Queues};

/// Inputs that a handle gave and the driver has not applied yet, and what the queues hold. Reads see both, so that a
/// message is counted from the moment it was queued.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Applied by nobody yet; only while a run is open.
    pending: Vec<Input>,
    /// The queues: of the open run as last published, else the handle's own.
    queues: Queues,
    open: bool,
}

/// A copy of the queues as they are.
pub(crate) type QueueView = Queues;

impl Mailbox {
    pub(crate) fn new(steering: QueueMode, follow_up: QueueMode) -> Self {
        let inner = Inner { queues: Queues::new(steering, follow_up), ..Inner::default() };
        Self { inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue(&self, queued: Queued) {
        self.give(Input::Queue { queued });
    }

    pub(crate) fn clear(&self, kind: QueueKind) {
        self.give(Input::ClearQueue { kind });
    }

    pub(crate) fn set_mode(&self, kind: QueueKind, mode: QueueMode) {
        self.give(Input::SetQueueMode { kind, mode });
    }

    fn give(&self, input: Input) {
        let mut inner = self.lock();
        if inner.open {
            inner.pending.push(input);
        } else {
            perform(&mut inner.queues, input);
        }
    }

    /// The queues, with what is pending.
    pub(crate) fn view(&self) -> QueueView {
        let inner = self.lock();
        let mut queues = inner.queues.clone();
        for input in inner.pending.iter().cloned() {
            perform(&mut queues, input);
        }
        queues
    }

    /// How the queues are drained.
    pub(crate) fn modes(&self) -> (QueueMode, QueueMode) {
        self.view().modes()
    }

    /// A run opens: it gets the messages that wait here.
    pub(crate) fn open(&self) -> Vec<Queued> {
        let mut inner = self.lock();
        inner.open = true;
        inner.queues.take_all()
    }

    /// What the driver has to apply now.
    pub(crate) fn take(&self) -> Vec<Input> {
        let mut inner = self.lock();
        if inner.pending.is_empty() { Vec::new() } else { std::mem::take(&mut inner.pending) }
    }

    /// What the queues of the open run hold now.
    pub(crate) fn publish(&self, queues: &Queues) {
        let mut inner = self.lock();
        if inner.queues != *queues {
            inner.queues = queues.clone();
        }
    }

    /// The run is over: what it left, and what came too late for it, waits here again.
    pub(crate) fn close(&self, left: Vec<Queued>) {
        let mut inner = self.lock();
        inner.open = false;
        let _ = inner.queues.take_all();
        for queued in left {
            inner.queues.push(queued);
        }
        for input in std::mem::take(&mut inner.pending) {
            perform(&mut inner.queues, input);
        }
    }
}

fn perform(queues: &mut Queues, input: Input) {
    match input {
        Input::Queue { queued } => queues.push(queued),
        Input::ClearQueue { kind } => queues.clear(kind),
        Input::SetQueueMode { kind, mode } => queues.set_mode(kind, mode),
        _ => {}
    }
}
