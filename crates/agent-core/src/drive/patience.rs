//! The time that listeners get after an abort.

use std::sync::OnceLock;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::environment::Environment;

/// Bounds how long the driver waits for a listener: without an abort as long as it takes, and after an abort the grace
/// period, counted once for all events.
pub(crate) struct Patience<'a> {
    pub(super) cancel: &'a CancellationToken,
    pub(super) environment: &'a dyn Environment,
    pub(super) grace: Duration,
    /// The monotonic time at which the abort was noticed, in milliseconds.
    pub(super) aborted_at: &'a OnceLock<u64>,
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
        let passed = now.saturating_sub(*self.aborted_at.get_or_init(|| now));
        self.environment.sleep(self.grace.saturating_sub(Duration::from_millis(passed))).await;
    }
}
