//! What an agent knows of its model.

use agent_core::{CostConfig, ModelConfig};

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
