//! One entry of the catalogue.

use agent_core::{ApiProtocol, CostConfig, ModelConfig, ThinkingForm, ThinkingLevel};
use serde::{Deserialize, Serialize};

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelFacts {
    /// The provider's name, as in [`ModelConfig::provider`].
    pub provider: String,
    /// The model's id, as the provider names it, without a date.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// The protocol.
    pub api: ApiProtocol,
    /// The most tokens of prompt and answer together.
    pub context_window: u32,
    /// The most tokens of an answer.
    pub max_tokens: u32,
    /// Whether pictures are understood.
    #[serde(default)]
    pub images: bool,
    /// How thinking is asked for.
    #[serde(default = "no_thinking")]
    pub thinking: ThinkingForm,
    /// The levels that are understood; empty means all.
    #[serde(default)]
    pub thinking_levels: Vec<ThinkingLevel>,
    /// What it takes to keep the model from thinking.
    #[serde(default)]
    pub thinking_off: ThinkingOff,
    /// Whether a budget for thinking is taken, where thinking is asked for in another form.
    #[serde(default = "yes")]
    pub thinking_budget: bool,
    /// Whether thinking is refused when what was said before it has changed since.
    #[serde(default)]
    pub thinking_bound: bool,
    /// Whether a tool call may be demanded.
    #[serde(default = "yes")]
    pub forced_tools: bool,
    /// Whether a temperature is taken.
    #[serde(default = "yes")]
    pub sampling: bool,
    /// Whether an answer can be held to a JSON schema by the provider itself.
    #[serde(default)]
    pub json_schema: bool,
    /// Prices in micro-units of a dollar per million tokens; 3,000,000 is 3 dollars. All zero where none is known or
    /// the model runs on one's own machine.
    #[serde(default)]
    pub cost: CostConfig,
    /// The day on which the facts were read: `2026-11-21`.
    pub as_of: String,
    /// Where they were read: one address or several, with a blank between them.
    pub source: String,
}

/// What it takes to keep a model from thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ThinkingOff {
    /// Nothing: it thinks only when asked.
    #[default]
    Unsaid,
    /// `disabled` must be said: it thinks unless told otherwise.
    Disabled,
    /// `between_tools` must be said, which is the least that it can be told.
    BetweenTools,
    /// It always thinks.
    Never,
}

impl ModelFacts {
    /// `model` with these facts: window, limits, abilities, prices. Key, address, headers and the name stay.
    #[must_use]
    pub fn apply(&self, mut model: ModelConfig) -> ModelConfig {
        model.context_window = self.context_window;
        model.max_tokens = self.max_tokens;
        model.images = self.images;
        model.thinking = self.thinking;
        model.thinking_levels.clone_from(&self.thinking_levels);
        model.cost = self.cost.clone();
        model
    }

    /// A configuration of this model, without key and address.
    #[must_use]
    pub fn to_model(&self) -> ModelConfig {
        self.apply(ModelConfig::new(self.api, &*self.provider, &*self.id).named(&*self.name))
    }
}

fn yes() -> bool {
    true
}

fn no_thinking() -> ThinkingForm {
    ThinkingForm::None
}
