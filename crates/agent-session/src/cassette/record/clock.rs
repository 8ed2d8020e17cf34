//! An environment that records its times, waits and ids.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::cassette::form::RecordedSleep;
use agent_core::Timestamp;
use agent_core::{BoxFuture, Environment, NoRuntime, TaskHandle};

pub(super) struct RecordingEnvironment {
    pub(super) inner: Arc<dyn Environment>,
    pub(super) shared: Arc<Shared>,
}

/// Adds a time to a run-length list of times.
fn note(times: &mut Vec<(u64, u32)>, now: u64) {
    match times.last_mut() {
        Some((last, count)) if *last == now && *count < u32::MAX => *count += 1,
        _ => times.push((now, 1)),
    }
}

impl Environment for RecordingEnvironment {
    fn now(&self) -> Timestamp {
        let now = self.inner.now();
        note(&mut self.shared.lock().cassette.clock.now, now.0);
        now
    }

    fn monotonic_ms(&self) -> u64 {
        let now = self.inner.monotonic_ms();
        note(&mut self.shared.lock().cassette.clock.monotonic, now);
        now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let place = {
            let sleeps = &mut self.shared.lock().cassette.clock.sleeps;
            sleeps.push(RecordedSleep { ms, over: false });
            sleeps.len() - 1
        };
        let (shared, sleep) = (Arc::clone(&self.shared), self.inner.sleep(duration));
        Box::pin(async move {
            sleep.await;
            if let Some(sleep) = shared.lock().cassette.clock.sleeps.get_mut(place) {
                sleep.over = true;
            }
        })
    }

    /// Records the deadline only if it is reached.
    fn deadline(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (shared, deadline) = (Arc::clone(&self.shared), self.inner.deadline(duration));
        Box::pin(async move {
            deadline.await;
            shared.lock().cassette.clock.deadlines.push(ms);
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime> {
        self.inner.spawn(task)
    }

    fn can_spawn(&self) -> bool {
        self.inner.can_spawn()
    }

    fn random_id(&self) -> String {
        let id = self.inner.random_id();
        self.shared.lock().cassette.clock.ids.push(id.clone());
        id
    }
}

impl fmt::Debug for RecordingEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordingEnvironment").field(&self.inner).finish()
    }
}
