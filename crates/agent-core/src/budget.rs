//! Budgets: shared limits on tokens, money, time, and model and tool calls.
//!
//! A [`Budget`] is a cheap handle to an account; clones share the account. Before each call, the driver reserves the
//! call's maximum cost; afterwards it charges the actual cost and releases the rest. Concurrent runs that share a
//! budget therefore cannot overspend it. A [`child`](Budget::child) account has limits of its own, and its spending
//! also counts in its parent.
//!
//! | where | how |
//! |---|---|
//! | an agent, over all its runs | `BasicAgent::with_budget` |
//! | a loop without a handle | `AgentLoopConfig::budget` |
//! | a sub-agent | draws from its caller's budget; `SubAgentTool::with_budget` limits its share |
//! | a tool, a judge or a compaction that calls a model itself | [`Budget::meter`] around its provider |
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
//! let agent = BasicAgent::new(model)
//!     .with_provider(provider)
//!     .configure(|c| c.request.max_tokens = Some(500))
//!     .with_budget(budget.clone());
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
mod port;
mod refusal;
mod reservation;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use amounts::{BudgetLimit, BudgetLimits, Spending};
pub use ask::{Ask, LEAST_OUTPUT, UNKNOWN_OUTPUT};
pub use meter::MeteredProvider;
pub use money::{Money, MoneyError};
pub use port::{BudgetPort, ReserveError};
pub use refusal::{BudgetError, BudgetRefusal};
pub use reservation::Reservation;

use crate::environment::Environment;
use crate::identity::Timestamp;
use crate::model::ModelConfig;
use crate::provider::StreamProvider;
use crate::provider::error::BoxError;
use account::Account;
pub(crate) use meter::{head_estimate, settled_usage};
pub(crate) use reservation::Running;
use reservation::report;

/// How long a call waits before it asks an account outside of the process again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What a run does when its budget denies a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AtLimit {
    /// The run ends with the results so far.
    #[default]
    Stop,
    /// The run is suspended with a question. The answer raises the limit, allows this call, or ends the run.
    Pause,
}

/// A handle to a budget account. Clones share the account.
#[derive(Debug, Clone)]
pub struct Budget {
    account: Arc<Account>,
    at_limit: AtLimit,
}

/// The state of an account and its ancestors, as data for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetSnapshot {
    /// The account itself, followed by its parent, and so on.
    pub accounts: Vec<AccountState>,
}

/// The state of one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AccountState {
    /// The spending of the account, including its children.
    pub spent: Spending,
    /// The amount by which the limits have been raised.
    #[serde(default, skip_serializing_if = "Spending::is_zero")]
    pub raised: Spending,
}

