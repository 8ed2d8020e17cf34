//! What an agent knows of its model.

use agent_core::compat::SeedVerbs as _;
use agent_core::{CostConfig, ModelConfig, ThinkingForm, ThinkingLevel};

use super::{agent, fill};

/// D13: abilities and prices come from the catalogue.
#[test]
fn a_known_model_is_filled_in() {
    let plain = ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", "k");
    assert_eq!(plain.cost, CostConfig::default());
    let model = agent(plain).model();
    assert!(model.cost.output > 0, "{:?}", model.cost);
}

#[test]
fn a_known_model_is_filled_in_by_whatever_protocol_it_is_asked() {
    let plain = fill(ModelConfig::openai_responses("gpt-4.1", "GPT-4.1", "k"));
    assert_eq!(plain.thinking, ThinkingForm::None);
    let thinks = fill(ModelConfig::openai_responses("gpt-5.5", "GPT-5.5", "k"));
    assert_eq!(thinks.thinking, ThinkingForm::Effort);
    assert!(thinks.thinking_levels.contains(&ThinkingLevel::XHigh) && thinks.max_tokens > 4_096);
}

#[test]
fn what_the_caller_set_stays() {
    let own = ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", "k")
        .with_limits(50_000, 1_000)
        .with_cost(CostConfig::per_million(1, 2, 3, 4));
    let model = fill(own.clone());
    assert_eq!((model.context_window, model.max_tokens), (50_000, 1_000));
    assert_eq!(model.cost, own.cost);
}

#[test]
fn an_unknown_model_stays_as_it_is() {
    let own = ModelConfig::local("http://localhost:1/v1", "mine", "k");
    assert_eq!(fill(own.clone()), own);
}
