//! What these tests share.

use agent_core::compat::SeedSetters as _;
use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{
    AgentEvent, BasicAgent, Budget, BudgetEvent, BudgetLimits, BudgetNote, ContextConfig, CostConfig,
    ModelConfig, Money, RetryConfig, RunEnd, Spending, StopCause, Usage,
};

/// 3 a million in, 15 out.
pub(crate) fn prices() -> CostConfig {
    CostConfig::per_million(3_000_000, 15_000_000, 300_000, 3_750_000)
}

pub(crate) fn priced() -> ModelConfig {
    ModelConfig::default().with_cost(prices()).with_limits(200_000, 500)
}

pub(crate) fn none() -> BudgetLimits {
    BudgetLimits::none()
}

pub(crate) fn money(text: &str) -> Money {
    text.parse().unwrap()
}

/// An agent whose model follows this script, with a budget.
pub(crate) fn agent(
    replies: impl IntoIterator<Item = impl Into<ScriptedReply>>,
    budget: &Budget,
) -> (BasicAgent, ScriptedProvider) {
    let model = ScriptedProvider::new(replies).exhaustive();
    let agent = BasicAgent::new(priced())
        .with_provider(model.clone())
        .with_context_config(ContextConfig::default())
        .with_retry_config(RetryConfig::default().with_delays(Default::default(), Default::default()))
        .with_budget(budget.clone());
    (agent, model)
}

/// A reply of one text that used these tokens.
pub(crate) fn reply(input: u64, output: u64) -> ScriptedReply {
    ScriptedReply::text("ok").using(Usage::new(input, output, 0, 0))
}

pub(crate) fn notes(events: &[AgentEvent]) -> Vec<BudgetEvent> {
    let notes = events.iter().filter_map(|e| match e {
        AgentEvent::Budget(event) => Some((**event).clone()),
        _ => None,
    });
    notes.collect()
}

/// What each call is said to have cost.
pub(crate) fn spent(events: &[AgentEvent]) -> Vec<Spending> {
    let spent = notes(events).into_iter().filter_map(|e| match e.note {
        BudgetNote::Spent { amounts, .. } => Some(amounts),
        _ => None,
    });
    spent.collect()
}

/// The refusal that the last run ended with.
pub(crate) async fn refused(agent: &BasicAgent) -> String {
    match agent.finish().await {
        Some(RunEnd::Stopped(StopCause::Budget { refusal })) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}
