//! A manual clock for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::environment::{BoxFuture, Environment, NoRuntime, SystemEnvironment, TaskHandle};
use crate::identity::Timestamp;

/// An environment whose time changes only when a test advances it, and whose ids are numbered.
///
/// [`advance`](Self::advance) lets time pass, and [`jump`](Self::jump) sets the clock, as a user, a time server or the end of
/// a suspension of the machine does.
#[derive(Debug, Clone)]
pub struct ManualEnvironment {
    clock: Arc<watch::Sender<u64>>,
    /// How far the time of day is ahead of the time that has passed, in milliseconds.
    jumped: Arc<AtomicI64>,
    ids: Arc<AtomicU64>,
    sleepers: Arc<watch::Sender<u64>>,
    skipping: bool,
}

impl ManualEnvironment {
    /// Creates a clock with this time, in milliseconds since 1970.
    #[must_use]
    pub fn at(now: u64) -> Self {
        Self {
            clock: Arc::new(watch::channel(now).0),
            jumped: Arc::default(),
            ids: Arc::default(),
            sleepers: Arc::new(watch::channel(0).0),
            skipping: false,
        }
    }

    /// Creates a clock on which every sleep completes at once and advances the time by its duration.
    #[must_use]
    pub fn skipping(now: u64) -> Self {
        Self { skipping: true, ..Self::at(now) }
    }

    /// Advances the time and completes the sleeps that are due.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.clock.send_modify(|now| *now = now.saturating_add(by));
    }

    /// Sets the time of day forward or back by this many milliseconds. No time passes: the monotonic clock and the sleeps
    /// do not change.
    pub fn jump(&self, by_ms: i64) {
        self.jumped.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Waits until this many sleeps have started in total.
    pub async fn sleeps_begun(&self, count: u64) {
        let mut sleepers = self.sleepers.subscribe();
        let _ = sleepers.wait_for(|n| *n >= count).await;
    }
}

impl Environment for ManualEnvironment {
    fn now(&self) -> Timestamp {
        Timestamp(self.clock.borrow().saturating_add_signed(self.jumped.load(Ordering::Relaxed)))
    }

    /// Is not changed by a jump.
    fn monotonic_ms(&self) -> u64 {
        *self.clock.borrow()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.sleepers.send_modify(|n| *n += 1);
        if self.skipping {
            let env = self.clone();
            return Box::pin(async move { env.advance(duration) });
        }
        self.deadline(duration)
    }

    /// Completes when the clock was advanced this far. It is never skipped, and it does not count as a sleep.
    fn deadline(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let length = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let end = self.clock.borrow().saturating_add(length);
        let mut clock = self.clock.subscribe();
        Box::pin(async move {
            let _ = clock.wait_for(|now| *now >= end).await;
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime> {
        SystemEnvironment.spawn(task)
    }

    fn can_spawn(&self) -> bool {
        SystemEnvironment.can_spawn()
    }

    fn random_id(&self) -> String {
        format!("id-{}", self.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
