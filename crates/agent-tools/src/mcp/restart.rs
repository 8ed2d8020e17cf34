//! When a server that ended is started again.

use std::time::Duration;

/// Whether and after which delay a server that ended is restarted.
///
/// The wait doubles with each start after which nothing was answered, up to `max_delay`; an answer sets it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restart {
    /// The maximum number of starts in one call; 0 for none.
    pub attempts: u32,
    /// The wait before the second start in a row.
    pub first_delay: Duration,
    /// The longest wait before a restart.
    pub max_delay: Duration,
}

impl Default for Restart {
    fn default() -> Self {
        Self { attempts: 3, first_delay: Duration::from_millis(250), max_delay: Duration::from_secs(10) }
    }
}

impl Restart {
    /// A server that ended stays so; calls fail.
    #[must_use]
    pub fn never() -> Self {
        Self { attempts: 0, ..Self::default() }
    }

    /// So many starts for one call, with these waits.
    #[must_use]
    pub fn new(attempts: u32, first_delay: Duration, max_delay: Duration) -> Self {
        Self { attempts, first_delay, max_delay }
    }

    /// The wait before a start, after `failures` starts that came to nothing.
    pub(super) fn delay(&self, failures: u32) -> Duration {
        match failures.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                self.first_delay.saturating_mul(2_u32.saturating_pow(doublings)).min(self.max_delay)
            }
        }
    }
}
