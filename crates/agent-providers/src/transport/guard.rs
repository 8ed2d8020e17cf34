//! Interrupts a wait: by the abort of the caller or by a periodic timer.
//!
//! Most waits end immediately, so waiting must be cheap: the task registers its waker once and not again as long as the
//! same task waits. One timer serves the whole call, because setting a timer takes the runtime longer than reading a
//! piece, and a timer that is due before all others interrupts the sleep of the runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use agent_core::CancellationToken;
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFuture;

/// The event that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stir {
    Cancelled,
    /// The timer fired and was set again.
    Ring,
}

pub(super) struct Guard<'c> {
    cancel: &'c CancellationToken,
    cancelled: Pin<Box<WaitForCancellationFuture<'c>>>,
    /// The period of the timer.
    period: Duration,
    /// The timer, created by the first wait.
    alarm: Option<Pin<Box<Sleep>>>,
    /// The task that cancellation and the timer wake.
    waker: Option<Waker>,
}

impl<'c> Guard<'c> {
    pub(super) fn new(cancel: &'c CancellationToken, period: Duration) -> Self {
        Self { cancel, cancelled: Box::pin(cancel.cancelled()), period, alarm: None, waker: None }
    }

    /// Sets the period of the timer. A running timer that fires earlier is not changed.
    pub(super) fn set_period(&mut self, period: Duration) {
        if period < self.period {
            (self.alarm, self.waker) = (None, None);
        }
        self.period = period;
    }

    /// Returns whether the caller cancelled. Must be called before [`Guard::poll`], which may not detect it.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns the event that ended the wait. If it is pending, the task is woken later.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Stir> {
        let known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if known && self.alarm.as_ref().is_some_and(|alarm| !alarm.is_elapsed()) {
            return Poll::Pending;
        }
        if self.cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Stir::Cancelled);
        }
        let period = self.period;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(period)));
        if alarm.as_mut().poll(cx).is_ready() {
            alarm.set(tokio::time::sleep(period));
            self.waker = None;
            return Poll::Ready(Stir::Ring);
        }
        if !known {
            self.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}
