//! The budget beside a run: what is set aside for its calls, and what it is told that they cost.
//!
//! The run counts, the accounts are told. After each input the difference in what the run has counted is charged, so nothing
//! is counted twice or forgotten, also where the run is cut off.

use std::sync::Arc;

use super::config::AgentLoopConfig;
use super::halt::Halt;
use super::shell::Shell;
use crate::budget::{Ask, Budget, BudgetRefusal, Reservation, Running, Spending, head_estimate};
use crate::event::AgentEvent;
use crate::history::History;
use crate::identity::Timestamp;
use crate::message::{ToolCall, Usage};
use crate::model::ThinkingLevel;
use crate::provider::StreamProvider;
use crate::run::{BudgetVerdict, Input, Misplaced, Run, ToolVerdict};
use crate::tool::ToolResult;

/// An answer that follows thinking has room of at least this many tokens, whatever is configured (B-149).
const LEAST_WITH_THINKING: u64 = 2_048;

/// What is said of a run that has a budget where the agent has none.
const NO_BUDGET: &str =
    "the run was begun with a budget, which this agent does not have; give it one with with_budget";

/// The budget of the run that is being driven.
pub(crate) struct Till {
    budget: Budget,
    /// What is set aside for the call that is being made.
    open: Option<Reservation>,
    /// What was spent beside what the run itself counts: by compactions.
    aside: Budget,
    _running: Running,
}

impl Till {
    /// What the run knows is taken over: it may have been begun in another process.
    pub(super) fn open(config: &AgentLoopConfig, run: &Run) -> Option<Box<Self>> {
        let budget = config.services.budget.clone()?;
        budget.restore(run.budget());
        let open = run.granted().map(|amounts| budget.force(&Ask::exactly(amounts)));
        let aside = budget.child("compaction", crate::budget::BudgetLimits::none());
        let running = budget.clock(Arc::clone(&config.services.environment));
        Some(Box::new(Self { budget, open, aside, _running: running }))
    }

    /// Applies an input, and tells the accounts what follows from it.
    pub(super) fn apply(
        &mut self,
        run: &mut Run,
        now: Timestamp,
        input: Input,
        events: &mut Vec<AgentEvent>,
    ) -> Result<(), Misplaced> {
        let answers = matches!(input, Input::Answer { .. }).then(|| run.budget().clone());
        let (before, was_granted) = (run.own_spending(), run.granted().is_some());
        let begins = matches!(input, Input::ToolBegan { .. });
        run.apply(now, input, events)?;
        let spent = run.own_spending().minus(&before);
        let closes = begins || (was_granted && run.granted().is_none());
        match self.open.take() {
            Some(open) if closes => open.settle(spent),
            open => {
                self.open = open;
                if !spent.is_zero() {
                    self.budget.charge(spent);
                }
            }
        }
        if let Some(before) = answers {
            let after = &run.budget().accounts;
            for (level, (was, is)) in (0_u32..).zip(before.accounts.iter().zip(after)) {
                let by = is.raised.minus(&was.raised);
                if !by.is_zero() {
                    self.budget.raise_at(level, by);
                }
            }
        }
        Ok(())
    }

    /// An account for what a call of a tool spends.
    pub(super) fn share_for(&self, call: &ToolCall) -> Budget {
        self.budget.child(call.name.as_str(), crate::budget::BudgetLimits::none())
    }

    /// What compactions have spent through their provider.
    pub(super) fn spent_aside(&self) -> Spending {
        self.aside.spent()
    }
}

impl Shell {
    /// Asks the budget whether the model may be called.
    pub(super) async fn reserve(
        &mut self,
        history: History,
        route: u32,
        (tokens, reported): (u64, bool),
        forced: bool,
    ) -> Result<(), Halt> {
        let verdict = match self.ask_budget(&history, route, (tokens, reported)) {
            Err(message) => BudgetVerdict::Failed { message },
            Ok((prompt_tokens, ask)) => {
                let budget = self.till.as_ref().map(|till| till.budget.clone());
                let Some(budget) = budget else { return Ok(()) };
                let environment = Arc::clone(&self.config.services.environment);
                let cancel = self.cancel.clone();
                let reserved = if forced {
                    Ok(budget.force(&ask))
                } else {
                    tokio::select! {
                        biased;
                        reserved = budget.reserve(&ask, &*environment) => reserved,
                        () = cancel.cancelled() => return self.apply(Input::abort(None)).await,
                    }
                };
                let known = budget.snapshot(self.now());
                match reserved {
                    Err(refusal) => BudgetVerdict::Deny { refusal, known },
                    Ok(reservation) => {
                        let max_output = reservation.output().and_then(|n| u32::try_from(n).ok());
                        let amounts = reservation.amounts();
                        if let Some(till) = &mut self.till {
                            till.open = Some(reservation);
                        }
                        BudgetVerdict::Allow { amounts, prompt_tokens, max_output, known }
                    }
                }
            }
        };
        self.apply(Input::BudgetDecided { verdict }).await
    }

