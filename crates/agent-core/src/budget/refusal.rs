//! Why a call is not made.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::amounts::BudgetLimit;

/// A limit that does not allow a call, with the figures. They are tokens, micro-units of money, milliseconds or calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetRefusal {
    /// The name of the account whose limit it is.
    pub budget: String,
    /// How many levels above the asking account it is: 0 is the account itself, 1 its parent.
    pub level: u32,
    /// Which limit.
    pub limit: BudgetLimit,
    /// How much is allowed, raises included.
    pub allowed: u64,
    /// How much is spent.
    pub spent: u64,
    /// How much is reserved for calls that are being made.
    #[serde(default)]
    pub reserved: u64,
    /// How much the call asks for at least.
    #[serde(default)]
    pub asked: u64,
}

impl BudgetRefusal {
    /// Whether the call may be allowed when those that are being made have ended.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.reserved > 0 && self.spent.saturating_add(self.asked) <= self.allowed
    }
}

impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { budget, limit, .. } = self;
        let (allowed, spent) = (limit.shown(self.allowed), limit.shown(self.spent));
        let name = if budget == "budget" { String::new() } else { format!(" {budget:?}") };
        write!(f, "the budget{name} of {allowed} in {limit} is used up: {spent} is spent")?;
        if self.spent < self.allowed && self.asked > 0 {
            write!(f, ", and the next call may cost {}", limit.shown(self.asked))?;
        }
        Ok(())
    }
}

/// A budget that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// Money is limited, and nobody knows what the model costs.
    #[error(
        "the budget {budget:?} limits money, and the prices of {provider}/{model} are not known; give the model prices with with_cost (CostConfig::free() for one that costs nothing), or limit tokens instead"
    )]
    NoPrices {
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// The account that was asked for.
        budget: String,
    },
}
