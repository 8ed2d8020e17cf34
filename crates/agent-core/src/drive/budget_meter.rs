//! Keeps the shared budget accounts in step with what the run counts.
//!
//! The run counts its spending as a function of its inputs. After each input the meter charges the difference to the
//! accounts, so nothing is charged twice or lost, even if the run is interrupted.

use tokio_util::sync::CancellationToken;

use super::config::AgentLoopConfig;
use super::request::target;
use crate::budget::{Ask, Budget, BudgetLimits, Reservation, ReserveError, Running, Spending, head_estimate};
use crate::environment::Environment;
use crate::event::AgentEvent;
use crate::history::History;
use crate::identity::Timestamp;
use crate::message::Usage;
use crate::model::{CostConfig, ThinkingLevel};
use crate::run::{BudgetVerdict, Input, Misplaced, Run, ToolVerdict};
use crate::tool::{ToolDefinitions, ToolResult};

/// The minimum output limit, in tokens, that is reserved for a call with thinking, even if less is configured.
const LEAST_WITH_THINKING: u32 = 2_048;

/// The error of a run that was started with a budget and is resumed by an agent without one.
const NO_BUDGET: &str =
    "the run was started with a budget, but this agent has none; set one with with_budget";

/// The budget accounts of the run that is being driven.
pub(crate) struct BudgetMeter {
    pub(super) budget: Budget,
    /// The reservation for the call that is being made.
    open: Option<Reservation>,
    /// A child account for the model calls of compactions, which the run itself does not count.
    pub(super) compactions: Budget,
    /// Counts the time of the run; stopped while the run waits for an answer.
    running: Option<Running>,
}

/// The next model call, as far as the budget needs to know it.
pub(super) struct PlannedCall<'a> {
    pub(super) history: &'a History,
    pub(super) system_prompt: &'a str,
    pub(super) tools: &'a ToolDefinitions,
    pub(super) route: u32,
    /// The estimated prompt tokens.
    pub(super) tokens: u64,
    /// Whether `tokens` contains instructions and tools, because the provider reported it.
    pub(super) reported: bool,
    /// Whether the user allowed the call although a limit is reached.
    pub(super) forced: bool,
}

impl BudgetMeter {
    /// Opens the accounts for a run. Restores what the run knows about them, since another process may have started
    /// it. Returns `None` without a budget.
    pub(super) fn open(config: &AgentLoopConfig, run: &Run) -> Option<Box<Self>> {
        let budget = config.services.budget.clone()?;
        budget.restore(run.budget());
        let open = run.granted().map(|amounts| budget.force(&Ask::exactly(amounts)));
        let compactions = budget.child("compaction", BudgetLimits::none());
        let running = Some(budget.clock(&config.services.environment));
        Some(Box::new(Self { budget, open, compactions, running }))
    }

    /// Stops counting the time, because the run waits for an answer.
    pub(super) fn pause(&mut self) {
        self.running = None;
    }

    /// Counts the time again after [`pause`](Self::pause).
    pub(super) fn unpause(&mut self, config: &AgentLoopConfig) {
        let environment = &config.services.environment;
        self.running.get_or_insert_with(|| self.budget.clock(environment));
    }

    /// Applies an input to the run and charges the resulting spending to the accounts.
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

    /// Reserves the maximum cost of a model call and returns the verdict as an input. Waits while only the
    /// reservations of other runs exceed the limit. Returns an abort if `cancel` is cancelled.
    pub(super) async fn reserve(
        meter: Option<&mut Self>,
        config: &AgentLoopConfig,
        call: PlannedCall<'_>,
        cancel: &CancellationToken,
    ) -> Input {
        let failed = |message| Input::BudgetDecided { verdict: BudgetVerdict::Failed { message } };
        let Some(meter) = meter else { return failed(NO_BUDGET.to_owned()) };
        let (prompt_tokens, ask) = match meter.maximum_cost(config, &call) {
            Ok(cost) => cost,
            Err(message) => return failed(message),
        };
        let reserved = if call.forced {
            Ok(meter.budget.force(&ask))
        } else {
            tokio::select! {
                biased;
                reserved = meter.budget.reserve(&ask, &*config.services.environment) => reserved,
                () = cancel.cancelled() => return Input::abort(None),
            }
        };
        let known = meter.budget.snapshot(config.services.environment.now());
        let verdict = match reserved {
            Err(ReserveError::Refused(refusal)) => BudgetVerdict::Deny { refusal, known },
            Err(error) => BudgetVerdict::Failed { message: error.to_string() },
            Ok(reservation) => {
                let max_output = reservation.output().and_then(|n| u32::try_from(n).ok());
                let amounts = reservation.amounts();
                meter.open = Some(reservation);
                BudgetVerdict::Allow { amounts, prompt_tokens, max_output, known }
            }
        };
        Input::BudgetDecided { verdict }
    }

    /// Returns the estimated prompt tokens and the maximum cost of a model call.
    fn maximum_cost(&self, config: &AgentLoopConfig, call: &PlannedCall<'_>) -> Result<(u64, Ask), String> {
        let (_, model) = target(config, call.route)?;
        self.budget.check(&model).map_err(|error| error.to_string())?;
        let prompt = if call.reported {
            // The reported count is that of the last model; another model may count more.
            call.tokens.max(call.history.tokens())
        } else {
            call.tokens.saturating_add(head_estimate(call.system_prompt, call.tools))
        };
        let limit = config.request.max_tokens.or(model.max_tokens);
        let thinks = config.request.thinking_level != ThinkingLevel::Off;
        let limit = if thinks { limit.map(|limit| limit.max(LEAST_WITH_THINKING)) } else { limit };
        Ok((prompt, Ask::limited_by(prompt, limit, &model.cost)))
    }

    /// Reserves one tool call. Returns the verdict that replaces `verdict` if the budget denies the call. The
    /// reservation is settled when the run applies the start of the call.
    pub(super) async fn reserve_tool_call(
        &mut self,
        verdict: &ToolVerdict,
        environment: &dyn Environment,
    ) -> Option<ToolVerdict> {
        let refusal = match self.budget.try_reserve(&Ask::tool_call(), environment.now()) {
            Err(refusal) => refusal,
            Ok(mut reservation) => match self.budget.confirm(&mut reservation, environment).await {
                Err(ReserveError::Refused(refusal)) => refusal,
                Err(error) => return Some(ToolVerdict::deny(error.to_string())),
                Ok(()) => {
                    self.open = Some(reservation);
                    return None;
                }
            },
        };
        let arguments = match verdict {
            ToolVerdict::AllowWith(arguments) => Some(arguments.clone()),
            _ => None,
        };
        Some(ToolVerdict::OverBudget { refusal, arguments })
    }
}

/// Returns what a tool call spent: what it charged to its account and what it reports beyond that. The reported rest
/// is charged at the prices of the run's model, because the tool's model is unknown.
pub(super) fn tool_spending(
    account: &Budget,
    result: &ToolResult,
    prices: &CostConfig,
) -> Option<Box<Spending>> {
    if let Some(usage) = result.usage.as_deref() {
        charge_rest(account, usage, account.spent(), prices);
    }
    let spent = account.spent().without_time();
    (!spent.is_zero()).then(|| Box::new(spent))
}

/// Charges the part of the reported `usage` that a metered provider has not counted yet.
pub(super) fn charge_rest(budget: &Budget, usage: &Usage, counted: Spending, prices: &CostConfig) {
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