    /// What the next call may cost.
    fn ask_budget(
        &self,
        history: &History,
        route: u32,
        (tokens, reported): (u64, bool),
    ) -> Result<(u64, Ask), String> {
        let till = self.till.as_ref().ok_or(NO_BUDGET)?;
        let (_, model) = self.target(route)?;
        till.budget.check(&model).map_err(|error| error.to_string())?;
        let prompt = if reported {
            // What was reported is of the last model; another one may count more.
            tokens.max(history.tokens())
        } else {
            tokens.saturating_add(head_estimate(&self.system_prompt, self.tools.definitions()))
        };
        let most = u64::from(self.config.request.max_tokens.unwrap_or(model.max_tokens));
        let thinks = self.config.request.thinking_level != ThinkingLevel::Off;
        let most = if thinks { most.max(LEAST_WITH_THINKING) } else { most };
        Ok((prompt, Ask::model_call(prompt, most, &model.cost)))
    }

    /// Whether the budget stands against a call of a tool. What it allows is counted when the run has said that the call
    /// begins.
    pub(super) fn refuse_tool_call(&mut self, verdict: &ToolVerdict, forced: bool) -> Option<ToolVerdict> {
        let now = self.now();
        let till = self.till.as_mut().filter(|_| !forced)?;
        let refusal: Box<BudgetRefusal> = match till.budget.try_reserve(&Ask::tool_call(), now) {
            Ok(reservation) => {
                till.open = Some(reservation);
                return None;
            }
            Err(refusal) => refusal,
        };
        let arguments = match verdict {
            ToolVerdict::AllowWith(arguments) => Some(arguments.clone()),
            _ => None,
        };
        Some(ToolVerdict::OverBudget { refusal, arguments })
    }

    /// What a call of a tool spent, itself or by what it reports. What it did not count is counted now, at the prices of the
    /// run's model: nobody knows which one it asked.
    pub(super) fn spent_by_tool(&self, share: &Budget, result: &ToolResult) -> Option<Box<Spending>> {
        if let Some(usage) = result.usage.as_deref() {
            charge_rest(share, usage, share.spent(), &self.config.model.cost);
        }
        let spent = share.spent().without_time();
        (!spent.is_zero()).then(|| Box::new(spent))
    }

    /// The run's provider for a compaction that asks a model: with a budget, its calls are reserved.
    pub(super) fn metered_provider(&self) -> Arc<dyn StreamProvider> {
        let provider = Arc::clone(&self.config.services.provider);
        match &self.till {
            None => provider,
            Some(till) => Arc::new(till.aside.meter(provider, Arc::clone(&self.config.services.environment))),
        }
    }

    /// Counts what a compaction says that it used, as far as its provider did not.
    pub(super) fn charge_compaction(&self, usage: &Usage, before: Option<Spending>) {
        if let (Some(till), Some(before)) = (&self.till, before) {
            charge_rest(&till.aside, usage, till.aside.spent().minus(&before), &self.config.model.cost);
        }
    }
}

/// Charges what `usage` holds and `counted` does not.
fn charge_rest(budget: &Budget, usage: &Usage, counted: Spending, prices: &crate::message::CostConfig) {
    if counted.tokens == 0 && !usage.is_zero() {
        budget.charge(Spending::of_call(usage, prices));
    } else {
        let whole = Spending::of_usage(usage, prices);
        let rest = whole.tokens.saturating_sub(counted.tokens);
        if rest > 0 {
            budget.charge(Spending::of_tokens(rest));
        }
    }
}
