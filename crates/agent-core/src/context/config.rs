//! The limits of the context.

use serde::{Deserialize, Serialize};

/// The limits of the context, and what a compaction preserves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContextConfig {
    /// The maximum tokens of a request, including the system prompt; 100,000 by default. For a model with a smaller
    /// context window, the run lowers it: see [`for_window`](Self::for_window).
    pub max_context_tokens: u64,
    /// The share of it that is reserved for the system prompt and the tools, in tokens; 4,000 by default.
    pub system_prompt_tokens: u64,
    /// The number of newest messages, which are shortened last; 10 by default.
    pub keep_recent: usize,
    /// The number of oldest messages that remain when the middle is dropped; 2 by default.
    pub keep_first: usize,
    /// The maximum number of lines of each text in a tool result, including the line about the omission; 50 by
    /// default, and 0 counts as 1.
    pub tool_output_max_lines: usize,
    /// The percentage of the budget to which a compaction shortens, as far as its levels allow; 80 by default. At
    /// 100, a long run is compacted in nearly every turn, and prompt caches are never hit.
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
    /// Returns the maximum tokens of the messages: the limit minus the share of the system prompt.
    #[must_use]
    pub fn budget(&self) -> u64 {
        self.max_context_tokens.saturating_sub(self.system_prompt_tokens)
    }

    /// Returns the limits for a model with this context window that reserves `output` tokens for its reply: a request has
    /// at most the rest of the window. At least half of the window remains for the request, and the share of the system
    /// prompt is at most a quarter of the lowered limit. A window of 0 tokens is unknown and changes nothing.
    ///
    /// ```
    /// use agent_core::ContextConfig;
    /// let context = ContextConfig::default();
    /// assert_eq!(context.for_window(32_768, 4_096).max_context_tokens, 28_672);
    /// assert_eq!(context.for_window(1_000_000, 128_000).max_context_tokens, 100_000);
    /// ```
    #[must_use]
    pub fn for_window(&self, window: u32, output: u32) -> Self {
        let (window, output) = (u64::from(window), u64::from(output));
        let room = window - output.min(window / 2);
        if window == 0 || self.max_context_tokens <= room {
            return self.clone();
        }
        let system_prompt_tokens = self.system_prompt_tokens.min(room / 4);
        Self { max_context_tokens: room, system_prompt_tokens, ..self.clone() }
    }

    /// Sets the maximum tokens of a request.
    #[must_use]
    pub fn with_max_context_tokens(mut self, tokens: u64) -> Self {
        self.max_context_tokens = tokens;
        self
    }

    /// Sets the share of the system prompt and the tools, in tokens.
    #[must_use]
    pub fn with_system_prompt_tokens(mut self, tokens: u64) -> Self {
        self.system_prompt_tokens = tokens;
        self
    }

    /// Sets the number of newest messages that are shortened last.
    #[must_use]
    pub fn with_keep_recent(mut self, messages: usize) -> Self {
        self.keep_recent = messages;
        self
    }

    /// Sets the number of oldest messages that are preserved.
    #[must_use]
    pub fn with_keep_first(mut self, messages: usize) -> Self {
        self.keep_first = messages;
        self
    }

    /// Sets the maximum number of lines in a tool result.
    #[must_use]
    pub fn with_tool_output_max_lines(mut self, lines: usize) -> Self {
        self.tool_output_max_lines = lines;
        self
    }

    /// Sets the percentage of the budget to which a compaction shortens.
    #[must_use]
    pub fn with_compact_to_percent(mut self, percent: u8) -> Self {
        self.compact_to_percent = percent;
        self
    }
}
