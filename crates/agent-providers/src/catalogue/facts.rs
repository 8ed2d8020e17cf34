//! The type of the catalogue's entries.

use agent_core::{ApiProtocol, CostConfig, ModelConfig, ThinkingForm, ThinkingLevel};
use serde::{Deserialize, Serialize};

/// The facts about one model: its identity, limits, capabilities and prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelFacts {
    /// The provider's name, as in [`ModelConfig::provider`].
    pub provider: String,
    /// The model's id at the provider, without a date.
    pub id: String,
    /// The name to display.
    pub name: String,
    /// The protocol that the provider uses for this model.
    pub api: ApiProtocol,
    /// The maximum number of tokens of prompt and reply together; `None` if no source states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// The maximum number of tokens of a reply; `None` if no source states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Whether the model accepts images; `None` if no source states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// How a request asks the model to think; `None` if no source states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingForm>,
    /// The supported thinking levels. An empty list means all levels.
    #[serde(default)]
    pub thinking_levels: Vec<ThinkingLevel>,
    /// What a request needs to prevent the model from thinking.
    #[serde(default)]
    pub thinking_off: ThinkingOff,
    /// Whether the model accepts a thinking budget in addition to another thinking form. Default: true.
    #[serde(default = "yes")]
    pub thinking_budget: bool,
    /// Whether the API rejects stored thinking after the messages before it have changed. Default: false.
    #[serde(default)]
    pub thinking_bound: bool,
    /// Whether a request may force a tool call. Default: true.
    #[serde(default = "yes")]
    pub forced_tools: bool,
    /// Whether the model accepts a temperature. Default: true.
    #[serde(default = "yes")]
    pub sampling: bool,
    /// Whether the provider can enforce a JSON schema for a reply; `None` if no source states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<bool>,
    /// Prices in millionths of a US dollar per million tokens; 3,000,000 is 3 dollars. All prices are zero if none is known
    /// or the model runs locally.
    #[serde(default)]
    pub cost: CostConfig,
    /// The date on which the facts were read, for example `2026-11-21`.
    pub as_of: String,
    /// The addresses from which the facts were read, separated by spaces.
    pub source: String,
}

/// What a request needs to prevent a model from thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ThinkingOff {
    /// Nothing. The model thinks only if the request asks for it.
    #[default]
    Unsaid,
    /// The request must contain `disabled`; without it the model thinks.
    Disabled,
    /// The request must contain `between_tools`, the lowest setting that the model supports.
    BetweenTools,
    /// Thinking cannot be disabled.
    Never,
}

impl ModelFacts {
    /// Returns `model` with the context window, limits, capabilities and prices of this entry. Facts that the entry lacks,
    /// key, address, headers and name do not change.
    #[must_use]
    pub fn apply(&self, mut model: ModelConfig) -> ModelConfig {
        model.context_window = self.context_window.or(model.context_window);
        model.max_tokens = self.max_tokens.or(model.max_tokens);
        model.images = self.images.unwrap_or(model.images);
        if let Some(thinking) = self.thinking {
            model.thinking = thinking;
            model.thinking_levels.clone_from(&self.thinking_levels);
        }
        if self.cost.is_known() {
            model.cost = self.cost.clone();
        }
        model
    }

    /// Returns whether `model` has all the facts of this entry, and limits of its own or those of this entry.
    pub(super) fn are_of(&self, model: &ModelConfig) -> bool {
        let has = |limit: Option<u32>, fact: Option<u32>| limit.is_some() || fact.is_none();
        has(model.context_window, self.context_window)
            && has(model.max_tokens, self.max_tokens)
            && self.images.is_none_or(|images| images == model.images)
            && self.thinking.is_none_or(|form| form == model.thinking)
            && (self.thinking.is_none() || self.thinking_levels == model.thinking_levels)
            && (!self.cost.is_known() || self.cost == model.cost)
    }

    /// Returns a configuration of this model without key and address.
    #[must_use]
    pub fn to_model(&self) -> ModelConfig {
        self.apply(ModelConfig::new(self.api, &*self.provider, &*self.id).named(&*self.name))
    }
}

fn yes() -> bool {
    true
}
