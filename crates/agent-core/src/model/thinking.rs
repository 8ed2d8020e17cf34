//! How much a model thinks before it answers, and how that is asked for (REQ-019, REQ-129, D13).

use serde::{Deserialize, Serialize};

/// How much a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ThinkingLevel {
    /// Not at all; no option is sent.
    #[default]
    Off,
    /// As little as possible.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as the model can.
    XHigh,
}

impl ThinkingLevel {
    /// `off`, `minimal`, `low`, `medium`, `high` or `xhigh`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
        }
    }

    /// The nearest of `supported` (B-150): the same, else the next higher, else the highest. `Off` stays `Off`.
    #[must_use]
    pub fn clamp_to(self, supported: &[Self]) -> Self {
        if self == Self::Off || supported.is_empty() || supported.contains(&self) {
            return self;
        }
        let higher = supported.iter().copied().filter(|l| *l > self).min();
        higher.or_else(|| supported.iter().copied().max()).unwrap_or(self)
    }
}

/// How a model is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ThinkingForm {
    /// It does not think, or cannot be told.
    None,
    /// By a budget in tokens, at least `min`.
    #[default]
    Budget,
    /// By a word for the effort.
    Effort,
    /// By switching adaptive thinking on, with a word for the effort.
    Adaptive,
    /// By a switch.
    Toggle,
}

/// Budgets in tokens for the levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingBudgets {
    /// For `Minimal`.
    pub minimal: u32,
    /// For `Low`.
    pub low: u32,
    /// For `Medium`.
    pub medium: u32,
    /// For `High`.
    pub high: u32,
    /// For `XHigh`.
    pub xhigh: u32,
}

impl Default for ThinkingBudgets {
    /// The table of REQ-129. Providers clamp it to what a model accepts.
    fn default() -> Self {
        Self { minimal: 128, low: 512, medium: 2_048, high: 8_192, xhigh: 16_384 }
    }
}

impl ThinkingBudgets {
    /// The budget of a level; `None` for `Off`.
    #[must_use]
    pub fn for_level(&self, level: ThinkingLevel) -> Option<u32> {
        match level {
            ThinkingLevel::Off => None,
            ThinkingLevel::Minimal => Some(self.minimal),
            ThinkingLevel::Low => Some(self.low),
            ThinkingLevel::Medium => Some(self.medium),
            ThinkingLevel::High => Some(self.high),
            ThinkingLevel::XHigh => Some(self.xhigh),
        }
    }
}
