//! The simulated clock, and the environment that uses it.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_core::Timestamp;
use agent_core::environment::{BoxFuture, Environment, NoRuntime, SystemEnvironment, TaskHandle};
use tokio::time::Instant;

/// The time at which every simulated run begins: 1 January 2026.
const START: u64 = 1_767_225_600_000;

/// The clock of the world. It advances when all tasks wait, and jumps where the script has a jump.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// The milliseconds of the processes that have ended.
    before: AtomicU64,
    jumped: AtomicI64,
    ids: AtomicU64,
    began: Mutex<Option<Instant>>,
}

impl Clock {
    /// Begins a process, in its runtime.
    pub(crate) fn begin(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Stops measuring, in the runtime of a process that is stopped. [`begin`](Self::begin) continues.
    pub(crate) fn pause(&self) {
        self.end();
    }

    /// Ends a process, in its runtime.
    pub(crate) fn end(&self) {
        let elapsed = self.elapsed();
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.before.store(elapsed, Ordering::Relaxed);
    }

    /// Returns the milliseconds of all processes, which do not jump.
    pub(crate) fn elapsed(&self) -> u64 {
        let began = *self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let here = began.map(|began| began.elapsed().as_millis()).unwrap_or_default();
        self.before.load(Ordering::Relaxed).saturating_add(u64::try_from(here).unwrap_or(u64::MAX))
    }

    pub(crate) fn now(&self) -> Timestamp {
        let jumped = self.jumped.load(Ordering::Relaxed);
        Timestamp(START.saturating_add(self.elapsed()).saturating_add_signed(jumped))
    }

    pub(crate) fn jump(&self, by: i64) {
        self.jumped.fetch_add(by, Ordering::Relaxed);
    }
}

/// The environment of simulated agents: the clock of the world, the timers of the paused runtime, and counted ids.
pub(crate) struct SimEnvironment {
    clock: Arc<Clock>,
}

impl SimEnvironment {
    pub(crate) fn new(clock: Arc<Clock>) -> Self {
        Self { clock }
    }
}

impl fmt::Debug for SimEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimEnvironment")
    }
}

impl Environment for SimEnvironment {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Does not jump.
    fn monotonic_ms(&self) -> u64 {
        self.clock.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime> {
        SystemEnvironment.spawn(task)
    }

    fn can_spawn(&self) -> bool {
        SystemEnvironment.can_spawn()
    }

    fn random_id(&self) -> String {
        format!("00000000-0000-4000-8000-{:012}", self.clock.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
