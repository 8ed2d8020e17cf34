//! The world as it is. The only file of agent-core that reads a clock or starts a task.
#![expect(clippy::disallowed_methods, reason = "this is the one place where the real clock is read")]

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{BoxFuture, Environment, NoRuntime, TaskHandle};
use crate::identity::Timestamp;

/// The operating system's clock, tokio's timers and tasks, and random UUIDs.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic_ms(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let elapsed = START.get_or_init(Instant::now).elapsed();
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| NoRuntime)?;
        let handle = runtime.spawn(task).abort_handle();
        Ok(TaskHandle::new(move || handle.abort()))
    }

    fn random_id(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }
}
