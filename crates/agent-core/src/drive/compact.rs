//! Shortening the history.

use super::halt::Halt;
use super::shell::{Shell, contained};
use crate::context::{CompactionContext, compact_history_within};
use crate::history::History;
use crate::message::Usage;
use crate::run::{CompactionTask, Input};

impl Shell {
    pub(super) async fn compact(&mut self, task: CompactionTask, history: History) -> Result<(), Halt> {
        self.prefixes.compacted();
        let config = self.config.policy.context.clone().unwrap_or_default();
        let counter = &self.config.services.token_counter;
        let mut fallback = None;
        if let Some(strategy) = self.config.services.compaction.clone() {
            let before = self.till.as_ref().map(|till| till.spent_aside());
            let cx = CompactionContext::new(task.budget)
                .with_counter(counter.clone())
                .with_reason(task.reason)
                .with_provider(self.metered_provider(), self.config.model.clone())
                .with_cancel(self.cancel.child_token());
            let asked = contained(async { strategy.compact(&history, &config, &cx).await });
            let cancel = self.cancel.clone();
            let answer = tokio::select! {
                biased;
                answer = asked => answer,
                () = cancel.cancelled() => return self.apply(Input::abort(None)).await,
            };
            match answer {
                Ok(Ok(outcome)) => {
                    let usage = outcome.usage;
                    self.charge_compaction(&usage, before);
                    match outcome.into_splices(&history) {
                        Ok((splices, repairs)) => {
                            if !repairs.is_empty() {
                                tracing::warn!(
                                    ?repairs,
                                    "the compaction strategy left calls open; they were closed"
                                );
                            }
                            return self.apply(Input::Compacted { splices, usage, fallback: None }).await;
                        }
                        Err(error) => fallback = Some(error.to_string()),
                    }
                }
                Ok(Err(error)) => fallback = Some(error.to_string()),
                Err(panic) => fallback = Some(format!("the compaction strategy panicked: {panic}")),
            }
        }
        let input = match compact_history_within(&history, &config, task.budget, &**counter) {
            Ok(splices) => Input::Compacted { splices, usage: Usage::default(), fallback },
            Err(error) => Input::CompactionFailed { message: error.to_string() },
        };
        self.apply(input).await
    }
}
