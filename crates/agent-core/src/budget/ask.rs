//! The maximum cost of a call, for reservations.

use super::amounts::{BudgetLimit, BudgetLimits, Spending};
use super::money::Money;
use crate::message::{CostConfig, Usage};

/// The minimum number of answer tokens for which a call is made. If fewer are left, the limit counts as reached.
pub const LEAST_OUTPUT: u64 = 1_024;

/// The number of answer tokens that is reserved for a call whose model has an unknown output limit. It is the greatest limit
/// of the current models of the large vendors.
pub const UNKNOWN_OUTPUT: u64 = 128_000;

/// The maximum cost of a call.
///
/// The longest possible answer is rare and often costs more than the budget has left. If it does not fit, the call
/// gets half of what is left, at least [`LEAST_OUTPUT`] tokens, and the answer must be limited to that.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    fixed: Spending,
    elastic: Option<Elastic>,
}

#[derive(Debug, Clone, PartialEq)]
struct Elastic {
    prompt: u64,
    most: u64,
    least: u64,
    prices: CostConfig,
}

impl Ask {
    /// Describes a model call with this many prompt tokens and at most this many answer tokens.
    #[must_use]
    pub fn model_call(prompt: u64, max_output: u64, prices: &CostConfig) -> Self {
        let most = max_output.max(1);
        let elastic = Elastic { prompt, most, least: most.min(LEAST_OUTPUT), prices: prices.clone() };
        Self { fixed: Spending::of_model_calls(1), elastic: Some(elastic) }
    }

    /// Describes a model call whose answer is limited by the request or the model, or by neither. Without a limit,
    /// [`UNKNOWN_OUTPUT`] tokens are reserved.
    pub(crate) fn limited_by(prompt: u64, limit: Option<u32>, prices: &CostConfig) -> Self {
        Self::model_call(prompt, limit.map_or(UNKNOWN_OUTPUT, u64::from), prices)
    }

    /// Describes the call of a tool.
    #[must_use]
    pub fn tool_call() -> Self {
        Self::exactly(Spending::of_tool_calls(1))
    }

    /// Describes a call with exactly these amounts.
    #[must_use]
    pub fn exactly(amounts: Spending) -> Self {
        Self { fixed: amounts, elastic: None }
    }

    /// Returns the cost with the longest answer.
    #[must_use]
    pub fn at_most(&self) -> Spending {
        self.amounts(self.most())
    }

    /// Returns the cost with the shortest answer for which the call is made.
    #[must_use]
    pub fn at_least(&self) -> Spending {
        self.amounts(self.elastic.as_ref().map_or(0, |e| e.least))
    }

    /// Returns the length of the longest answer in tokens.
    pub(super) fn most(&self) -> u64 {
        self.elastic.as_ref().map_or(0, |e| e.most)
    }

    /// Returns the cost with an answer of this many tokens.
    pub(super) fn amounts(&self, output: u64) -> Spending {
        let Some(elastic) = &self.elastic else { return self.fixed };
        let tokens = elastic.prompt.saturating_add(output);
        let call = Spending { tokens, money: elastic.price(output), ..Spending::default() };
        self.fixed.plus(&call)
    }

    /// Returns the longest answer that `left` allows: all of it, or half of what is left. `None` if the shortest
    /// answer does not fit.
    pub(super) fn fitting(&self, left: &BudgetLimits, most: u64) -> Option<u64> {
        let fits = |output: u64| {
            let amounts = self.amounts(output);
            [BudgetLimit::Tokens, BudgetLimit::Money]
                .into_iter()
                .all(|kind| left.of(kind).is_none_or(|left| amounts.of(kind) <= left))
        };
        if fits(most) {
            return Some(most);
        }
        let elastic = self.elastic.as_ref()?;
        if !fits(elastic.least) {
            return None;
        }
        // The cost grows with the answer, so bisection finds the longest answer that fits.
        let (mut low, mut high) = (elastic.least, most);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        Some((low / 2).max(elastic.least))
    }
}

impl Elastic {
    /// Returns the higher of the costs with and without writing the prompt to a cache, which some vendors charge more
    /// for.
    fn price(&self, output: u64) -> Money {
        let read = Usage::new(self.prompt, output, 0, 0).cost(&self.prices).total;
        let written = Usage::new(0, output, 0, self.prompt).cost(&self.prices).total;
        Money::from_micros(read.max(written))
    }
}
