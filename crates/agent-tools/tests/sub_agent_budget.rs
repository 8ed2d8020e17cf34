//! Sub-agents spend from the budget of their caller.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply, assert_well_formed};
use agent_core::{
    AgentEvent, ApiProtocol, BasicAgent, Budget, BudgetLimits, CostConfig, Ended, ModelConfig, ModelRequest,
    Spending, Usage,
};
use agent_tools::SubAgentTool;
use serde_json::json;

/// Far more than anything here takes.
const HANG: Duration = Duration::from_secs(30);

fn model(id: &str, price: u64) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, "p", id)
        .with_cost(CostConfig::per_million(price, price, price, price))
        .with_limits(100_000, 400)
}

/// The caller delegates once, with so many tasks, and then answers; a child goes on looking for ever.
fn provider(tasks: usize) -> ScriptedProvider {
    let look = |request: &ModelRequest| {
        let id = format!("look{}", request.history.len());
        ScriptedReply::text("so far").and_call(&id, "nobody", json!({})).using(Usage::new(100, 100, 0, 0))
    };
    ScriptedProvider::responding(move |request| match request.model.id.as_str() {
        "boss" if request.messages().count() > 1 => {
            ScriptedReply::text("done").using(Usage::new(50, 50, 0, 0))
        }
        "boss" => (0..tasks)
            .fold(ScriptedReply::new(), |r, n| {
                r.and_call(&format!("c{n}"), "helper", json!({"task": "look"}))
            })
            .using(Usage::new(50, 50, 0, 0)),
        _ => look(request),
    })
}

async fn run(budget: &Budget, tasks: usize, child: SubAgentTool) -> Vec<AgentEvent> {
    let agent = BasicAgent::new(model("boss", 1_000_000))
        .with_provider(provider(tasks))
        .with_tool(child)
        .with_budget(budget.clone());
    let events = tokio::time::timeout(HANG, agent.prompt("go").unwrap().collect()).await.expect("it hangs");
    assert_well_formed(&events);
    events
}

fn said_by_tools(events: &[AgentEvent]) -> Vec<String> {
    let own = events.last().unwrap().loop_id();
    let ends = events.iter().filter_map(|e| match e {
        AgentEvent::ToolExecutionEnd(end) if end.loop_id == *own => Some(end.result.to_text()),
        _ => None,
    });
    ends.collect()
}

/// X4: what a child spends, its caller spends, at the child's prices; the child stops at its share with what it has, and its caller goes on.
#[tokio::test]
async fn a_child_spends_its_share_and_stops_with_what_it_has() {
    let budget = Budget::new(BudgetLimits::none().with_money("1".parse().unwrap()));
    let child = SubAgentTool::new("helper", model("small", 2_000_000))
        .with_budget(BudgetLimits::none().with_tokens(1_300));
    let events = run(&budget, 1, child).await;
    let said = said_by_tools(&events);
    assert!(
        said[0].starts_with("so far\n\n[the sub-agent was stopped: the budget \"helper\" of 1300 in tokens"),
        "{said:?}"
    );
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!() };
    assert_eq!(end.ended, Ended::Completed);
    // Two calls of the caller, and the child's until another one could go over 1,300.
    let calls = budget.spent().model_calls - 2;
    assert!((2..=6).contains(&calls), "{calls}");
    assert_eq!(budget.spent().tokens, 200 + 200 * calls);
    assert_eq!(budget.spent().money.micros(), 200 + 400 * calls);
    assert_eq!(end.spent.as_deref().map(|s| s.without_time()), Some(budget.spent().without_time()));
    assert_eq!(budget.reserved(), Spending::default());
}

/// X4: children side by side take from one account, and what none of them could use is not lost.
#[tokio::test]
async fn children_side_by_side_do_not_overspend_their_caller() {
    let budget = Budget::new(BudgetLimits::none().with_tokens(6_000));
    let child = SubAgentTool::new("helper", model("small", 0)).with_max_turns(50);
    let events = run(&budget, 5, child).await;
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!() };
    assert!(matches!(end.ended, Ended::Budget { .. }), "{:?}", end.ended);
    assert!(said_by_tools(&events).iter().all(|s| s.contains("the budget of 6000 in tokens is used up")));
    let spent = budget.spent().tokens;
    assert!(spent <= 6_000 && spent > 4_000, "{spent}");
    assert_eq!(budget.reserved(), Spending::default());
}

/// X4: a child with a limit of money and a model without prices does not begin.
#[tokio::test]
async fn a_child_whose_model_has_no_prices_does_not_begin_under_a_limit_of_money() {
    let budget = Budget::new(BudgetLimits::none().with_money("1".parse().unwrap()));
    let events = run(&budget, 1, SubAgentTool::new("helper", ModelConfig::ollama("small"))).await;
    let said = said_by_tools(&events);
    assert!(said[0].contains("the prices of ollama/small are not known"), "{said:?}");
    assert_eq!(budget.spent().model_calls, 2);
}

/// Without a budget of the caller's a child keeps its own.
#[tokio::test]
async fn a_child_has_its_own_budget_where_its_caller_has_none() {
    let child =
        SubAgentTool::new("helper", model("small", 0)).with_budget(BudgetLimits::none().with_model_calls(2));
    let agent = BasicAgent::new(model("boss", 0)).with_provider(provider(1)).with_tool(child);
    let events = tokio::time::timeout(HANG, agent.prompt("go").unwrap().collect()).await.expect("it hangs");
    let said = said_by_tools(&events);
    assert!(said[0].contains("the budget \"helper\" of 2 in model calls is used up: 2 is spent"), "{said:?}");
}
