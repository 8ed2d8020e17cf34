//! The policy for restarting servers that have ended.

use std::time::Duration;

/// Whether and after which delay a server that ended is restarted.
///
/// The delay doubles with each consecutive start after which the server answered no request, up to `max_delay`. A
/// response resets it. The default is 3 attempts with 250 ms to 10 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restart {
    /// The maximum number of starts in one call. 0 disables restarts.
    pub attempts: u32,
    /// The delay before the second consecutive start.
    pub first_delay: Duration,
    /// The maximum delay before a start.
    pub max_delay: Duration,
}

impl Default for Restart {
    fn default() -> Self {
        Self { attempts: 3, first_delay: Duration::from_millis(250), max_delay: Duration::from_secs(10) }
    }
}

impl Restart {
    /// Never restarts a server. Calls fail after it has ended.
    #[must_use]
    pub fn never() -> Self {
        Self { attempts: 0, ..Self::default() }
    }

    /// Allows this number of starts in one call, with these delays.
    #[must_use]
    pub fn new(attempts: u32, first_delay: Duration, max_delay: Duration) -> Self {
        Self { attempts, first_delay, max_delay }
    }

    /// Returns the delay before a start, after this number of failed starts.
    pub(super) fn delay(&self, failures: u32) -> Duration {
        match failures.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                self.first_delay.saturating_mul(2_u32.saturating_pow(doublings)).min(self.max_delay)
            }
        }
    }
}
