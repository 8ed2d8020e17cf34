//! Retries of failed model calls: their number and their delays.
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

/// How often a failed model call is retried, and after which delays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RetryConfig {
    /// The maximum number of retries; 3 by default, 0 for none.
    pub max_retries: u32,
    /// The delay before the first retry, in milliseconds; 1,000 by default.
    pub initial_delay_ms: u64,
    /// The factor by which each delay exceeds the one before it; 2 by default.
    pub backoff_multiplier: f64,
    /// The maximum delay before jitter, in milliseconds; 30,000 by default.
    pub max_delay_ms: u64,
    /// The maximum delay that a provider may ask for, in milliseconds; 60,000 by default, 0 for no limit. If it asks
    /// for more, the call is not retried, so that a run does not wait for hours.
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
    /// Creates a configuration without retries.
    #[must_use]
    pub fn none() -> Self {
        Self { max_retries: 0, ..Self::default() }
    }

    /// Sets the maximum number of retries.
    #[must_use]
    pub fn with_max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Sets the first delay, and the maximum delay before jitter.
    #[must_use]
    pub fn with_delays(mut self, initial: Duration, max: Duration) -> Self {
        self.initial_delay_ms = whole_ms(initial);
        self.max_delay_ms = whole_ms(max);
        self
    }

    /// Sets the factor by which the delays grow.
    #[must_use]
    pub fn with_backoff_multiplier(mut self, multiplier: f64) -> Self {
        self.backoff_multiplier = multiplier;
        self
    }

    /// Sets the maximum delay that a provider may ask for.
    #[must_use]
    pub fn with_max_retry_delay(mut self, max: Duration) -> Self {
        self.max_retry_delay_ms = whole_ms(max);
        self
    }

    /// Returns the delay before the retry number `attempt`, counted from 1 (0 counts as 1): `initial * multiplier ^
    /// (attempt - 1)`, at most `max_delay_ms`, times a jitter of 0.8 to 1.2. `unit`, from 0 (inclusive) to 1
    /// (exclusive), selects the jitter: 0 gives 0.8 and 0.5 gives 1. Values out of range are clamped.
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
        // Zero times an infinite factor is not a number; the delay is zero then.
        let grown = if grown.is_nan() { 0.0 } else { grown };
        let capped = grown.min(self.max_delay_ms as f64);
        let unit = if unit.is_finite() { unit.clamp(0.0, 1.0) } else { 0.5 };
        Duration::from_millis((capped * 0.4f64.mul_add(unit, 0.8)).round() as u64)
    }

    /// Returns the delay before the retry number `attempt` after an error that requested the delay `retry_after`: the longer
    /// one of it and [`delay_for_attempt`](Self::delay_for_attempt), because some servers request no delay at all while they
    /// refuse every request. Returns `None` if the provider asks for more
    /// than [`max_retry_delay_ms`](Self::max_retry_delay_ms) and that limit is not 0; the call must not be retried
    /// then.
    #[must_use]
    pub fn wait_for(&self, attempt: u32, retry_after: Option<Duration>, unit: f64) -> Option<Duration> {
        match retry_after {
            None => Some(self.delay_for_attempt(attempt, unit)),
            Some(asked) => {
                let bounded = self.max_retry_delay_ms > 0 && whole_ms(asked) > self.max_retry_delay_ms;
                (!bounded).then(|| asked.max(self.delay_for_attempt(attempt, unit)))
            }
        }
    }
}

/// Returns a number from 0 (inclusive) to 1 (exclusive) that is constant for a step of a loop and spread evenly over
/// different ones. A run can therefore be replayed, and concurrent runs do not retry at the same moment.
pub(crate) fn jitter(run: &LoopId, step: &StepKey) -> f64 {
    let bits = stable_hash(&["jitter", run.as_str(), step.as_str()]) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let unit = bits as f64 / (1_u64 << 53) as f64;
    unit
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
