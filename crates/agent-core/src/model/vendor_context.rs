//! What the vendor's servers do with a conversation that becomes long.

use super::ApiProtocol;

/// What the vendor's servers do when a conversation becomes long. Its history stays complete in the program.
///
/// The vendor replaces old messages by a summary of its own, which is a part of the reply and is sent back with later
/// requests, or leaves out old results of tools. Anthropic's API has both; the OpenAI Responses API, and Azure with it, has
/// the summary without instructions. A protocol that lacks a setting refuses the request with a [`VendorContextError`]
/// before it is sent. The agent's own compaction stays as a second line: set `compact_at` below its limit.
///
/// ```
/// use agent_core::{BasicAgent, ModelConfig};
/// use agent_core::model::VendorContext;
///
/// let model = ModelConfig::anthropic("claude-sonnet-5-5", "Claude Sonnet", "sk-ant-secret");
/// let agent = BasicAgent::new(model).configure(|config| {
///     config.request.vendor_context = Some(VendorContext::compacting_at(80_000));
/// });
/// # drop(agent);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VendorContext {
    /// The tokens of a prompt from which on the vendor replaces old messages by a summary. Default: it does not.
    pub compact_at: Option<u64>,
    /// Instructions for the summary, in addition to the vendor's. Default: none. Without `compact_at` they have no effect.
    pub instructions: Option<String>,
    /// Which results of tools the vendor leaves out of the prompt. Default: none.
    pub clear_results: Option<ClearResults>,
}

/// Which results of tools a vendor leaves out of a long prompt: the oldest ones. The calls stay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClearResults {
    /// The tokens of a prompt from which on results are left out.
    pub at: u64,
    /// How many of the newest results stay. Default: 3.
    pub keep: u32,
    /// The fewest tokens that are worth breaking the prompt cache for; with fewer, nothing is left out. Default: any.
    pub at_least: Option<u64>,
    /// The tools whose results stay. Default: none.
    pub except: Vec<String>,
}

/// The results that stay if the caller sets nothing else.
const KEEP: u32 = 3;

impl VendorContext {
    /// Replaces old messages by the vendor's summary from this number of prompt tokens on. Anthropic accepts 50,000 or more.
    #[must_use]
    pub fn compacting_at(tokens: u64) -> Self {
        Self { compact_at: Some(tokens), ..Self::default() }
    }

    /// Leaves out old results of tools.
    #[must_use]
    pub fn clearing(results: ClearResults) -> Self {
        Self { clear_results: Some(results), ..Self::default() }
    }

    /// Sets instructions for the summary.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Sets which results of tools are left out.
    #[must_use]
    pub fn with_clearing(mut self, results: ClearResults) -> Self {
        self.clear_results = Some(results);
        self
    }

    /// Checks whether the protocol has these settings. A custom protocol is not checked: its provider decides.
    ///
    /// # Errors
    /// Returns the first setting that the protocol does not have, or that has no valid value.
    pub fn check(&self, protocol: ApiProtocol) -> Result<(), VendorContextError> {
        let settings = [
            ("compact_at", self.compact_at.is_some()),
            ("instructions", self.instructions.is_some()),
            ("clear_results", self.clear_results.is_some()),
        ];
        let has: &[&str] = match protocol {
            ApiProtocol::AnthropicMessages | ApiProtocol::Custom(_) => {
                &["compact_at", "instructions", "clear_results"]
            }
            ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => &["compact_at"],
            _ => &[],
        };
        if let Some((setting, _)) = settings.iter().find(|(name, is_set)| *is_set && !has.contains(name)) {
            return Err(VendorContextError::Protocol { protocol, setting });
        }
        let zero =
            self.compact_at == Some(0) || self.clear_results.as_ref().is_some_and(|clear| clear.at == 0);
        if zero { Err(VendorContextError::Zero) } else { Ok(()) }
    }
}

impl ClearResults {
    /// Leaves out results from this number of prompt tokens on, all but the three newest.
    #[must_use]
    pub fn at(tokens: u64) -> Self {
        Self { at: tokens, keep: KEEP, at_least: None, except: Vec::new() }
    }

    /// Sets how many of the newest results stay.
    #[must_use]
    pub fn keeping(mut self, results: u32) -> Self {
        self.keep = results;
        self
    }

    /// Sets the fewest tokens that are worth breaking the prompt cache for.
    #[must_use]
    pub fn with_at_least(mut self, tokens: u64) -> Self {
        self.at_least = Some(tokens);
        self
    }

    /// Adds a tool whose results stay.
    #[must_use]
    pub fn except(mut self, tool: impl Into<String>) -> Self {
        self.except.push(tool.into());
        self
    }
}

/// Why a request cannot let the vendor shorten the conversation. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VendorContextError {
    /// The protocol does not have the setting.
    #[error("the servers of the protocol {protocol} have no {setting} for long conversations")]
    Protocol {
        /// The protocol of the model.
        protocol: ApiProtocol,
        /// The name of the setting: `compact_at`, `instructions` or `clear_results`.
        setting: &'static str,
    },
    /// A number of tokens is 0.
    #[error("the number of tokens from which on the vendor shortens a conversation is 0")]
    Zero,
}

impl VendorContextError {
    /// Returns what to do instead.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Protocol { .. } => {
                "leave the setting out, and use a compaction strategy of the agent, such as SummarizingCompaction"
            }
            Self::Zero => "set a positive number of tokens",
        }
    }
}
