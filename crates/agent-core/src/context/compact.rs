//! The compaction cascade. It is a pure function and works on whole units, so that no call loses its result.
//!
//! 1. Truncate tool outputs, old ones first.
//! 2. Replace old exchanges by one line each.
//! 3. Drop the middle and leave a marker with the number of messages.
//! 4. Keep only the newest messages that fit, preceded by the task.
//! 5. Cut what is left if it is still too long.
//!
//! It stops after the first level that is sufficient.

mod cutting;
mod draft;
mod dropping;
mod summaries;
mod tool_outputs;

pub use dropping::DROP_MARKER_PREFIX;
pub use summaries::SUMMARY_PREFIX;
pub use tool_outputs::MAX_TOOL_LINE_BYTES;

pub(super) use cutting::head_and_tail;
pub(super) use draft::{CompactionDraft, Piece};
pub(super) use dropping::{drop_middle, keep_within_budget, timestamp};
pub(super) use summaries::summarize_old_turns;
pub(super) use tool_outputs::truncate_tool_outputs;

use super::config::ContextConfig;
use crate::history::{History, Splice, SpliceError};
use crate::identity::Timestamp;
use crate::message::{AgentMessage, Message, TokenCounter};
use crate::provider::ProviderError;

/// The error of a conversation that could not be shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// Not even the smallest request fits the budget.
    #[error(
        "a context budget of {budget} tokens is too small: the task and the newest turn need {needed} even when cut \
         to nothing; shorten the task or the instructions, offer fewer tools, or use a model with a larger window"
    )]
    BudgetTooSmall {
        /// The budget in tokens.
        budget: u64,
        /// The smallest sufficient budget, in tokens.
        needed: u64,
    },
    /// The model call of a strategy failed.
    #[error("the compaction strategy got no answer from its model")]
    Provider(#[from] ProviderError),
    /// The splices of a strategy do not fit the history.
    #[error("the compaction strategy gave splices that do not fit the history")]
    Splice(#[from] SpliceError),
    /// The run was aborted.
    #[error("the compaction was aborted")]
    Cancelled,
    /// A strategy failed for another reason.
    #[error("the compaction strategy failed: {0}")]
    Failed(String),
}

/// Returns the replacements after which `history` fits its budget; empty if it already fits. The result, applied with
/// [`History::spliced`], has at most [`ContextConfig::budget`] tokens by `counter`.
///
/// # Errors
/// Returns [`CompactionError::BudgetTooSmall`] if the task and the newest turn do not fit the budget even when they
/// are cut.
pub fn compact_history(
    history: &History,
    config: &ContextConfig,
    counter: &dyn TokenCounter,
) -> Result<Vec<Splice>, CompactionError> {
    compact_history_within(history, config, config.budget(), counter)
}

/// Like [`compact_history`], with a budget other than the configured one. A lower budget is needed if the provider
/// rejects a request that fits by this counter.
///
/// # Errors
/// Returns [`CompactionError::BudgetTooSmall`] if the task and the newest turn do not fit the budget even when they
/// are cut.
pub fn compact_history_within(
    history: &History,
    config: &ContextConfig,
    budget: u64,
    counter: &dyn TokenCounter,
) -> Result<Vec<Splice>, CompactionError> {
    let mut draft = CompactionDraft::new(history, counter);
    if draft.tokens() <= budget {
        return Ok(Vec::new());
    }
    // A deferred call whose exchange is removed leaves a notice, which the draft does not contain.
    let notices = history
        .deferred()
        .into_iter()
        .map(|call| AgentMessage::from(Message::from(call.notice(Timestamp(0)))));
    let notices = notices.map(|notice| counter.count_message(&notice)).fold(0, u64::saturating_add);
    let budget = budget.saturating_sub(notices);
    cascade(&mut draft, config, budget)?;
    Ok(draft.into_splices())
}

/// Compacts a plain list of messages. Returns it unchanged if it is within the budget.
///
/// # Errors
/// Returns [`CompactionError::BudgetTooSmall`] if the task and the newest turn do not fit the budget even when they
/// are cut.
pub fn compact_messages(
    messages: &[AgentMessage],
    config: &ContextConfig,
    counter: &dyn TokenCounter,
) -> Result<Vec<AgentMessage>, CompactionError> {
    let tokens = messages.iter().map(|m| counter.count_message(m)).fold(0, u64::saturating_add);
    if tokens <= config.budget() {
        return Ok(messages.to_vec());
    }
    let (history, _) = History::repaired(messages.iter().cloned());
    let splices = compact_history(&history, config, counter)?;
    Ok(history.spliced(&splices)?.to_vec())
}

fn cascade(
    draft: &mut CompactionDraft<'_>,
    config: &ContextConfig,
    budget: u64,
) -> Result<(), CompactionError> {
    let target = percent(budget, config.compact_to_percent);
    let recent = draft.recent_start(config.keep_recent);
    tool_outputs::truncate_pieces(draft, config.tool_output_max_lines, recent);
    if draft.tokens() <= target {
        return Ok(());
    }
    truncate_tool_outputs(draft, config.tool_output_max_lines);
    if draft.tokens() <= target {
        return Ok(());
    }
    summarize_old_turns(draft, config.keep_recent);
    if draft.tokens() <= target {
        return Ok(());
    }
    drop_middle(draft, config.keep_first, config.keep_recent);
    // The newest messages remain whole, unless the budget itself would be exceeded.
    if draft.tokens() <= budget {
        return Ok(());
    }
    if keep_within_budget(draft, target).is_err() {
        keep_within_budget(draft, budget).or_else(|_| cutting::cut_essentials(draft, budget))?;
    }
    Ok(())
}

/// Returns a percentage of a budget, at most the whole.
pub(super) fn percent(budget: u64, percent: u8) -> u64 {
    let part = u128::from(budget) * u128::from(percent.min(100)) / 100;
    u64::try_from(part).unwrap_or(budget)
}
