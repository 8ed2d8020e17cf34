//! The environment of the operating system. No other file of this crate reads a clock or spawns a task.
#![expect(clippy::disallowed_methods, reason = "this is the one place where the real clock is read")]

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::{BoxFuture, Environment, NoRuntime, TaskHandle};
use crate::identity::Timestamp;

/// The number of random bytes fetched at once. An agent needs two ids, and each fetch is a system call.
const POOL_BYTES: usize = 16 * 64;

struct Pool {
    bytes: [u8; POOL_BYTES],
    left: usize,
}

/// Returns sixteen random bytes of the operating system. No bytes are returned twice.
fn random_bytes() -> [u8; 16] {
    static POOL: Mutex<Pool> = Mutex::new(Pool { bytes: [0; POOL_BYTES], left: 0 });
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.left == 0 {
        if getrandom::fill(&mut pool.bytes).is_err() {
            // Fetching failed and zeros are not an id. This call reports the problem of the machine.
            return uuid::Uuid::new_v4().into_bytes();
        }
        pool.left = POOL_BYTES;
    }
    pool.left -= 16;
    let at = pool.left;
    let mut out = [0; 16];
    out.iter_mut().zip(pool.bytes.iter_mut().skip(at)).for_each(|(to, from)| *to = std::mem::take(from));
    out
}

/// The clock of the operating system, tokio's timers and tasks, and random UUIDs.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Uses the clock of tokio, so that the time agrees with [`sleep`](Self::sleep) when a test pauses that clock.
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
        let task = runtime.spawn(task).abort_handle();
        Ok(TaskHandle::new(move || task.abort()))
    }

    fn can_spawn(&self) -> bool {
        tokio::runtime::Handle::try_current().is_ok()
    }

    fn random_id(&self) -> String {
        uuid::Builder::from_random_bytes(random_bytes()).into_uuid().to_string()
    }
}

impl Timestamp {
    /// Returns the current time of the operating system. Code that runs in an agent uses its [`Environment`] instead.
    #[must_use]
    pub fn now() -> Self {
        SystemEnvironment.now()
    }
}
