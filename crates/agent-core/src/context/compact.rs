//! The compaction cascade (REQ-056..059, D11): pure, and in whole units, so that no call loses its result.
//!
//! 1. Tool outputs are shortened, old ones first.
//! 2. Old exchanges become one line each.
//! 3. The middle goes; a marker says how much.
//! 4. Only the newest messages that fit stay, with the task before them.
//! 5. What is left, and is still too long alone, is cut.
//!
//! It stops after the first level that is enough.

mod cut;
mod draft;
mod level1;
mod level2;
mod level3;

pub use draft::CompactionDraft;
pub use level1::{MAX_TOOL_LINE_BYTES, level1_truncate_tool_outputs};
pub use level2::{SUMMARY_PREFIX, level2_summarize_old_turns};
pub use level3::{DROP_MARKER_PREFIX, keep_within_budget, level3_drop_middle};

use super::config::ContextConfig;
use crate::history::{History, Splice, SpliceError};
use crate::message::AgentMessage;
use crate::message::TokenCounter;
use crate::provider::ProviderError;

/// Why a conversation was not shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// Not even the smallest request fits.
    #[error(
        "a context budget of {budget} tokens is too small: the task and the newest turn need {needed} even when cut \
         to nothing; raise max_context_tokens or lower system_prompt_tokens"
    )]
    BudgetTooSmall {
        /// The budget, in tokens.
        budget: u64,
        /// The least that would do, in tokens.
        needed: u64,
    },
    /// The model that a strategy asked gave no answer.
    #[error("the compaction strategy got no answer from its model")]
    Provider(#[from] ProviderError),
    /// The splices of a strategy do not fit the history.
    #[error("the compaction strategy gave splices that do not fit the history")]
    Splice(#[from] SpliceError),
    /// The run was aborted.
    #[error("the compaction was aborted")]
    Cancelled,
    /// A strategy failed in its own way.
    #[error("the compaction strategy failed: {0}")]
    Failed(String),
}

/// What has to be replaced so that `history` fits its budget; nothing when it does already. The result, applied with
/// [`History::spliced`], is closed and at most [`ContextConfig::budget`] tokens by `counter`.
///
/// # Errors
/// [`CompactionError::BudgetTooSmall`].
pub fn compact_history(
    history: &History,
    config: &ContextConfig,
    counter: &dyn TokenCounter,
) -> Result<Vec<Splice>, CompactionError> {
    compact_history_within(history, config, config.budget(), counter)
}

/// Like [`compact_history`] with another budget than the configuration's: a lower one after a provider said that a
/// request was too long although it was not by our count.
///
/// # Errors
/// [`CompactionError::BudgetTooSmall`].
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
    cascade(&mut draft, config, budget)?;
    Ok(draft.into_splices())
}

/// The REQ's form over a plain list: unchanged when it is within the budget, else shortened and closed.
///
/// # Errors
/// [`CompactionError::BudgetTooSmall`].
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
    level1::truncate_pieces(draft, config.tool_output_max_lines, recent);
    if draft.tokens() <= target {
        return Ok(());
    }
    level1_truncate_tool_outputs(draft, config.tool_output_max_lines);
    if draft.tokens() <= target {
        return Ok(());
    }
    level2_summarize_old_turns(draft, config.keep_recent);
    if draft.tokens() <= target {
        return Ok(());
    }
    level3_drop_middle(draft, config.keep_first, config.keep_recent);
    // The configuration asks for the newest messages whole: they go only when the budget itself is at stake.
    if draft.tokens() <= budget {
        return Ok(());
    }
    if keep_within_budget(draft, target).is_err() {
        keep_within_budget(draft, budget).or_else(|_| cut::cut_essentials(draft, budget))?;
    }
    Ok(())
}

fn percent(budget: u64, percent: u8) -> u64 {
    let part = u128::from(budget) * u128::from(percent.min(100)) / 100;
    u64::try_from(part).unwrap_or(budget)
}
