//! What a call may cost at most.

use super::amounts::{BudgetLimit, BudgetLimits, Spending};
use super::money::Money;
use crate::message::{CostConfig, Usage};

/// The fewest tokens of an answer that a call is made for. Where less is left, the limit counts as reached.
pub const LEAST_OUTPUT: u64 = 1_024;

/// What a call may cost at most.
///
/// The longest answer that a model can give is seldom given, and often costs more than a budget has. Where it does not fit,
/// the call gets half of what is left, at least [`LEAST_OUTPUT`] tokens; the answer must then be bounded by that.
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
    /// A call of a model with a prompt of so many tokens and an answer of at most so many.
    #[must_use]
    pub fn model_call(prompt: u64, max_output: u64, prices: &CostConfig) -> Self {
        let most = max_output.max(1);
        let elastic = Elastic { prompt, most, least: most.min(LEAST_OUTPUT), prices: prices.clone() };
        Self { fixed: Spending::of_model_calls(1), elastic: Some(elastic) }
    }

    /// A call of a tool.
    #[must_use]
    pub fn tool_call() -> Self {
        Self::exactly(Spending::of_tool_calls(1))
    }

    /// This much.
    #[must_use]
    pub fn exactly(amounts: Spending) -> Self {
        Self { fixed: amounts, elastic: None }
    }

    /// All of it, with the longest answer.
    #[must_use]
    pub fn at_most(&self) -> Spending {
        self.amounts(self.most())
    }

    /// With the shortest answer that it is made for.
    #[must_use]
    pub fn at_least(&self) -> Spending {
        self.amounts(self.elastic.as_ref().map_or(0, |e| e.least))
    }

    /// The longest answer.
    pub(super) fn most(&self) -> u64 {
        self.elastic.as_ref().map_or(0, |e| e.most)
    }

    /// With an answer of so many tokens.
    pub(super) fn amounts(&self, output: u64) -> Spending {
        let Some(elastic) = &self.elastic else { return self.fixed };
        let tokens = elastic.prompt.saturating_add(output);
        let call = Spending { tokens, money: elastic.price(output), ..Spending::default() };
        self.fixed.plus(&call)
    }

    /// The longest answer that `left` allows, if the shortest fits: all, or half of what is left.
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
        // What the price is of grows with the answer, so the longest one that fits is found by halving.
        let (mut low, mut high) = (elastic.least, most);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        Some((low / 2).max(elastic.least))
    }
}

impl Elastic {
    /// A prompt may be written to a cache, which some vendors charge more for.
    fn price(&self, output: u64) -> Money {
        let read = Usage::new(self.prompt, output, 0, 0).cost(&self.prices).total;
        let written = Usage::new(0, output, 0, self.prompt).cost(&self.prices).total;
        Money::from_micros(read.max(written))
    }
}
