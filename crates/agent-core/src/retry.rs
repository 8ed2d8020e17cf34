//! How often a failed call to a model is made again, and after how long (REQ-013, REQ-071).
//!
//! ```
//! use std::time::Duration;
//! use agent_core::RetryConfig;
//! let retry = RetryConfig::default();
//! assert_eq!(retry.delay_for_attempt(3, 0.5), Duration::from_millis(4_000));
//! assert_eq!(retry.delay_for_attempt(30, 0.5), Duration::from_millis(30_000));
//! ```

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::{LoopId, StepKey, stable_hash};

/// How often a failed call is made again, and after how long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RetryConfig {
    /// Calls after the first one; 3 unless said otherwise, 0 for none.
    pub max_retries: u32,
    /// The wait before the first of them, in milliseconds; 1,000 unless said otherwise.
    pub initial_delay_ms: u64,
    /// How many times longer each wait is than the one before it; 2 unless said otherwise.
    pub backoff_multiplier: f64,
    /// The longest wait before jitter, in milliseconds; 30,000 unless said otherwise.
    pub max_delay_ms: u64,
    /// The longest wait that a provider may ask for, in milliseconds; when it asks for more, the call is not made
    /// again, so that nobody waits for hours unawares (B-165). 60,000 unless said otherwise; 0 for no bound.
    pub max_retry_delay_ms: u64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            max_retries: 3,
            initial_delay_ms: 1_000,
            backoff_multiplier: 2.0,
            max_delay_ms: 30_000,
            max_retry_delay_ms: 60_000,
        }
    }
}

impl RetryConfig {
    /// A failed call is not made again.
    #[must_use]
    pub fn none() -> Self {
        Self { max_retries: 0, ..Self::default() }
    }

    /// The same with another number of calls after the first one.
    #[must_use]
    pub fn with_max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// The same with other waits: the first one, and the longest one before jitter.
    #[must_use]
    pub fn with_delays(mut self, initial: Duration, max: Duration) -> Self {
        self.initial_delay_ms = whole_ms(initial);
        self.max_delay_ms = whole_ms(max);
        self
    }

    /// The same with waits that grow by this factor.
    #[must_use]
    pub fn with_backoff_multiplier(mut self, multiplier: f64) -> Self {
        self.backoff_multiplier = multiplier;
        self
    }

    /// The same with another longest wait that a provider may ask for.
    #[must_use]
    pub fn with_max_retry_delay(mut self, max: Duration) -> Self {
        self.max_retry_delay_ms = whole_ms(max);
        self
    }

    /// The wait before the retry number `attempt`, counted from 1 (0 counts as 1):
    /// `initial * multiplier ^ (attempt - 1)`, at most `max_delay_ms`, times a jitter of 0.8 to 1.2. `unit`, from
    /// 0 up to but not including 1, chooses the jitter: 0 is 0.8, one half is exactly 1. Numbers out of range are
    /// brought into it.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "waits are far below 2^52 ms, and a float becomes an integer by saturation"
    )]
    pub fn delay_for_attempt(&self, attempt: u32, unit: f64) -> Duration {
        let steps = i32::try_from(attempt.max(1) - 1).unwrap_or(i32::MAX);
        let factor = if self.backoff_multiplier.is_finite() { self.backoff_multiplier.max(0.0) } else { 1.0 };
        let grown = self.initial_delay_ms as f64 * factor.powi(steps);
        // 0 times an infinite factor is not a number; there is nothing to wait for then.
        let grown = if grown.is_nan() { 0.0 } else { grown };
        let capped = grown.min(self.max_delay_ms as f64);
        let unit = if unit.is_finite() { unit.clamp(0.0, 1.0) } else { 0.5 };
        Duration::from_millis((capped * 0.4f64.mul_add(unit, 0.8)).round() as u64)
    }

    /// The wait before the retry number `attempt` after an error that asked for `retry_after`: what it asked for,
    /// if it did, else [`delay_for_attempt`](Self::delay_for_attempt). `None` when it asked for more than
    /// [`max_retry_delay_ms`](Self::max_retry_delay_ms), unless that is 0: then the call is not made again.
    #[must_use]
    pub fn wait_for(&self, attempt: u32, retry_after: Option<Duration>, unit: f64) -> Option<Duration> {
        match retry_after {
            None => Some(self.delay_for_attempt(attempt, unit)),
            Some(asked) => {
                let bounded = self.max_retry_delay_ms > 0 && whole_ms(asked) > self.max_retry_delay_ms;
                (!bounded).then_some(asked)
            }
        }
    }
}

/// A number from 0 up to but not including 1 that is the same for the same step of the same loop, and spread over
/// the range for different ones: a run can be replayed, and many runs do not retry at the same moment.
pub(crate) fn jitter(run: &LoopId, step: &StepKey) -> f64 {
    let bits = stable_hash(&["jitter", run.as_str(), step.as_str()]) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let unit = bits as f64 / (1_u64 << 53) as f64;
    unit
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
