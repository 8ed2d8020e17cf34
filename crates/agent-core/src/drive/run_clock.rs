//! The clock of a run: it has the time of day, advances with the monotonic clock, and never goes back.

use crate::environment::Environment;
use crate::identity::Timestamp;
use crate::run::Run;

/// A clock that is set back, or by less than this, leaves the time of a run as it is. In milliseconds.
const SLACK_MS: u64 = 5_000;

/// The time of a run that a driver performs: that of its last input, plus the time since then by the monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunClock {
    /// How far the time of the run is ahead of the monotonic clock, in milliseconds, wrapping. Without a run it is 0, so
    /// that the time of day, which is far ahead, is read.
    ahead_ms: u64,
}

/// One reading of both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// The time of the next input.
    pub(super) now: Timestamp,
    /// The milliseconds up to it that are not the run's.
    pub(super) idle_ms: u64,
    monotonic_ms: u64,
}

impl RunClock {
    /// Starts at the last input of a run. The time until the next input counts only as far as it passes from now on.
    pub(super) fn starting(run: &Run, environment: &dyn Environment) -> Self {
        Self { ahead_ms: run.now().0.wrapping_sub(environment.monotonic_ms()) }
    }

    pub(super) fn read(&self, environment: &dyn Environment) -> Reading {
        let (wall, monotonic_ms) = (environment.now(), environment.monotonic_ms());
        let steady = Timestamp(monotonic_ms.wrapping_add(self.ahead_ms));
        match wall.millis_since(steady) {
            ahead if ahead > SLACK_MS => Reading { now: wall, idle_ms: ahead, monotonic_ms },
            _ => Reading { now: steady, idle_ms: 0, monotonic_ms },
        }
    }

    /// Continues at the time of a reading.
    pub(super) fn set(&mut self, reading: Reading) {
        self.ahead_ms = reading.now.0.wrapping_sub(reading.monotonic_ms);
    }
}
