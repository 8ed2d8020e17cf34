//! Time, sleep, tasks and random names: everything that agent-core needs of the world.
//!
//! [`SystemEnvironment`] (feature `system`) takes them from tokio and the operating system;
//! `testing::ManualEnvironment` is a clock that stands still until a test moves it.
//!
//! ```
//! # #[cfg(feature = "system")] {
//! use agent_core::{Environment, SystemEnvironment};
//! assert!(SystemEnvironment.now().0 > 1_700_000_000_000);
//! // Outside a runtime there is nobody to run a task: an error, not a panic.
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

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What agent-core needs of the world (invariant 1).
pub trait Environment: Send + Sync + fmt::Debug {
    /// The time.
    fn now(&self) -> Timestamp;

    /// Milliseconds of a clock that is never set back, for measuring how long something took.
    fn monotonic_ms(&self) -> u64 {
        self.now().0
    }

    /// Waits.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Runs a task beside the caller.
    ///
    /// # Errors
    /// [`NoRuntime`] when there is nobody to run it.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime>;

    /// Whether there is somebody to run a task. Asked before a run is begun, which changes what an agent knows. The
    /// default spawns a task that does nothing.
    fn can_spawn(&self) -> bool {
        self.spawn(Box::pin(async {})).is_ok()
    }

    /// A new random name: a UUID version 4 in its usual form.
    fn random_id(&self) -> String;
}

/// A task that was spawned. Dropping it lets the task go on.
pub struct TaskHandle(Abort);

/// How a task is ended.
enum Abort {
    Call(Box<dyn FnOnce() + Send + Sync>),
    /// The usual one, which needs no room of its own.
    #[cfg(feature = "system")]
    Task(tokio::task::AbortHandle),
}

impl TaskHandle {
    /// A handle whose `abort` calls this.
    #[must_use]
    pub fn new(abort: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Abort::Call(Box::new(abort)))
    }

    /// Ends the task at its next await.
    pub fn abort(self) {
        match self.0 {
            Abort::Call(abort) => abort(),
            #[cfg(feature = "system")]
            Abort::Task(task) => task.abort(),
        }
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskHandle")
    }
}

/// There is no runtime that could run a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no async runtime is running here; call this from inside a tokio runtime, or give the agent an Environment of its own"
)]
pub struct NoRuntime;
