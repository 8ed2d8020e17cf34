//! The rate of requests of a key.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The milliseconds in which a bucket is filled.
const MINUTE_MS: u64 = 60_000;

/// A token bucket: it holds the requests of a minute and is refilled evenly.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_minute: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What is left, in requests times [`MINUTE_MS`].
    left: u64,
    /// The time of the last refill on a monotonic clock, in milliseconds.
    at: Option<u64>,
}

impl Bucket {
    pub(crate) fn new(per_minute: u32) -> Self {
        let per_minute = u64::from(per_minute);
        Self { per_minute, state: Mutex::new(State { left: per_minute * MINUTE_MS, at: None }) }
    }

    /// Takes one request, or returns the time until there is one.
    pub(crate) fn take(&self, now_ms: u64) -> Result<(), Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now_ms.saturating_sub(state.at.unwrap_or(now_ms));
        let refilled = state.left.saturating_add(passed.saturating_mul(self.per_minute));
        state.left = refilled.min(self.per_minute * MINUTE_MS);
        state.at = Some(now_ms);
        match state.left.checked_sub(MINUTE_MS) {
            Some(left) => {
                state.left = left;
                Ok(())
            }
            None => {
                let missing = MINUTE_MS - state.left;
                Err(Duration::from_millis(missing.div_ceil(self.per_minute)))
            }
        }
    }
}
