//! The mailbox through which an agent's handle sends inputs to an open run.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::history::MessageRef;
use crate::provider::SteeringSource;
use crate::run::{Input, QueueKind, QueueMode, Queued, Queues};

/// Inputs that the driver has not applied yet, and a copy of the run's queues. Reads combine both, so a message is
/// visible from the moment it was queued.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The inputs that wait for the driver, while a run is open.
    pending: VecDeque<Input>,
    /// The input that the driver has taken and whose effect is not published yet.
    in_flight: Option<Input>,
    /// The queues of the open run as last published, or the handle's own queues.
    queues: Queues,
    open: bool,
    /// A provider that waits for a steering message.
    listener: Option<oneshot::Sender<MessageRef>>,
}

impl Mailbox {
    pub(crate) fn new(steering: QueueMode, follow_up: QueueMode) -> Self {
        let inner = Inner { queues: Queues::new(steering, follow_up), ..Inner::default() };
        Self { inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue(&self, queued: Queued) {
        self.send(Input::Queue { queued });
    }

    pub(crate) fn clear(&self, kind: QueueKind) {
        self.send(Input::ClearQueue { kind });
    }

    /// Removes all queued messages, also the results of deferred calls.
    pub(crate) fn discard(&self) {
        let mut inner = self.lock();
        let _ = inner.queues.take_all();
        inner.pending.retain(|input| !matches!(input, Input::Queue { .. }));
    }

    pub(crate) fn set_mode(&self, kind: QueueKind, mode: QueueMode) {
        self.send(Input::SetQueueMode { kind, mode });
    }

    fn send(&self, input: Input) {
        let mut inner = self.lock();
        if inner.open {
            let steers = |queued: &Queued| queued.kind == QueueKind::Steering && queued.completes().is_none();
            if let Input::Queue { queued } = &input
                && steers(queued)
                && let Some(listener) = inner.listener.take()
            {
                let _ = listener.send(queued.entry.shared().clone());
            }
            inner.pending.push_back(input);
        } else {
            perform(&mut inner.queues, input);
        }
    }

    /// Returns the queues including the pending inputs.
    pub(crate) fn view(&self) -> Queues {
        let inner = self.lock();
        let mut queues = inner.queues.clone();
        for input in inner.in_flight.iter().chain(&inner.pending).cloned() {
            perform(&mut queues, input);
        }
        queues
    }

    /// Opens the mailbox for a new run and returns the waiting messages for it.
    pub(crate) fn open(&self) -> Vec<Queued> {
        let mut inner = self.lock();
        inner.open = true;
        inner.queues.take_all()
    }

    /// Opens the mailbox for a resumed run with `queues`. Messages of `queued` that are not in them arrived later and
    /// are sent to the run.
    pub(crate) fn reopen(&self, queues: &Queues, queued: Vec<Queued>) {
        let mut inner = self.lock();
        inner.open = true;
        inner.queues = queues.clone();
        let mut known = queues.clone().take_all();
        for queued in queued {
            match known.iter().position(|k| *k == queued) {
                Some(at) => drop(known.remove(at)),
                None => inner.pending.push_back(Input::Queue { queued }),
            }
        }
    }

    /// Takes the next input for the driver. It counts as waiting until [`publish`](Self::publish) or
    /// [`refused`](Self::refused) is called.
    pub(crate) fn take_one(&self) -> Option<Input> {
        let mut inner = self.lock();
        inner.in_flight = inner.pending.pop_front();
        inner.in_flight.clone()
    }

    /// Discards the input that the driver took last, because the run rejected it.
    pub(crate) fn refused(&self) {
        self.lock().in_flight = None;
    }

    /// Publishes the current queues of the open run.
    pub(crate) fn publish(&self, queues: &Queues) {
        let mut inner = self.lock();
        inner.in_flight = None;
        if inner.queues != *queues {
            inner.queues = queues.clone();
        }
    }

    /// Closes the mailbox after a run. Stores the messages that the run left and those that arrived too late for it.
    pub(crate) fn close(&self, left: Vec<Queued>) {
        let mut inner = self.lock();
        inner.open = false;
        inner.listener = None;
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

impl SteeringSource for Mailbox {
    fn listen(&self) -> oneshot::Receiver<MessageRef> {
        let (sender, receiver) = oneshot::channel();
        self.lock().listener = Some(sender);
        receiver
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
