//! The vendor of a model. Bedrock has one request format for all vendors, but not every model supports all of it.

use agent_core::{CacheTtl, ModelConfig};

use crate::cache::OF_CLAUDE;

/// The vendor of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// The models of Anthropic.
    Claude,
    /// The models of Amazon.
    Nova,
    /// `DeepSeek`'s models, which do not accept their own reasoning in a request.
    DeepSeek,
    /// A model of another vendor, or of an unknown one.
    Other,
}

impl Family {
    /// Returns the family by the model's id. If the id names no vendor, as in the ARN of a custom inference profile, the
    /// display name decides.
    pub(super) fn of(model: &ModelConfig) -> Self {
        match Self::named(&model.id) {
            Self::Other if model.id.starts_with("arn:") => Self::named(&model.name),
            family => family,
        }
    }

    fn named(name: &str) -> Self {
        let name = name.to_lowercase();
        if name.contains("claude") {
            Self::Claude
        } else if name.contains("nova") {
            Self::Nova
        } else if name.contains("deepseek") {
            Self::DeepSeek
        } else {
            Self::Other
        }
    }

    /// Returns whether cache points are accepted: by Claude since 3.5 v2 and Haiku 3.5, and by Nova. Other models reject them.
    pub(super) fn caches(self, model: &ModelConfig) -> bool {
        const WITHOUT: &[&str] = &[
            "claude-v2",
            "claude-instant",
            "claude-3-sonnet",
            "claude-3-haiku",
            "claude-3-opus",
            "claude-3-5-sonnet-20240620",
        ];
        match self {
            Self::Claude => !WITHOUT.iter().any(|old| model.id.contains(old)),
            Self::Nova => true,
            Self::DeepSeek | Self::Other => false,
        }
    }

    /// Returns the lifetimes that a cache point can have.
    pub(super) fn lifetimes(self) -> &'static [CacheTtl] {
        match self {
            Self::Claude => OF_CLAUDE,
            Self::Nova | Self::DeepSeek | Self::Other => &[CacheTtl::FiveMinutes],
        }
    }

    /// Returns whether a cache point may follow the tools.
    pub(super) fn caches_tools(self, model: &ModelConfig) -> bool {
        self == Self::Claude && self.caches(model)
    }
}
