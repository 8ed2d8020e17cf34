//! The environment of an agent: time, sleep, tasks and random ids.
//!
//! [`SystemEnvironment`] (feature `system`) uses tokio and the operating system; `testing::ManualEnvironment` has a
//! clock that only a test advances.
//!
//! ```
//! # #[cfg(feature = "system")] {
//! use agent_core::{Environment, SystemEnvironment};
//! assert!(SystemEnvironment.now().0 > 1_700_000_000_000);
//! // Without a runtime, spawning a task is an error and not a panic.
//! assert!(SystemEnvironment.spawn(Box::pin(async {})).is_err());
//! # }
//! ```

#[cfg(feature = "system")]
mod system;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

#[cfg(feature = "system")]
pub use system::SystemEnvironment;

use crate::identity::Timestamp;

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Provides time, sleep, tasks and random ids. The crate uses no other source of them.
///
/// Two clocks are read: [`now`](Self::now) is the time of day, which can be set and is for display, and
/// [`monotonic_ms`](Self::monotonic_ms) measures durations. [`SystemEnvironment`] counts only the time in which the process can
/// work: neither the time for which the machine is suspended nor that for which the process is stopped.
pub trait Environment: Send + Sync + fmt::Debug {
    /// Returns the time of day, in milliseconds since 1970. It can jump in both directions.
    fn now(&self) -> Timestamp;

    /// Returns the milliseconds of a monotonic clock, for measuring durations. The default uses [`now`](Self::now), so every
    /// duration changes when the time of day is set; implement it if a monotonic clock exists.
    fn monotonic_ms(&self) -> u64 {
        self.now().0
    }

    /// Returns a future that completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Returns a future that completes after `duration` and bounds other work, which usually ends earlier. The default
    /// is [`sleep`](Self::sleep). A clock that skips or repeats sleeps must not do so with a deadline.
    fn deadline(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.sleep(duration)
    }

    /// Runs a task concurrently with the caller.
    ///
    /// # Errors
    /// Returns [`NoRuntime`] if there is no runtime for the task.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime>;

    /// Returns whether tasks can be spawned. It is checked before a run changes the state of its agent. The default
    /// spawns an empty task.
    fn can_spawn(&self) -> bool {
        self.spawn(Box::pin(async {})).is_ok()
    }

    /// Returns a new random id: a UUID version 4 in its usual form.
    fn random_id(&self) -> String;
}

/// A handle to a spawned task. Dropping it does not abort the task.
pub struct TaskHandle(Box<dyn FnOnce() + Send + Sync>);

impl TaskHandle {
    /// Creates a handle whose `abort` calls this function.
    #[must_use]
    pub fn new(abort: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Box::new(abort))
    }

    /// Aborts the task at its next await point.
    pub fn abort(self) {
        (self.0)();
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskHandle")
    }
}

/// The error of an environment without a runtime for tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no async runtime is running here; call this from inside a tokio runtime, or give the agent an Environment of its own"
)]
pub struct NoRuntime;
