//! A compaction strategy that does not lose the plan.

use agent_core::context::{
    CompactionChange, CompactionContext, CompactionError, CompactionOutcome, CompactionStrategy,
    ContextConfig,
};
use agent_core::history::{Entry, History, MessageRef, Splice};
use async_trait::async_trait;

use super::latest;

/// Compacts by another strategy. If this removes the call that set the current plan, a short user message with the plan is added
/// at the end of the conversation, where [`latest`] finds it.
#[derive(Debug, Clone)]
pub struct RetainPlan<S> {
    strategy: S,
}

impl<S> RetainPlan<S> {
    /// Creates a strategy that compacts by `strategy` and retains the plan.
    #[must_use]
    pub fn new(strategy: S) -> Self {
        Self { strategy }
    }
}

#[async_trait]
impl<S: CompactionStrategy> CompactionStrategy for RetainPlan<S> {
    async fn compact(
        &self,
        history: &History,
        config: &ContextConfig,
        cx: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError> {
        let mut outcome = self.strategy.compact(history, config, cx).await?;
        let Some(plan) = latest(history) else { return Ok(outcome) };
        let after = match &outcome.change {
            CompactionChange::Splices(splices) => match history.spliced(splices) {
                Ok(after) => after,
                // The run reports the error.
                Err(_) => return Ok(outcome),
            },
            CompactionChange::Messages(messages) => history.rebuilt(messages.iter().cloned()).0,
            // A form that this version does not know.
            _ => return Ok(outcome),
        };
        if latest(&after).is_some_and(|kept| kept.steps == plan.steps) {
            return Ok(outcome);
        }
        let note = MessageRef::from(plan.retained());
        match &mut outcome.change {
            CompactionChange::Splices(splices) => {
                let tokens = cx.counter.count_message(&note);
                let end = history.len();
                splices.push(Splice { from: end, to: end, messages: vec![Entry::new(note, tokens)] });
            }
            CompactionChange::Messages(messages) => messages.push(note),
            _ => {}
        }
        Ok(outcome)
    }
}
