//! The event about a model of which facts are unknown.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::identity::LoopId;

/// The data of [`AgentEvent::ModelUnknown`](super::AgentEvent::ModelUnknown).
///
/// [`ModelConfig::with_limits`](crate::ModelConfig::with_limits) and [`with_cost`](crate::ModelConfig::with_cost) supply the
/// facts that are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnknownModel {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The name of the provider.
    pub provider: String,
    /// The id of the model.
    pub model: String,
    /// The facts that neither the configuration nor the provider has.
    pub unknown: Vec<UnknownFact>,
    /// The number of answer tokens that the budget of the run assumes for each call, because the output limit is unknown;
    /// `None` without a budget or with a known limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed_output: Option<u64>,
}

/// A fact about a model that is unknown, and what its lack means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnknownFact {
    /// The context window. The conversation is not compacted to fit it, except after the provider reports an overflow.
    ContextWindow,
    /// The output limit. Requests have no limit, unless the protocol requires one.
    MaxTokens,
    /// The prices. Costs are not counted, and a budget that limits money refuses the model.
    Prices,
}

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model {}/{} is unknown:", self.provider, self.model)?;
        for (index, fact) in self.unknown.iter().enumerate() {
            let text = match fact {
                UnknownFact::ContextWindow => {
                    "its context window (only a reported overflow shortens the conversation)"
                }
                UnknownFact::MaxTokens => "its output limit",
                UnknownFact::Prices => "its prices (no cost is counted)",
            };
            write!(f, "{} {text}", if index == 0 { "" } else { "," })?;
        }
        if let Some(tokens) = self.assumed_output {
            write!(f, "; the budget assumes answers of at most {tokens} tokens")?;
        }
        f.write_str("; set them with with_limits and with_cost")
    }
}
