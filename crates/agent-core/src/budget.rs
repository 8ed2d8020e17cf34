//! What may be spent, by how many runs soever: tokens, money, time, calls of models and of tools (X4).
//!
//! A [`Budget`] is a handle on an account; a clone is the same account. Each call is reserved before it is made, at the most
//! that it can cost, and settled with what it did cost. So runs side by side cannot overspend together. A
//! [`child`](Budget::child) is an account of its own limits that takes from its parent: what it spends is spent there too.
//!
//! | where | how |
//! |---|---|
//! | an agent, over all its runs | `BasicAgent::with_budget` |
//! | a loop without a handle | `AgentLoopConfig::budget` |
//! | a sub-agent | takes from the budget of its caller by itself; `SubAgentTool::with_budget` bounds its share |
//! | a tool, a judge, a compaction that asks a model itself | [`Budget::meter`] around its provider |
//!
//! ```
//! use agent_core::testing::{ScriptedProvider, ScriptedReply};
//! use agent_core::{BasicAgent, Budget, BudgetLimits, CostConfig, Ended, RunEnd, StopCause, ModelConfig, Usage};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let model = ModelConfig::default().with_cost(CostConfig::per_million(3_000_000, 15_000_000, 300_000, 3_750_000));
//! let provider = ScriptedProvider::new([
//!     ScriptedReply::text("One.").using(Usage::new(1_000, 400, 0, 0)),
//!     ScriptedReply::text("Two."),
//! ]);
//! let budget = Budget::new(BudgetLimits::none().with_money("0.02".parse()?));
//! let agent = BasicAgent::new(model).with_provider(provider).with_max_tokens(500).with_budget(budget.clone());
//!
//! agent.chat("Count.").await?;
//! assert_eq!(budget.spent().money.to_string(), "0.009");
//! let _ = budget.charge(budget.spent()); // as another agent on the same account would
//! agent.chat("Go on.").await.expect_err("nothing is left for a call");
//! let Some(RunEnd::Stopped(StopCause::Budget { refusal })) = agent.finish().await else { panic!() };
//! let text = "the budget of 0.02 in money is used up: 0.018 is spent, and the next call may cost ";
//! assert!(refusal.to_string().starts_with(text));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod amounts;
mod ask;
mod meter;
mod money;
mod refusal;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use amounts::{BudgetLimit, BudgetLimits, Spending};
pub use ask::{Ask, LEAST_OUTPUT};
pub use meter::MeteredProvider;
pub use money::{Money, MoneyError};
pub use refusal::{BudgetError, BudgetRefusal};

use crate::environment::Environment;
use crate::identity::Timestamp;
use crate::model::ModelConfig;
use crate::provider::StreamProvider;
use account::Account;
pub(crate) use meter::{head_estimate, settled_usage};

/// What a run does when its budget refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AtLimit {
    /// It ends with what it has.
    #[default]
    Stop,
    /// It is suspended with a question; the answer raises the limit, allows the one call, or ends it.
    Pause,
}

/// A handle on an account. A clone is the same account.
#[derive(Clone)]
pub struct Budget {
    account: Arc<Account>,
    at_limit: AtLimit,
}

/// What is known of an account and of those above it, as data: what a checkpoint keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetSnapshot {
    /// The account itself, then its parent, and so on.
    pub accounts: Vec<AccountState>,
}

/// What is known of one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AccountState {
    /// What is spent, here and below.
    pub spent: Spending,
    /// By how much the limits were raised since they were set.
    #[serde(default, skip_serializing_if = "Spending::is_zero")]
    pub raised: Spending,
}

