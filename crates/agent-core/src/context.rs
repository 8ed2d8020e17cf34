//! Context size: measures the conversation and compacts it when it becomes too long.
//!
//! [`ContextConfig`] sets the limit, [`ContextTracker`] measures the current size, and a [`CompactionStrategy`]
//! shortens the conversation; [`DefaultCompaction`] is the default strategy, and [`SummarizingCompaction`] asks a model for a
//! summary.
//!
//! ```
//! use agent_core::{AgentMessage, ContextConfig, HeuristicTokenCounter, History, compact_history};
//! let mut history = History::new();
//! history.push(AgentMessage::user("Count the stars"))?;
//! for n in 0..100 {
//!     history.push(AgentMessage::user(format!("{n}: {}", "star ".repeat(40))))?;
//! }
//! let config = ContextConfig::default().with_max_context_tokens(5_000);
//! let splices = compact_history(&history, &config, &HeuristicTokenCounter)?;
//! let shorter = history.spliced(&splices)?;
//! assert!(shorter.tokens() <= config.budget());
//! assert_eq!(shorter.messages().next().map(AgentMessage::text).as_deref(), Some("Count the stars"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compact;
mod config;
mod strategy;
mod summarizing;
mod tracker;

#[cfg(test)]
mod tests;

pub use compact::{
    CompactionError, DROP_MARKER_PREFIX, MAX_TOOL_LINE_BYTES, SUMMARY_PREFIX, compact_history,
    compact_history_within, compact_messages,
};
pub use config::ContextConfig;
pub use strategy::{
    CompactionChange, CompactionContext, CompactionOutcome, CompactionStrategy, DefaultCompaction,
    SyncCompaction, splices_between,
};
pub use summarizing::{SUMMARY_HEADING, SUMMARY_INSTRUCTIONS, SummarizingCompaction};
pub use tracker::ContextTracker;

pub use crate::message::{
    HeuristicTokenCounter, TokenCounter, content_tokens, estimate_tokens, message_tokens,
};
