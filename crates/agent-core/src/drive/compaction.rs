//! Shortens the history with the caller's strategy, or with the default one if that fails.

use std::error::Error as _;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::budget_meter::{BudgetMeter, charge_rest};
use super::config::AgentLoopConfig;
use super::panics::contained;
use crate::context::{CompactionContext, CompactionError, compact_history_within};
use crate::history::History;
use crate::message::Usage;
use crate::run::{CompactionTask, Input};

/// Compacts `history` to the budget of `task` and returns the result as an input, or an abort if `cancel` is
/// cancelled.
pub(super) async fn compact(
    config: &AgentLoopConfig,
    meter: Option<&BudgetMeter>,
    cancel: &CancellationToken,
    task: CompactionTask,
    history: &History,
) -> Input {
    let context = config.policy.context.clone().unwrap_or_default();
    let counter = &config.services.token_counter;
    let mut fallback = None;
    if let Some(strategy) = &config.services.compaction {
        let before = meter.map(|meter| meter.compactions.spent());
        let provider = config.services.provider.clone();
        let provider = match meter {
            Some(meter) => Arc::new(meter.compactions.meter(provider, config.services.environment.clone())),
            None => provider,
        };
        let cx = CompactionContext::new(task.budget)
            .with_counter(counter.clone())
            .with_reason(task.reason)
            .with_provider(provider, config.model.clone())
            .with_cancel(cancel.child_token());
        let compaction = contained(async { strategy.compact(history, &context, &cx).await });
        let result = tokio::select! {
            biased;
            result = compaction => result,
            () = cancel.cancelled() => return Input::abort(None),
        };
        match result {
            Ok(Ok(outcome)) => {
                let usage = outcome.usage;
                if let (Some(meter), Some(before)) = (meter, before) {
                    let counted = meter.compactions.spent().minus(&before);
                    charge_rest(&meter.compactions, &usage, counted, &config.model.cost);
                }
                match outcome.into_splices(history) {
                    Ok((splices, repairs)) => {
                        if !repairs.is_empty() {
                            tracing::warn!(
                                ?repairs,
                                "the compaction strategy left calls open; they were closed"
                            );
                        }
                        return Input::Compacted { splices, usage, fallback: None };
                    }
                    Err(error) => fallback = Some(error.to_string()),
                }
            }
            // A strategy that ends because the run was aborted has not failed.
            Ok(Err(_)) if cancel.is_cancelled() => return Input::abort(None),
            Ok(Err(error)) => fallback = Some(with_source(&error)),
            Err(panic) => fallback = Some(format!("the compaction strategy panicked: {panic}")),
        }
    }
    match compact_history_within(history, &context, task.budget, &**counter) {
        Ok(splices) => Input::Compacted { splices, usage: Usage::default(), fallback },
        Err(error) => Input::CompactionFailed { message: error.to_string() },
    }
}

/// Returns the text of an error and of its source.
fn with_source(error: &CompactionError) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
