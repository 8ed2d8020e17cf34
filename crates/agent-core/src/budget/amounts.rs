//! Limits, and what is counted against them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::money::Money;
use crate::message::{CostConfig, Usage};

/// What was spent, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Spending {
    /// Tokens of prompts and answers together, those read from a cache included.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// What they cost.
    #[serde(skip_serializing_if = "no_money")]
    pub money: Money,
    /// Milliseconds in which a run went on; runs side by side are counted once, and waiting for a person is not.
    #[serde(skip_serializing_if = "is_zero")]
    pub time_ms: u64,
    /// Calls of models, those that failed included.
    #[serde(skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// Calls of tools that ran.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn no_money(money: &Money) -> bool {
    *money == Money::ZERO
}

impl Spending {
    /// One call of a model that used these tokens at these prices.
    #[must_use]
    pub fn of_call(usage: &Usage, prices: &CostConfig) -> Self {
        Self { model_calls: 1, ..Self::of_usage(usage, prices) }
    }

    /// These tokens at these prices.
    #[must_use]
    pub fn of_usage(usage: &Usage, prices: &CostConfig) -> Self {
        let tokens = usage.prompt_tokens().saturating_add(usage.output);
        Self { tokens, money: Money::from_micros(usage.cost(prices).total), ..Self::default() }
    }

    /// Tokens alone.
    #[must_use]
    pub fn of_tokens(tokens: u64) -> Self {
        Self { tokens, ..Self::default() }
    }

    /// Money alone.
    #[must_use]
    pub fn of_money(money: Money) -> Self {
        Self { money, ..Self::default() }
    }

    /// So many calls of models.
    #[must_use]
    pub fn of_model_calls(model_calls: u64) -> Self {
        Self { model_calls, ..Self::default() }
    }

    /// So many calls of tools.
    #[must_use]
    pub fn of_tool_calls(tool_calls: u64) -> Self {
        Self { tool_calls, ..Self::default() }
    }

    /// Time alone.
    #[must_use]
    pub fn of_time(time: Duration) -> Self {
        Self { time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX), ..Self::default() }
    }

    /// The same without time, which is that of an account and not of a call.
    #[must_use]
    pub fn without_time(self) -> Self {
        Self { time_ms: 0, ..self }
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// What is left of it; nothing where `other` has more.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// The larger of each.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.each(other, u64::max)
    }

    /// How much of this kind: tokens, micro-units, milliseconds or calls.
    #[must_use]
    pub fn of(&self, limit: BudgetLimit) -> u64 {
        match limit {
            BudgetLimit::Tokens => self.tokens,
            BudgetLimit::Money => self.money.micros(),
            BudgetLimit::Time => self.time_ms,
            BudgetLimit::ModelCalls => self.model_calls,
            BudgetLimit::ToolCalls => self.tool_calls,
        }
    }

    fn each(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            tokens: with(self.tokens, other.tokens),
            money: Money::from_micros(with(self.money.micros(), other.money.micros())),
            time_ms: with(self.time_ms, other.time_ms),
            model_calls: with(self.model_calls, other.model_calls),
            tool_calls: with(self.tool_calls, other.tool_calls),
        }
    }
}

/// How much of each kind may be spent; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BudgetLimits {
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
    /// Milliseconds in which a run goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Calls of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Calls of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
}

impl BudgetLimits {
    /// No limit at all: it only counts.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The same with a limit of tokens.
    #[must_use]
    pub fn with_tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// The same with a limit of money.
    #[must_use]
    pub fn with_money(mut self, money: Money) -> Self {
        self.money = Some(money);
        self
    }

    /// The same with a limit of time.
    #[must_use]
    pub fn with_time(mut self, time: Duration) -> Self {
        self.time_ms = Some(Spending::of_time(time).time_ms);
        self
    }

    /// The same with a limit of calls of models.
    #[must_use]
    pub fn with_model_calls(mut self, calls: u64) -> Self {
        self.model_calls = Some(calls);
        self
    }

    /// The same with a limit of calls of tools.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: u64) -> Self {
        self.tool_calls = Some(calls);
        self
    }

    /// The limit of this kind: tokens, micro-units, milliseconds or calls.
    #[must_use]
    pub fn of(&self, limit: BudgetLimit) -> Option<u64> {
        match limit {
            BudgetLimit::Tokens => self.tokens,
            BudgetLimit::Money => self.money.map(Money::micros),
            BudgetLimit::Time => self.time_ms,
            BudgetLimit::ModelCalls => self.model_calls,
            BudgetLimit::ToolCalls => self.tool_calls,
        }
    }

    pub(super) fn each(&self, with: impl Fn(BudgetLimit, Option<u64>) -> Option<u64>) -> Self {
        let of = |limit| with(limit, self.of(limit));
        Self {
            tokens: of(BudgetLimit::Tokens),
            money: of(BudgetLimit::Money).map(Money::from_micros),
            time_ms: of(BudgetLimit::Time),
            model_calls: of(BudgetLimit::ModelCalls),
            tool_calls: of(BudgetLimit::ToolCalls),
        }
    }

    /// This part of each limit.
    pub(super) fn percent(&self, percent: u8) -> Self {
        let part = |n: u64| {
            let part = u128::from(n) * u128::from(percent.min(100)) / 100;
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        self.each(|_, limit| limit.map(part))
    }
}

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetLimit {
    /// [`BudgetLimits::tokens`].
    Tokens,
    /// [`BudgetLimits::money`].
    Money,
    /// [`BudgetLimits::time_ms`].
    Time,
    /// [`BudgetLimits::model_calls`].
    ModelCalls,
    /// [`BudgetLimits::tool_calls`].
    ToolCalls,
}

impl BudgetLimit {
    /// All of them, in the order in which they are looked at.
    pub const ALL: [Self; 5] = [Self::Money, Self::Tokens, Self::ModelCalls, Self::ToolCalls, Self::Time];

    /// Its name for people: `money`, `tokens`, `time`, `model calls`, `tool calls`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Money => "money",
            Self::Time => "time",
            Self::ModelCalls => "model calls",
            Self::ToolCalls => "tool calls",
        }
    }

    /// An amount of this kind, for people.
    pub(super) fn shown(self, amount: u64) -> String {
        match self {
            Self::Money => Money::from_micros(amount).to_string(),
            Self::Time => format!("{}.{} s", amount / 1_000, amount % 1_000 / 100),
            Self::Tokens | Self::ModelCalls | Self::ToolCalls => amount.to_string(),
        }
    }
}

impl fmt::Display for BudgetLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
