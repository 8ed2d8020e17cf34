//! The time that listeners get after an abort.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::environment::Environment;

/// Bounds how long the driver waits for a listener: without an abort as long as it takes, and after an abort the grace
/// period, counted once for all events.
pub(crate) struct Patience<'a> {
    pub(super) cancel: &'a CancellationToken,
    pub(super) environment: &'a dyn Environment,
    pub(super) grace: Duration,
    pub(super) aborted_at: &'a AbortTime,
}

/// The monotonic time at which an abort was noticed, in milliseconds and one more; 0 before.
#[derive(Debug, Default)]
pub(super) struct AbortTime(AtomicU64);

impl AbortTime {
    /// Returns the time at which the abort was noticed, which is `now` for the first caller.
    fn get_or_set(&self, now: u64) -> u64 {
        let noticed = now.saturating_add(1);
        match self.0.compare_exchange(0, noticed, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => now,
            Err(first) => first.saturating_sub(1),
        }
    }
}

impl Patience<'_> {
    /// Awaits `future`. Returns `None` if an abort's grace period ends first; the future is dropped then.
    pub(crate) async fn wait<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = self.over() => None,
        }
    }

    async fn over(&self) {
        self.cancel.cancelled().await;
        let now = self.environment.monotonic_ms();
        let passed = now.saturating_sub(self.aborted_at.get_or_set(now));
        self.environment.sleep(self.grace.saturating_sub(Duration::from_millis(passed))).await;
    }
}
