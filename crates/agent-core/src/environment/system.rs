//! The environment of the operating system. No other file of this crate reads a clock or spawns a task.
#![expect(clippy::disallowed_methods, reason = "this is the one place where the real clock is read")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
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

/// How often the heartbeat beats while something waits.
const BEAT: Duration = Duration::from_secs(1);
/// A process whose heartbeat is later than this was stopped. A shorter delay can come from a busy machine.
const STOPPED: Duration = Duration::from_secs(3);
/// The heartbeat pauses after this many beats at which nothing waited.
const IDLE_BEATS: u32 = 30;
/// Marks that the heartbeat is paused, in [`Heartbeat::last`].
const PAUSED: u64 = u64::MAX;

/// Notices that the process was stopped, for example by `SIGSTOP` or a frozen container.
///
/// A thread beats once a second while something waits. A late beat shows that no thread could work; a runtime that is blocked
/// by one of its tasks does not make it late.
struct Heartbeat {
    /// The milliseconds of the last beat, or [`PAUSED`].
    last: AtomicU64,
    /// The milliseconds for which the process was stopped.
    stopped: AtomicU64,
    state: Mutex<HeartbeatState>,
    begins: Condvar,
}

#[derive(Default)]
struct HeartbeatState {
    waiting: usize,
    has_thread: bool,
}

static HEARTBEAT: Heartbeat = Heartbeat {
    last: AtomicU64::new(PAUSED),
    stopped: AtomicU64::new(0),
    state: Mutex::new(HeartbeatState { waiting: 0, has_thread: false }),
    begins: Condvar::new(),
};

impl Heartbeat {
    fn state(&self) -> MutexGuard<'_, HeartbeatState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the milliseconds of the operating system's monotonic clock. Tokio's clock can be paused by a test.
    fn clock() -> u64 {
        static START: OnceLock<std::time::Instant> = OnceLock::new();
        millis(START.get_or_init(std::time::Instant::now).elapsed())
    }

    /// Returns how long the process was stopped, in milliseconds. A stop that has just ended counts at once.
    fn stopped(&self) -> u64 {
        let last = self.last.load(Ordering::Acquire);
        if last != PAUSED && Self::clock().saturating_sub(last) > millis(STOPPED) {
            self.beat(&mut self.state());
        }
        self.stopped.load(Ordering::Acquire)
    }

    /// Notes that the process works now. The lock makes each stop count once.
    fn beat(&self, _: &mut HeartbeatState) {
        let (now, last) = (Self::clock(), self.last.load(Ordering::Acquire));
        let gap = if last == PAUSED { 0 } else { now.saturating_sub(last) };
        if gap > millis(STOPPED) {
            self.stopped.fetch_add(gap.saturating_sub(millis(BEAT)), Ordering::AcqRel);
        }
        self.last.store(now, Ordering::Release);
    }

    /// Keeps the heart beating until the returned guard is dropped.
    fn wait(&'static self) -> Waiting {
        let mut state = self.state();
        state.waiting = state.waiting.saturating_add(1);
        if self.last.load(Ordering::Acquire) == PAUSED {
            if !state.has_thread {
                let thread = std::thread::Builder::new().name("looptree-clock".to_owned());
                // Without a thread, no stop is noticed.
                state.has_thread = thread.spawn(|| HEARTBEAT.run()).is_ok();
            }
            if state.has_thread {
                self.beat(&mut state);
                self.begins.notify_one();
            }
        }
        Waiting
    }

    fn run(&self) {
        let (mut state, mut idle) = (self.state(), 0);
        loop {
            if state.waiting > 0 {
                idle = 0;
            } else if idle >= IDLE_BEATS {
                self.last.store(PAUSED, Ordering::Release);
                state = self.begins.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            idle += 1;
            drop(state);
            std::thread::sleep(BEAT);
            state = self.state();
            self.beat(&mut state);
        }
    }
}

/// A wait that must not end early because the process was stopped.
struct Waiting;

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = HEARTBEAT.state();
        state.waiting = state.waiting.saturating_sub(1);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The clock of the operating system, tokio's timers and tasks, and random UUIDs.
///
/// Durations are the time in which the process can work. A machine that was suspended, or a process that was stopped for more
/// than 3 seconds, continues its sleeps and its limits where they were.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Uses the clock of tokio, so that the time agrees with [`sleep`](Self::sleep) when a test pauses that clock. The time for
    /// which the process was stopped does not count while a sleep of this environment is open.
    fn monotonic_ms(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let elapsed = START.get_or_init(Instant::now).elapsed();
        millis(elapsed).saturating_sub(HEARTBEAT.stopped())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let timer = tokio::time::sleep(duration);
        if duration <= STOPPED {
            return Box::pin(timer);
        }
        let waiting = HEARTBEAT.wait();
        let mut stopped = HEARTBEAT.stopped();
        Box::pin(async move {
            timer.await;
            loop {
                let more = HEARTBEAT.stopped().saturating_sub(stopped);
                if more == 0 {
                    break;
                }
                stopped = stopped.saturating_add(more);
                tokio::time::sleep(Duration::from_millis(more)).await;
            }
            drop(waiting);
        })
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
