//! The way from a handle into an open run.

use std::collections::VecDeque;
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
    pending: VecDeque<Input>,
    /// Taken by the driver; what became of it is not published yet.
    in_flight: Option<Input>,
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
            inner.pending.push_back(input);
        } else {
            perform(&mut inner.queues, input);
        }
    }

    /// The queues, with what is pending.
    pub(crate) fn view(&self) -> QueueView {
        let inner = self.lock();
        let mut queues = inner.queues.clone();
        for input in inner.in_flight.iter().chain(&inner.pending).cloned() {
            perform(&mut queues, input);
        }
        queues
    }

    /// How the queues are drained.
    pub(crate) fn modes(&self) -> (QueueMode, QueueMode) {
        let inner = self.lock();
        let mut modes = inner.queues.modes();
        for input in inner.in_flight.iter().chain(&inner.pending) {
            match input {
                Input::SetQueueMode { kind: QueueKind::FollowUp, mode } => modes.1 = *mode,
                Input::SetQueueMode { mode, .. } => modes.0 = *mode,
                _ => {}
            }
        }
        modes
    }

    /// A run opens: it gets the messages that wait here.
    pub(crate) fn open(&self) -> Vec<Queued> {
        let mut inner = self.lock();
        inner.open = true;
        inner.queues.take_all()
    }

    /// A run that waits elsewhere goes on here: it holds `queues`, and of `queued` what is not in them came after.
    pub(crate) fn reopen(&self, queues: &Queues, queued: Vec<Queued>) {
        let mut inner = self.lock();
        inner.open = true;
        inner.queues = queues.clone();
        let mut held = queues.clone().take_all();
        for queued in queued {
            match held.iter().position(|h| *h == queued) {
                Some(at) => drop(held.remove(at)),
                None => inner.pending.push_back(Input::Queue { queued }),
            }
        }
    }

    /// What the driver has to apply next. It is counted as waiting until [`publish`](Self::publish) or
    /// [`refused`](Self::refused) says what became of it.
    pub(crate) fn take_one(&self) -> Option<Input> {
        let mut inner = self.lock();
        inner.in_flight = inner.pending.pop_front();
        inner.in_flight.clone()
    }

    /// The run did not take what the driver took last.
    pub(crate) fn refused(&self) {
        self.lock().in_flight = None;
    }

    /// What the queues of the open run hold now.
    pub(crate) fn publish(&self, queues: &Queues) {
        let mut inner = self.lock();
        inner.in_flight = None;
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
        let first = inner.in_flight.take();
        for input in first.into_iter().chain(std::mem::take(&mut inner.pending)) {
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
