//! An environment that repeats the recorded times, waits and ids.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use agent_core::Timestamp;
use agent_core::{BoxFuture, Environment, NoRuntime, TaskHandle};

pub(super) struct ReplayEnvironment {
    pub(super) inner: Arc<dyn Environment>,
    pub(super) shared: Arc<Shared>,
}

/// The positions up to which the recorded lists were read.
#[derive(Default)]
pub(super) struct Position {
    now: Place,
    monotonic: Place,
    /// The positions of the waits that were used.
    sleeps: BTreeSet<usize>,
    ids: usize,
}

/// A position in a run-length list of times.
#[derive(Default)]
struct Place {
    entry: usize,
    used: u32,
}

impl Place {
    /// Returns the next time, and the last one again after the end of the list.
    fn next(&mut self, times: &[(u64, u32)]) -> Option<u64> {
        if times.get(self.entry).is_some_and(|(_, count)| self.used >= *count) {
            self.entry += 1;
            self.used = 0;
        }
        self.used = self.used.saturating_add(1);
        times.get(self.entry).or(times.last()).map(|(time, _)| *time)
    }
}

impl Environment for ReplayEnvironment {
    fn now(&self) -> Timestamp {
        let next = self.shared.lock().clock.now.next(&self.shared.cassette.clock.now);
        next.map_or_else(|| self.inner.now(), Timestamp)
    }

    fn monotonic_ms(&self) -> u64 {
        let next = self.shared.lock().clock.monotonic.next(&self.shared.cassette.clock.monotonic);
        next.unwrap_or_else(|| self.inner.monotonic_ms())
    }

    /// A wait that was complete in the recording ends at once, and one that was dropped never ends. A wait that the
    /// cassette does not have takes its real time.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let sleeps = &self.shared.cassette.clock.sleeps;
        let mut state = self.shared.lock();
        // Concurrent calls can begin to wait in another order, so waits are matched by their length.
        let mut left = sleeps.iter().enumerate();
        let found = left.find(|(place, sleep)| sleep.ms == ms && !state.clock.sleeps.contains(place));
        let Some((place, sleep)) = found else {
            drop(state);
            return self.inner.sleep(duration);
        };
        state.clock.sleeps.insert(place);
        if sleep.over { Box::pin(std::future::ready(())) } else { Box::pin(std::future::pending()) }
    }

    /// A deadline that was reached in the recording is reached when the replay comes to a call that it ended. Other
    /// deadlines are never reached.
    fn deadline(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            if !shared.cassette.clock.deadlines.contains(&ms) {
                return std::future::pending().await;
            }
            shared.abort_awaited.notified().await;
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime> {
        self.inner.spawn(task)
    }

    fn can_spawn(&self) -> bool {
        self.inner.can_spawn()
    }

    fn random_id(&self) -> String {
        let mut state = self.shared.lock();
        let place = state.clock.ids;
        state.clock.ids += 1;
        drop(state);
        self.shared.cassette.clock.ids.get(place).cloned().unwrap_or_else(|| self.inner.random_id())
    }
}

impl fmt::Debug for ReplayEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplayEnvironment").field(&self.inner).finish()
    }
}