impl Budget {
    /// Creates an account with these limits. At a limit, its runs stop.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self::named("budget", limits)
    }

    /// Like [`new`](Self::new), with a name that appears in refusals.
    #[must_use]
    pub fn named(name: impl Into<String>, limits: BudgetLimits) -> Self {
        Self { account: Account::root(name.into(), limits), at_limit: AtLimit::Stop }
    }

    /// Creates the root of a tree of accounts in whose place an account outside of the process decides. At a limit, its
    /// runs stop. Each model call and each tool call is reserved in that account. It receives what they have spent before
    /// the next reservation and at the end of a run. It does not count time.
    #[must_use]
    pub fn shared(name: impl Into<String>, port: Arc<dyn BudgetPort>) -> Self {
        Self { account: Account::outside(name.into(), port), at_limit: AtLimit::Stop }
    }

    /// Sends everything that has been spent and raised to the account outside of the process, if there is one. The
    /// built-in driver does so at the end of a run.
    ///
    /// # Errors
    /// Returns the error of the port. What was not sent is sent later.
    pub async fn flush(&self) -> Result<(), BoxError> {
        match self.account.outbox() {
            Some((_, outbox)) => outbox.flush().await,
            None => Ok(()),
        }
    }

    /// Returns whether an account outside of the process decides.
    pub(crate) fn is_shared(&self) -> bool {
        self.account.outbox().is_some()
    }

    /// Sets whether a run stops or pauses at a limit.
    #[must_use]
    pub fn at_limit(mut self, at_limit: AtLimit) -> Self {
        self.at_limit = at_limit;
        self
    }

    /// Makes a run that reaches a limit ask the user and wait.
    #[must_use]
    pub fn pausing(self) -> Self {
        self.at_limit(AtLimit::Pause)
    }

    /// Returns what a run does at a limit.
    #[must_use]
    pub fn policy(&self) -> AtLimit {
        self.at_limit
    }

    /// Creates a child account with limits of its own. Its spending also counts here. At a limit, its runs stop.
    #[must_use]
    pub fn child(&self, name: impl Into<String>, limits: BudgetLimits) -> Self {
        Self { account: Account::below(&self.account, name.into(), limits), at_limit: AtLimit::Stop }
    }

    /// Creates a child account whose limits are this percentage of what is left here now, for one of several
    /// branches. More than 100 counts as 100.
    #[must_use]
    pub fn share(&self, name: impl Into<String>, percent: u8, now: Timestamp) -> Self {
        self.child(name, self.left_at(now).percent(percent))
    }

    /// Returns the name of the account.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.account.name
    }

    /// Returns the limits, including all raises.
    #[must_use]
    pub fn limits(&self) -> BudgetLimits {
        self.account.book().allowed()
    }

    /// Returns the spending of the account and its children, without the time of open runs.
    #[must_use]
    pub fn spent(&self) -> Spending {
        self.account.book().spent
    }

    /// Returns the spending, including the time of open runs until `now`.
    #[must_use]
    pub fn spent_at(&self, now: Timestamp) -> Spending {
        self.account.book().spent_at(now)
    }

    /// Returns the amounts that are reserved for calls in progress.
    #[must_use]
    pub fn reserved(&self) -> Spending {
        self.account.book().reserved
    }

    /// Returns what is left of each limit of this account and its ancestors; `None` where there is no limit.
    #[must_use]
    pub fn left_at(&self, now: Timestamp) -> BudgetLimits {
        self.account.left(now)
    }

    /// Reserves the cost of a call, in this account and its ancestors. An account outside of the process is not asked; it
    /// receives what the call has spent.
    ///
    /// # Errors
    /// Returns the refusal if a limit does not allow the call. Nothing is reserved then.
    pub fn try_reserve(&self, ask: &Ask, now: Timestamp) -> Result<Reservation, Box<BudgetRefusal>> {
        let (amounts, output) = self.account.reserve(ask, now)?;
        Ok(Reservation::new(Arc::clone(&self.account), amounts, output))
    }

    /// Like [`try_reserve`](Self::try_reserve), but waits while only the reservations of other calls exceed a limit, and
    /// asks an account outside of the process.
    ///
    /// # Errors
    /// Returns the refusal if a limit does not allow the call, even if the other calls spend nothing, or the error of an
    /// account outside of the process.
    pub async fn reserve(
        &self,
        ask: &Ask,
        environment: &dyn Environment,
    ) -> Result<Reservation, ReserveError> {
        loop {
            let mut freed = std::pin::pin!(self.account.freed.notified());
            // Registered before the attempt, so that no release in between is missed.
            freed.as_mut().enable();
            match self.try_reserve(ask, environment.now()) {
                Err(refusal) if refusal.waits() => freed.await,
                Err(refusal) => return Err(refusal.into()),
                Ok(mut reservation) => match self.confirm(&mut reservation, environment).await {
                    Err(error) if error.refusal().is_some_and(BudgetRefusal::waits) => {
                        drop(reservation);
                        environment.sleep(ASK_AGAIN_AFTER).await;
                    }
                    confirmed => return confirmed.map(|()| reservation),
                },
            }
        }
    }

    /// Reserves the amounts of a reservation in the account outside of the process, if there is one.
    pub(crate) async fn confirm(
        &self,
        reservation: &mut Reservation,
        environment: &dyn Environment,
    ) -> Result<(), ReserveError> {
        let Some((root, outbox)) = self.account.outbox() else { return Ok(()) };
        // The id is stored before the request, so that a cancelled request is released.
        let id = reservation.id.insert(environment.random_id()).clone();
        outbox.reserve(&root.name, &id, reservation.amounts).await.map_err(|error| match error {
            ReserveError::Refused(mut refusal) => {
                reservation.id = None;
                refusal.budget.clone_from(&root.name);
                let levels = self.account.path().count().saturating_sub(1);
                refusal.level = u32::try_from(levels).unwrap_or(u32::MAX);
                ReserveError::from(refusal)
            }
            other => other,
        })
    }

    /// Reserves the cost of a call regardless of the limits, because the user allowed it.
    #[must_use]
    pub fn force(&self, ask: &Ask) -> Reservation {
        let amounts = ask.at_most();
        for account in self.account.path() {
            let mut book = account.book();
            book.reserved = book.reserved.plus(&amounts);
        }
        Reservation::new(Arc::clone(&self.account), amounts, None)
    }

    /// Charges spending without a reservation, even if it exceeds a limit.
    pub fn charge(&self, spent: Spending) {
        self.account.settle_up(&Spending::default(), &spent);
        report(&self.account, None, spent);
    }

    /// Raises the existing limits of this account by these amounts.
    pub fn raise(&self, by: Spending) {
        self.raise_at(0, by);
    }

    /// Raises the limits of the ancestor `level` levels above; 0 is this account.
    pub fn raise_at(&self, level: u32, by: Spending) {
        let at = usize::try_from(level).ok();
        if let Some(account) = at.and_then(|at| self.account.path().nth(at)) {
            account.raise(&by);
        }
    }

    /// Returns the state of this account and its ancestors.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> BudgetSnapshot {
        BudgetSnapshot { accounts: self.account.path().map(|a| a.state(now)).collect() }
    }

    /// Restores a snapshot: spending and raises become at least those of the snapshot. Restoring it twice has no
    /// further effect.
    pub fn restore(&self, snapshot: &BudgetSnapshot) {
        for (account, state) in self.account.path().zip(&snapshot.accounts) {
            account.at_least(state);
        }
    }

    /// Wraps a provider so that each call is reserved and charged here, for code that calls a model outside of a run.
    #[must_use]
    pub fn meter(
        &self,
        provider: Arc<dyn StreamProvider>,
        environment: Arc<dyn Environment>,
    ) -> MeteredProvider {
        MeteredProvider::new(self.clone(), provider, environment)
    }

    /// Checks that the cost of this model can be counted: if money is limited, its prices must be known.
    ///
    /// # Errors
    /// Returns [`BudgetError::NoPrices`] if money is limited and the prices of the model are unknown.
    pub fn check(&self, model: &ModelConfig) -> Result<(), BudgetError> {
        let limits_money = self.account.path().any(|account| account.book().limits.money.is_some());
        if limits_money && !model.cost.is_known() {
            return Err(BudgetError::NoPrices {
                provider: model.provider.clone(),
                model: model.id.clone(),
                budget: self.name().to_owned(),
            });
        }
        Ok(())
    }

    /// Counts time until the returned guard is dropped. Concurrent runs are counted once.
    pub(crate) fn clock(&self, environment: &Arc<dyn Environment>) -> Running {
        self.account.enter(environment);
        Running { account: Arc::clone(&self.account) }
    }
}
