//! How long a conversation may be (REQ-011).

use serde::{Deserialize, Serialize};

/// How long a conversation may be, and what is kept of it when it is longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContextConfig {
    /// The most tokens of a request, system prompt included; 100,000 unless said otherwise.
    pub max_context_tokens: u64,
    /// The part of them that is left to the system prompt and the tools; 4,000 unless said otherwise.
    pub system_prompt_tokens: u64,
    /// The newest messages, which are shortened last; 10 unless said otherwise.
    pub keep_recent: usize,
    /// The oldest messages, which are kept when the middle goes; 2 unless said otherwise.
    pub keep_first: usize,
    /// The most lines of each text in a tool result, the line that says what was left out included; 50 unless said
    /// otherwise, and 0 counts as 1.
    pub tool_output_max_lines: usize,
    /// To what part of the budget a compaction shortens, in percent, as far as the levels allow; 80 unless said
    /// otherwise. At 100 a long run is compacted on nearly every turn, and no prompt cache is ever hit.
    pub compact_to_percent: u8,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self {
            max_context_tokens: 100_000,
            system_prompt_tokens: 4_000,
            keep_recent: 10,
            keep_first: 2,
            tool_output_max_lines: 50,
            compact_to_percent: 80,
        }
    }
}

impl ContextConfig {
    /// The most tokens of the messages: what the system prompt leaves.
    #[must_use]
    pub fn budget(&self) -> u64 {
        self.max_context_tokens.saturating_sub(self.system_prompt_tokens)
    }

    /// The same with another limit of a request.
    #[must_use]
    pub fn with_max_context_tokens(mut self, tokens: u64) -> Self {
        self.max_context_tokens = tokens;
        self
    }

    /// The same with another part for the system prompt and the tools.
    #[must_use]
    pub fn with_system_prompt_tokens(mut self, tokens: u64) -> Self {
        self.system_prompt_tokens = tokens;
        self
    }

    /// The same with another number of newest messages to keep.
    #[must_use]
    pub fn with_keep_recent(mut self, messages: usize) -> Self {
        self.keep_recent = messages;
        self
    }

    /// The same with another number of oldest messages to keep.
    #[must_use]
    pub fn with_keep_first(mut self, messages: usize) -> Self {
        self.keep_first = messages;
        self
    }

    /// The same with another limit of lines in a tool result.
    #[must_use]
    pub fn with_tool_output_max_lines(mut self, lines: usize) -> Self {
        self.tool_output_max_lines = lines;
        self
    }

    /// The same with another part of the budget to shorten to, in percent.
    #[must_use]
    pub fn with_compact_to_percent(mut self, percent: u8) -> Self {
        self.compact_to_percent = percent;
        self
    }
}
