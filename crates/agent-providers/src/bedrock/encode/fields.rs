//! The additional request fields in the format of the model's vendor, which set the thinking level.

use agent_core::{ModelRequest, ThinkingForm, ThinkingLevel};

use crate::bedrock::family::Family;
use crate::claude::thinking::Plan;
use crate::json::Members;
use crate::request::output_limit;

/// The additional fields of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fields {
    /// The members of Anthropic's own API.
    Claude,
    /// The member `reasoningConfig` with an effort.
    Nova(&'static str),
    /// The member `reasoning_effort`, which most other vendors use.
    Effort(&'static str),
    /// No additional fields.
    Unsaid,
}

/// Returns the additional fields of a request.
pub(super) fn plan(request: &ModelRequest, family: Family, plan: &Plan) -> Fields {
    let model = &*request.model;
    let level = request.options.thinking_level.clamp_to(&model.thinking_levels);
    let by_word = matches!(model.thinking, ThinkingForm::Effort | ThinkingForm::Adaptive);
    match family {
        Family::Claude if plan.says_nothing() => Fields::Unsaid,
        Family::Claude => Fields::Claude,
        _ if level == ThinkingLevel::Off || !by_word => Fields::Unsaid,
        Family::Nova => Fields::Nova(word(level)),
        Family::DeepSeek | Family::Other => Fields::Effort(word(level)),
    }
}

/// Returns one of the three efforts that all vendors accept.
fn word(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        _ => "high",
    }
}

impl Fields {
    /// Returns the output limit, unless it is unknown or the model rejects one. Without a limit, the API applies that of the
    /// model.
    pub(super) fn max_tokens(self, request: &ModelRequest, plan: &Plan) -> Option<u32> {
        match self {
            Self::Claude => plan.max_tokens,
            // Nova rejects a limit together with its highest effort.
            Self::Nova("high") => None,
            _ => output_limit(request),
        }
    }

    /// Returns whether a temperature can be sent together with the fields.
    pub(super) fn takes_temperature(self, plan: &Plan) -> bool {
        match self {
            Self::Nova("high") => false,
            Self::Claude | Self::Unsaid => plan.takes_temperature,
            Self::Nova(_) | Self::Effort(_) => true,
        }
    }

    /// Writes the `additionalModelRequestFields` member, if there is one.
    pub(super) fn write(self, body: &mut Members<'_>, plan: &Plan) {
        if self == Self::Unsaid {
            return;
        }
        let mut fields = Members::open(body.key("additionalModelRequestFields"));
        match self {
            Self::Claude => {
                plan.write(&mut fields);
                if let Some(effort) = plan.effort {
                    let mut config = Members::open(fields.key("output_config"));
                    config.field("effort", effort);
                    config.close();
                }
            }
            Self::Nova(effort) => {
                let mut config = Members::open(fields.key("reasoningConfig"));
                config.field("type", "enabled").field("maxReasoningEffort", effort);
                config.close();
            }
            Self::Effort(effort) => {
                fields.field("reasoning_effort", effort);
            }
            Self::Unsaid => {}
        }
        fields.close();
    }
}
