//! The amounts that budgets limit and count.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::money::Money;
use crate::message::{CostConfig, Usage};

/// Amounts that were spent or may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Spending {
    /// The tokens of prompts and answers together, including those read from a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// The cost of the tokens.
    #[serde(skip_serializing_if = "no_money")]
    pub money: Money,
    /// The time of open runs in milliseconds. Concurrent runs count once, and suspended runs do not count.
    #[serde(skip_serializing_if = "is_zero")]
    pub time_ms: u64,
    /// The number of model calls, including failed ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// The number of tool calls that ran.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn no_money(money: &Money) -> bool {
    *money == Money::ZERO
}

impl Spending {
    /// Returns the amounts of one model call that used these tokens at these prices.
    #[must_use]
    pub fn of_call(usage: &Usage, prices: &CostConfig) -> Self {
        Self { model_calls: 1, ..Self::of_usage(usage, prices) }
    }

    /// Returns the amounts of these tokens at these prices, without a call.
    #[must_use]
    pub fn of_usage(usage: &Usage, prices: &CostConfig) -> Self {
        let tokens = usage.prompt_tokens().saturating_add(usage.output);
        Self { tokens, money: Money::from_micros(usage.cost(prices).total), ..Self::default() }
    }

    /// Returns an amount of tokens only.
    #[must_use]
    pub fn of_tokens(tokens: u64) -> Self {
        Self { tokens, ..Self::default() }
    }

    /// Returns an amount of money only.
    #[must_use]
    pub fn of_money(money: Money) -> Self {
        Self { money, ..Self::default() }
    }

    /// Returns a number of model calls only.
    #[must_use]
    pub fn of_model_calls(model_calls: u64) -> Self {
        Self { model_calls, ..Self::default() }
    }

    /// Returns a number of tool calls only.
    #[must_use]
    pub fn of_tool_calls(tool_calls: u64) -> Self {
        Self { tool_calls, ..Self::default() }
    }

    /// Returns an amount of time only.
    #[must_use]
    pub fn of_time(time: Duration) -> Self {
        Self { time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX), ..Self::default() }
    }

    /// Returns the amounts without time, which belongs to an account and not to a call.
    #[must_use]
    pub fn without_time(self) -> Self {
        Self { time_ms: 0, ..self }
    }

    /// Returns whether all amounts are zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sum of both, saturating instead of overflowing.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// Returns the difference, at least zero in each amount.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// Returns the larger of each amount.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.each(other, u64::max)
    }

    /// Returns the amount of this kind: tokens, micro-units, milliseconds or calls.
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

/// The limits of a budget; `None` for no limit of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BudgetLimits {
    /// The maximum number of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The maximum amount of money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
    /// The maximum time of open runs, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// The maximum number of model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// The maximum number of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
}

impl BudgetLimits {
    /// Creates limits that are all absent; the account only counts.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Sets the maximum number of tokens.
    #[must_use]
    pub fn with_tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets the maximum amount of money.
    #[must_use]
    pub fn with_money(mut self, money: Money) -> Self {
        self.money = Some(money);
        self
    }

    /// Sets the maximum time of open runs.
    #[must_use]
    pub fn with_time(mut self, time: Duration) -> Self {
        self.time_ms = Some(Spending::of_time(time).time_ms);
        self
    }

    /// Sets the maximum number of model calls.
    #[must_use]
    pub fn with_model_calls(mut self, calls: u64) -> Self {
        self.model_calls = Some(calls);
        self
    }

    /// Sets the maximum number of tool calls.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: u64) -> Self {
        self.tool_calls = Some(calls);
        self
    }

    /// Returns the limit of this kind: tokens, micro-units, milliseconds or calls.
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

    /// Returns this percentage of each limit.
    pub(super) fn percent(&self, percent: u8) -> Self {
        let part = |n: u64| {
            let part = u128::from(n) * u128::from(percent.min(100)) / 100;
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        self.each(|_, limit| limit.map(part))
    }
}

/// The kind of a budget limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetLimit {
    /// The limit is [`BudgetLimits::tokens`].
    Tokens,
    /// The limit is [`BudgetLimits::money`].
    Money,
    /// The limit is [`BudgetLimits::time_ms`].
    Time,
    /// The limit is [`BudgetLimits::model_calls`].
    ModelCalls,
    /// The limit is [`BudgetLimits::tool_calls`].
    ToolCalls,
}

impl BudgetLimit {
    /// All kinds, in the order in which they are checked.
    pub const ALL: [Self; 5] = [Self::Money, Self::Tokens, Self::ModelCalls, Self::ToolCalls, Self::Time];

    /// Returns the display name: `money`, `tokens`, `time`, `model calls` or `tool calls`.
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

    /// Formats an amount of this kind for display.
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
