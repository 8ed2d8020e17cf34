//! The refusal of a call by a budget.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::amounts::BudgetLimit;

/// The limit that denies a call, with its figures in tokens, micro-units, milliseconds or calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetRefusal {
    /// The name of the account with the limit.
    pub budget: String,
    /// The level of the account: 0 is the account itself, 1 its parent, and so on.
    pub level: u32,
    /// The kind of the limit.
    pub limit: BudgetLimit,
    /// The allowed amount, including raises.
    pub allowed: u64,
    /// The amount that has been spent.
    pub spent: u64,
    /// The amount that is reserved for calls in progress.
    #[serde(default)]
    pub reserved: u64,
    /// The minimum amount that the call needs.
    #[serde(default)]
    pub asked: u64,
}

impl BudgetRefusal {
    /// Creates the refusal of an account with this limit, which has spent this amount. Nothing is reserved or asked.
    #[must_use]
    pub fn new(limit: BudgetLimit, allowed: u64, spent: u64) -> Self {
        Self { budget: "budget".to_owned(), level: 0, limit, allowed, spent, reserved: 0, asked: 0 }
    }

    /// Sets the amount that is reserved for calls in progress.
    #[must_use]
    pub fn with_reserved(mut self, amount: u64) -> Self {
        self.reserved = amount;
        self
    }

    /// Sets the amount that the call needs.
    #[must_use]
    pub fn with_asked(mut self, amount: u64) -> Self {
        self.asked = amount;
        self
    }

    /// Returns whether the call may be allowed after the calls in progress have ended.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.reserved > 0 && self.spent.saturating_add(self.asked) <= self.allowed
    }
}

impl std::error::Error for BudgetRefusal {}

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

/// The error of a budget that cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// Money is limited, but the prices of the model are unknown.
    #[error(
        "the budget {budget:?} limits money, and the prices of {provider}/{model} are not known; give the model prices with with_cost (CostConfig::free() for one that costs nothing), or limit tokens instead"
    )]
    NoPrices {
        /// The name of the provider.
        provider: String,
        /// The id of the model.
        model: String,
        /// The name of the account.
        budget: String,
    },
}