impl Budget {
    /// An account with these limits. At a limit a run stops.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self::named("budget", limits)
    }

    /// Like [`new`](Self::new), with a name for refusals.
    #[must_use]
    pub fn named(name: impl Into<String>, limits: BudgetLimits) -> Self {
        Self { account: Account::root(name.into(), limits), at_limit: AtLimit::Stop }
    }

    /// The same account, at whose limits a run stops or pauses.
    #[must_use]
    pub fn at_limit(mut self, at_limit: AtLimit) -> Self {
        self.at_limit = at_limit;
        self
    }

    /// The same account; a run that reaches a limit asks and waits.
    #[must_use]
    pub fn pausing(self) -> Self {
        self.at_limit(AtLimit::Pause)
    }

    /// What a run does at a limit.
    #[must_use]
    pub fn policy(&self) -> AtLimit {
        self.at_limit
    }

    /// An account below this one, with limits of its own. What is spent there is spent here. At a limit its runs stop.
    #[must_use]
    pub fn child(&self, name: impl Into<String>, limits: BudgetLimits) -> Self {
        Self { account: Account::below(&self.account, name.into(), limits), at_limit: AtLimit::Stop }
    }

    /// An account below this one that may spend this part of what is left here now, in every kind that is limited here: for
    /// one of several branches. More than 100 per cent counts as 100.
    #[must_use]
    pub fn share(&self, name: impl Into<String>, percent: u8, now: Timestamp) -> Self {
        self.child(name, self.left_at(now).percent(percent))
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.account.name()
    }

    /// The limits, with what they were raised by.
    #[must_use]
    pub fn limits(&self) -> BudgetLimits {
        self.account.limits()
    }

    /// What is spent, here and below, without time that is running.
    #[must_use]
    pub fn spent(&self) -> Spending {
        self.account.spent(None)
    }

    /// What is spent, with the time of runs that go on now.
    #[must_use]
    pub fn spent_at(&self, now: Timestamp) -> Spending {
        self.account.spent(Some(now))
    }

    /// What is reserved for calls that are being made.
    #[must_use]
    pub fn reserved(&self) -> Spending {
        self.account.reserved()
    }

    /// What is left of each limit of this account and of those above it; `None` where there is no limit.
    #[must_use]
    pub fn left_at(&self, now: Timestamp) -> BudgetLimits {
        self.account.left(now)
    }

    /// Sets aside what a call may cost, here and in every account above.
    ///
    /// # Errors
    /// When a limit does not allow it. Nothing is set aside then.
    pub fn try_reserve(&self, ask: &Ask, now: Timestamp) -> Result<Reservation, Box<BudgetRefusal>> {
        let (amounts, output) = self.account.reserve(ask, now)?;
        Ok(Reservation::new(Arc::clone(&self.account), amounts, output))
    }

    /// Like [`try_reserve`](Self::try_reserve), and waits while only the open calls of others stand in the way: what they
    /// do not use comes back.
    ///
    /// # Errors
    /// When a limit does not allow it, whatever others use.
    pub async fn reserve(
        &self,
        ask: &Ask,
        environment: &dyn Environment,
    ) -> Result<Reservation, Box<BudgetRefusal>> {
        loop {
            let mut freed = std::pin::pin!(self.account.freed());
            // Whoever settles between the try and the wait is heard.
            freed.as_mut().enable();
            match self.try_reserve(ask, environment.now()) {
                Err(refusal) if refusal.waits() => freed.await,
                other => return other,
            }
        }
    }

    /// Sets aside what a call may cost, whatever the limits say: a person allowed it.
    #[must_use]
    pub fn force(&self, ask: &Ask) -> Reservation {
        let amounts = ask.at_most();
        self.account.hold(&amounts);
        Reservation::new(Arc::clone(&self.account), amounts, None)
    }

    /// Counts what was spent without a reservation. It is counted also where it is over a limit.
    pub fn charge(&self, spent: Spending) {
        self.account.charge(&spent);
    }

    /// Raises the limits of this account by this much, where it has any.
    pub fn raise(&self, by: Spending) {
        self.raise_at(0, by);
    }

    /// Raises the limits of the account so many levels above this one.
    pub fn raise_at(&self, level: u32, by: Spending) {
        if let Some(account) = self.account.at(level) {
            account.raise(&by);
        }
    }

    /// What is known of this account and those above it.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> BudgetSnapshot {
        BudgetSnapshot { accounts: self.account.path().map(|a| a.state(now)).collect() }
    }

    /// Takes over what a snapshot knows and these accounts do not: money that is spent stays spent, and a raised limit
    /// stays raised. Doing it twice changes nothing.
    pub fn restore(&self, snapshot: &BudgetSnapshot) {
        for (account, state) in self.account.path().zip(&snapshot.accounts) {
            account.at_least(state);
        }
    }

    /// The provider, with each call reserved and settled here: for code that asks a model outside of a run.
    #[must_use]
    pub fn meter(
        &self,
        provider: Arc<dyn StreamProvider>,
        environment: Arc<dyn Environment>,
    ) -> MeteredProvider {
        MeteredProvider::new(self.clone(), provider, environment)
    }

    /// Whether what this model costs can be counted: where money is limited, its prices must be known.
    ///
    /// # Errors
    /// [`BudgetError::NoPrices`].
    pub fn check(&self, model: &ModelConfig) -> Result<(), BudgetError> {
        if self.account.limits_money() && !model.cost.is_known() {
            return Err(BudgetError::NoPrices {
                provider: model.provider.clone(),
                model: model.id.clone(),
                budget: self.name().to_owned(),
            });
        }
        Ok(())
    }

    /// The account's time runs until the guard goes. Runs side by side are counted once.
    pub(crate) fn clock(&self, environment: Arc<dyn Environment>) -> Running {
        self.account.enter(environment.now());
        Running { account: Arc::clone(&self.account), environment }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("name", &self.name())
            .field("limits", &self.limits())
            .field("spent", &self.spent())
            .field("at_limit", &self.at_limit)
            .finish_non_exhaustive()
    }
}

/// What is set aside for a call. Dropped without [`settle`](Self::settle), all of it comes back.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    amounts: Spending,
    output: Option<u64>,
    open: bool,
}

impl Reservation {
    fn new(account: Arc<Account>, amounts: Spending, output: Option<u64>) -> Self {
        Self { account, amounts, output, open: true }
    }

    /// What is set aside.
    #[must_use]
    pub fn amounts(&self) -> Spending {
        self.amounts
    }

    /// The most tokens that the answer may have, where that is less than was asked for.
    #[must_use]
    pub fn output(&self) -> Option<u64> {
        self.output
    }

    /// Gives back what was set aside and counts what was spent, in one step.
    pub fn settle(mut self, spent: Spending) {
        self.open = false;
        self.account.settle(&self.amounts, &spent);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.open {
            self.account.settle(&self.amounts, &Spending::default());
        }
    }
}

/// While it is there, the account's time runs.
pub(crate) struct Running {
    account: Arc<Account>,
    environment: Arc<dyn Environment>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.account.leave(self.environment.now());
    }
}
