//! How much a model thinks before it answers, and how a request asks for it.

use serde::{Deserialize, Serialize};

/// How much a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ThinkingLevel {
    /// No thinking; the request contains no option for it.
    #[default]
    Off,
    /// As little thinking as possible.
    Minimal,
    /// A low amount of thinking.
    Low,
    /// A medium amount of thinking.
    Medium,
    /// A high amount of thinking.
    High,
    /// A very high amount of thinking.
    XHigh,
    /// As much thinking as the model supports.
    Max,
}

impl ThinkingLevel {
    /// Returns the name: `off`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Returns the nearest level of `supported`: the same level, else the next higher one, else the highest. `Off`
    /// stays `Off`.
    #[must_use]
    pub fn clamp_to(self, supported: &[Self]) -> Self {
        if self == Self::Off || supported.is_empty() || supported.contains(&self) {
            return self;
        }
        let higher = supported.iter().copied().filter(|l| *l > self).min();
        higher.or_else(|| supported.iter().copied().max()).unwrap_or(self)
    }
}

/// How a model executes its reasoning, for the OpenAI Responses API. Other protocols do not have these options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", default)]
#[non_exhaustive]
pub struct ReasoningOptions {
    /// The execution mode; `None` for that of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ReasoningMode>,
    /// The earlier reasoning that the model receives; `None` if the model decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ReasoningContext>,
}

/// The execution mode of reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningMode {
    /// The usual mode of the model.
    Standard,
    /// The mode that spends more computation on an answer.
    Pro,
}

/// The earlier reasoning that a model receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningContext {
    /// The model decides by itself.
    Auto,
    /// The reasoning of the current turn.
    CurrentTurn,
    /// The reasoning of all turns.
    AllTurns,
}

/// The form in which a request controls how much the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ThinkingForm {
    /// The model does not think, or its thinking cannot be controlled.
    None,
    /// A thinking budget in tokens, at least `min`.
    #[default]
    Budget,
    /// A named effort level.
    Effort,
    /// Adaptive thinking, with a named effort level.
    Adaptive,
    /// A switch that turns thinking on or off.
    Toggle,
}

/// The thinking budget of each level, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingBudgets {
    /// The budget of `Minimal`, in tokens.
    pub minimal: u32,
    /// The budget of `Low`, in tokens.
    pub low: u32,
    /// The budget of `Medium`, in tokens.
    pub medium: u32,
    /// The budget of `High`, in tokens.
    pub high: u32,
    /// The budget of `XHigh` and `Max`, in tokens.
    pub xhigh: u32,
}

impl Default for ThinkingBudgets {
    /// Returns the default budgets. Providers clamp them to the limits of the model.
    fn default() -> Self {
        Self { minimal: 128, low: 512, medium: 2_048, high: 8_192, xhigh: 16_384 }
    }
}

impl ThinkingBudgets {
    /// Returns the budget of a level in tokens; `None` for `Off`.
    #[must_use]
    pub fn for_level(&self, level: ThinkingLevel) -> Option<u32> {
        match level {
            ThinkingLevel::Off => None,
            ThinkingLevel::Minimal => Some(self.minimal),
            ThinkingLevel::Low => Some(self.low),
            ThinkingLevel::Medium => Some(self.medium),
            ThinkingLevel::High => Some(self.high),
            ThinkingLevel::XHigh | ThinkingLevel::Max => Some(self.xhigh),
        }
    }
}
