//! A run that stops at a limit.

use agent_core::compat::SeedSetters as _;
use agent_core::testing::{ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentError, AgentEvent, Budget, BudgetError, CostConfig, Ended, ErrorKind, LoopError, ModelConfig, Route,
    Spending, Usage,
};
use serde_json::json;

use crate::room::{agent, money, none, notes, priced, refused, reply};
use crate::runs::{run, said};

/// X4: it ends with what it has, says which limit, and the conversation can go on when there is more.
#[tokio::test]
async fn at_a_limit_the_run_ends_with_what_it_has_and_can_go_on_later() {
    let budget = Budget::new(none().with_tokens(1_000));
    let look =
        ScriptedReply::text("I look.").and_call("a", "look", json!({})).using(Usage::new(600, 50, 0, 0));
    let (agent, model) = agent([look, reply(1, 1)], &budget);
    let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
    let events = run(&agent, "Go.").await;
    assert_well_formed(&events);
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user reserved spent assistant(I look.) tool+(a) tool-(a) result(a) turn_end \
         turn_start over_budget user turn_end agent_end(budget)"
    );
    assert_eq!(model.requests().len(), 1);
    let reason = "the budget of 1000 in tokens is used up: 650 is spent, and the next call may cost 1160";
    assert_eq!(refused(&agent).await, reason);
    assert_eq!(agent.messages().last().unwrap().text(), format!("[Agent stopped: {reason}]"));
    let error = agent.chat("More.").await.unwrap_err().to_string();
    assert!(error.contains("raise the limit with Budget::raise"), "{error}");
    budget.raise(Spending::of_tokens(1_500));
    assert_eq!(agent.chat("And now?").await.unwrap(), "ok");
    assert!(said(&agent).ends_with("user(And now?) assistant(ok)"));
}

#[tokio::test]
async fn each_limit_stops_a_run_and_is_named() {
    #[track_caller]
    fn check(reason: &str, words: &str) {
        assert!(reason.contains(words), "{reason:?} lacks {words:?}");
    }
    for (limits, words) in [
        (none().with_tokens(520), "in tokens"),
        (none().with_money(money("0.008")), "of 0.008 in money"),
        (none().with_model_calls(1), "of 1 in model calls is used up: 1 is spent"),
    ] {
        let budget = Budget::new(limits);
        let call = ScriptedReply::call("a", "look", json!({})).using(Usage::new(10, 90, 0, 0));
        let (agent, model) = agent([call, reply(1, 1)], &budget);
        let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
        run(&agent, "Go.").await;
        check(&refused(&agent).await, words);
        assert_eq!(model.requests().len(), 1);
    }
}

/// The calls that fit run; the run ends when they have.
#[tokio::test]
async fn at_a_limit_of_tool_calls_the_rest_is_answered_with_why_and_the_run_ends() {
    let budget = Budget::new(none().with_tool_calls(1));
    let calls = ScriptedReply::new().and_call("a", "look", json!({})).and_call("b", "look", json!({}));
    let (agent, model) = agent([calls, reply(1, 1)], &budget);
    let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
    let events = run(&agent, "Go.").await;
    assert_well_formed(&events);
    let text = transcript(&events);
    assert!(text.contains("tool-(a)") && text.contains("tool-!(b)"), "{text}");
    assert!(text.ends_with("result(a) result!(b) turn_end user agent_end(budget)"), "{text}");
    assert_eq!((model.requests().len(), budget.spent().tool_calls), (1, 1));
    assert_eq!(refused(&agent).await, "the budget of 1 in tool calls is used up: 1 is spent");
    let results: Vec<String> =
        agent.messages().iter().filter(|m| m.role() == "toolResult").map(|m| m.text()).collect();
    assert_eq!(
        results,
        ["x", "This call was not run: the budget of 1 in tool calls is used up: 1 is spent."]
    );
}

/// X4: nothing is free because nobody knows its price.
#[tokio::test]
async fn a_limit_of_money_wants_to_know_what_the_model_and_each_route_cost() {
    let budget = Budget::new(none().with_money(money("1")));
    let (agent, _) = agent([reply(1, 1), reply(1, 1)], &budget);
    let mut agent = agent.with_model_config(ModelConfig::local("http://localhost:1", "house-model", ""));
    let error = agent.prompt("Go.").unwrap_err();
    let AgentError::Budget(BudgetError::NoPrices { ref model, ref provider, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!((model.as_str(), provider.as_str()), ("house-model", "local"));
    assert!(error.to_string().contains("the prices of local/house-model are not known"), "{error}");
    agent.set_model(priced());
    let agent = agent.with_route(Route::new(ModelConfig::ollama("spare")));
    assert!(matches!(agent.prompt("Go."), Err(AgentError::Budget(_))), "a route counts as well");
    assert!(agent.messages().is_empty());
    let mut agent = agent.configure(|c| c.routes.clear());
    agent.set_model(ModelConfig::ollama("mine").with_cost(CostConfig::free()));
    assert_eq!(agent.chat("Go.").await.unwrap(), "ok");
    assert_eq!(budget.spent().money, money("0"));

    let mut config = agent.config();
    config.model = std::sync::Arc::new(ModelConfig::ollama("mine"));
    let mut context = agent_core::AgentContext::new("");
    let begun = agent_core::agent_loop(
        vec!["go".into()],
        &mut context,
        &config,
        agent_core::EventSender::none(),
        agent_core::CancellationToken::new(),
    );
    assert!(matches!(begun.await, Err(LoopError::Budget(_))));
}

/// A reply that may not be as long as it could is asked for within what is left.
#[tokio::test]
async fn an_answer_is_bounded_by_what_is_left() {
    let budget = Budget::new(none().with_tokens(8_000));
    let (agent, model) = agent([reply(1, 1)], &budget);
    let agent = agent.with_max_tokens(64_000);
    let events = run(&agent, "12345678").await;
    assert_eq!(model.requests()[0].options.max_tokens, Some(3_997));
    let json = serde_json::to_value(&notes(&events)[0]).unwrap();
    assert_eq!(json["note"]["max_output"], 3_997);
}

/// A route has its own prices.
#[tokio::test]
async fn a_route_is_counted_at_its_own_prices() {
    let budget = Budget::new(none().with_money(money("1")));
    let down = ScriptedReply::error(ErrorKind::Quota, "no credit");
    let (agent, _) = agent([down, reply(1_000_000, 0)], &budget);
    let dear = ModelConfig::ollama("dear").with_cost(CostConfig::per_million(700_000, 0, 0, 0));
    let agent = agent.with_route(Route::new(dear)).with_context_config(None);
    let events = run(&agent, "go").await;
    assert_eq!(budget.spent().money, money("0.70"), "{}", transcript(&events));
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!() };
    assert_eq!((&end.ended, end.spent.as_ref().map(|s| s.money)), (&Ended::Completed, Some(money("0.70"))));
}

/// Without a budget nothing is said of one.
#[tokio::test]
async fn without_a_budget_there_is_no_word_of_it() {
    let (agent, _) = agent([reply(1, 1)], &Budget::new(none()));
    let events = run(&agent.with_budget(None), "go").await;
    assert!(notes(&events).is_empty());
    let text = serde_json::to_string(&events).unwrap();
    assert!(!text.contains("udget") && !text.contains("spent"), "{text}");
}
