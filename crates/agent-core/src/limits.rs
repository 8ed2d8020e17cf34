//! Execution limits of a run, and the tracker that checks them.
//!
//! ```
//! use agent_core::{ExecutionLimits, ExecutionTracker, LimitReason, Timestamp};
//! let limits = ExecutionLimits::default().with_max_turns(2);
//! let mut run = ExecutionTracker::new(limits, Timestamp(0));
//! run.record_turn(1_200);
//! assert_eq!(run.check_limits(Timestamp(5)), None);
//! run.record_turn(800);
//! assert_eq!(run.check_limits(Timestamp(9)), Some(LimitReason::Turns));
//! ```

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::Timestamp;

/// The limits of a run: turns, tokens and time. `None` disables a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ExecutionLimits {
    /// The maximum number of turns; 50 by default.
    pub max_turns: Option<u32>,
    /// The maximum number of tokens of all turns together, without tokens that were read from a cache; 1,000,000 by
    /// default.
    pub max_total_tokens: Option<u64>,
    /// The maximum time for which the run works; 600 seconds by default. It also ends model calls and tools that are still
    /// running. In JSON it is `max_duration_ms`.
    ///
    /// The time for which the run waits for an answer does not count, nor does that for which it cannot work: the machine is
    /// suspended, the process is stopped, or the run is interrupted. A clock that is set changes nothing.
    #[serde(rename = "max_duration_ms", with = "millis")]
    pub max_duration: Option<Duration>,
}

impl Default for ExecutionLimits {
    fn default() -> Self {
        Self {
            max_turns: Some(50),
            max_total_tokens: Some(1_000_000),
            max_duration: Some(Duration::from_secs(600)),
        }
    }
}

impl ExecutionLimits {
    /// Creates limits that are all disabled.
    #[must_use]
    pub fn unlimited() -> Self {
        Self { max_turns: None, max_total_tokens: None, max_duration: None }
    }

    /// Returns whether all limits are disabled.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::unlimited()
    }

    /// Sets the limit of turns; `None` disables it.
    #[must_use]
    pub fn with_max_turns(mut self, turns: impl Into<Option<u32>>) -> Self {
        self.max_turns = turns.into();
        self
    }

    /// Sets the limit of tokens; `None` disables it.
    #[must_use]
    pub fn with_max_total_tokens(mut self, tokens: impl Into<Option<u64>>) -> Self {
        self.max_total_tokens = tokens.into();
        self
    }

    /// Sets the limit of time; `None` disables it.
    #[must_use]
    pub fn with_max_duration(mut self, duration: impl Into<Option<Duration>>) -> Self {
        self.max_duration = duration.into();
        self
    }
}

/// Tracks the consumption of a run. It is part of the run's state and survives a suspension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecutionTracker {
    /// The limits of the run.
    #[serde(default = "ExecutionLimits::unlimited", skip_serializing_if = "ExecutionLimits::is_unlimited")]
    pub limits: ExecutionLimits,
    /// The number of turns that have ended.
    pub turns: u32,
    /// The number of tokens that they used.
    pub tokens_used: u64,
    /// The time at which the run started.
    pub started_at: Timestamp,
    /// How long the run has waited for answers or could not work, in milliseconds. This time does not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

impl ExecutionTracker {
    /// Creates the tracker of a run that starts at `now`.
    #[must_use]
    pub fn new(limits: ExecutionLimits, now: Timestamp) -> Self {
        Self { limits, turns: 0, tokens_used: 0, started_at: now, waited_ms: 0 }
    }

    /// Records a turn that used `tokens`.
    pub fn record_turn(&mut self, tokens: u64) {
        self.turns = self.turns.saturating_add(1);
        self.tokens_used = self.tokens_used.saturating_add(tokens);
    }

    /// Returns the time that counts: since the start, without the time for which the run waited or could not work.
    fn elapsed(&self, now: Timestamp) -> Duration {
        Duration::from_millis(now.millis_since(self.started_at).saturating_sub(self.waited_ms))
    }

    /// Returns the time until [`ExecutionLimits::max_duration`] is reached; `None` without that limit.
    #[must_use]
    pub fn time_left(&self, now: Timestamp) -> Option<Duration> {
        self.limits.max_duration.map(|max| max.saturating_sub(self.elapsed(now)))
    }

    /// Returns the first limit that has been reached, in the order turns, tokens, time.
    #[must_use]
    pub fn check_limits(&self, now: Timestamp) -> Option<LimitReason> {
        let elapsed = self.elapsed(now);
        let ExecutionLimits { max_turns, max_total_tokens, max_duration } = self.limits;
        if max_turns.is_some_and(|max| self.turns >= max) {
            return Some(LimitReason::Turns);
        }
        if max_total_tokens.is_some_and(|max| self.tokens_used >= max) {
            return Some(LimitReason::TotalTokens);
        }
        max_duration.is_some_and(|max| elapsed >= max).then_some(LimitReason::Duration)
    }
}

/// The limit that ended a run. Its text is the reason in the run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitReason {
    /// The run reached [`ExecutionLimits::max_turns`].
    Turns,
    /// The run reached [`ExecutionLimits::max_total_tokens`].
    TotalTokens,
    /// The run reached [`ExecutionLimits::max_duration`].
    Duration,
    /// The run reached [`LoopPolicy::max_repeats`](crate::LoopPolicy::max_repeats).
    Repeats,
}

impl LimitReason {
    /// Returns the reason: `max turns exceeded`, `max total tokens exceeded` `max duration exceeded`, or one that begins with
    /// `max repeats exceeded`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "max turns exceeded",
            Self::TotalTokens => "max total tokens exceeded",
            Self::Duration => "max duration exceeded",
            Self::Repeats => {
                "max repeats exceeded: the model made the same calls with the same results again and again"
            }
        }
    }
}

impl fmt::Display for LimitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Serializes a duration as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "the form that serde calls")]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
