//! What is counted, and at what.

use agent_core::compat::SeedSetters as _;
use std::time::Duration;

use agent_core::testing::{Latch, ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentEvent, Budget, BudgetNote, CancellationToken, CompactionContext, CompactionError, CompactionOutcome,
    CompactionStrategy, Completion, ContextConfig, ErrorKind, EventSink, History, ModelRequest,
    ProviderError, Spending, StreamProvider, Usage, complete,
};
use serde_json::json;

use crate::room::{agent, money, none, notes, prices, reply, spent};
use crate::runs::{run, within};

/// X4: what was set aside for a call is given back, and what it cost is counted, in money to the micro-unit.
#[tokio::test]
async fn a_call_is_reserved_at_its_most_and_settled_at_what_it_cost() {
    let budget = Budget::new(none().with_money(money("1")).with_tokens(10_000));
    let (agent, _) = agent([reply(1_000, 100)], &budget);
    let events = run(&agent, "12345678").await;
    assert_well_formed(&events);
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user reserved spent assistant(ok) turn_end agent_end(completed)"
    );
    let notes = notes(&events);
    let BudgetNote::Reserved { amounts, max_output: None } = notes[0].note else { panic!("{notes:?}") };
    // Six tokens of prompt, and the 500 of the longest answer.
    assert_eq!((amounts.tokens, amounts.model_calls), (506, 1));
    assert_eq!(amounts.money.micros(), 23 + 7_500);
    let cost = Spending::of_call(&Usage::new(1_000, 100, 0, 0), &prices());
    assert_eq!((cost.tokens, cost.money.to_string().as_str(), cost.model_calls), (1_100, "0.0045", 1));
    assert_eq!(notes[1].note, BudgetNote::Spent { amounts: cost, estimated: false });
    assert_eq!(notes[1].spent.without_time(), cost);
    assert_eq!((notes[0].step.as_str(), notes[1].step.as_str()), ("model-0.0", "model-0.0"));
    assert_eq!(budget.spent().without_time(), cost);
    assert_eq!(budget.reserved(), Spending::default());
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!() };
    assert_eq!(end.spent.as_deref(), Some(&cost));
}

/// X4: tokens that were read from a cache or written to one are tokens, and each has its price.
#[tokio::test]
async fn tokens_of_caches_are_spent_like_others_at_their_own_prices() {
    let usage = Usage::new(1_000, 100, 20_000, 3_000);
    let budget = Budget::new(none().with_money(money("1")));
    let (agent, _) = agent([ScriptedReply::text("ok").using(usage)], &budget);
    run(&agent, "12345678").await;
    let spent = budget.spent();
    assert_eq!((spent.tokens, spent.model_calls), (24_100, 1));
    let prices = prices();
    let micros = (1_000 * prices.input
        + 100 * prices.output
        + 20_000 * prices.cache_read
        + 3_000 * prices.cache_write)
        / 1_000_000;
    assert!(prices.cache_read > 0 && prices.cache_write > 0);
    assert_eq!(spent.money.micros(), micros);
}

/// X4: each attempt is a call of its own; what a failed one used is spent.
#[tokio::test]
async fn every_attempt_counts_also_one_that_fails_in_the_middle() {
    let budget = Budget::new(none().with_money(money("1")));
    let broken =
        ScriptedReply::text("par").using(Usage::new(200, 10, 0, 0)).failing(ErrorKind::Network, "cut");
    let refused = ScriptedReply::error(ErrorKind::RateLimited, "slow down");
    let (agent, model) = agent([broken, refused, reply(200, 20)], &budget);
    let events = run(&agent, "go").await;
    assert_eq!(model.requests().len(), 3);
    let calls = spent(&events);
    assert_eq!(calls.iter().map(|s| s.tokens).collect::<Vec<_>>(), [210, 0, 220]);
    assert_eq!((budget.spent().model_calls, budget.spent().tokens), (3, 430));
    assert_eq!(budget.reserved(), Spending::default());
}

/// X4: a call is never free because nobody counted it.
#[tokio::test]
async fn a_reply_without_usage_is_counted_by_an_estimate_that_is_said_to_be_one() {
    let budget = Budget::new(none().with_money(money("1")));
    let (agent, _) = agent([ScriptedReply::text("12345678")], &budget);
    let agent = agent.with_system_prompt("x".repeat(400));
    let events = run(&agent, "12345678").await;
    let last = notes(&events).pop().unwrap();
    let BudgetNote::Spent { amounts, estimated } = last.note else { panic!() };
    assert!(estimated);
    // 100 of the system prompt, 6 of the prompt, 6 of the reply.
    assert_eq!(amounts.tokens, 112);
    assert!(amounts.money > money("0"));
}

/// X4: an aborted call is settled, with what had arrived.
#[tokio::test]
async fn an_aborted_call_is_settled_and_gives_back_the_rest() {
    let budget = Budget::new(none().with_tokens(10_000));
    let latch = Latch::new();
    let (agent, _) = agent([ScriptedReply::text("12345678").and_wait(&latch)], &budget);
    let events = agent.prompt("12345678").unwrap();
    within(latch.reached()).await;
    assert_eq!(budget.reserved().tokens, 506);
    agent.abort();
    let events = within(events.collect()).await;
    assert!(transcript(&events).contains("spent assistant!(12345678)"), "{}", transcript(&events));
    assert_eq!((budget.reserved(), budget.spent().model_calls), (Spending::default(), 1));
    assert!(budget.spent().tokens >= 8, "{:?}", budget.spent());
}

/// A provider that answers nothing until the call is aborted.
#[derive(Debug)]
struct Silent(Latch);

#[async_trait::async_trait]
impl StreamProvider for Silent {
    fn provider_id(&self) -> &str {
        "silent"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        _: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        tokio::select! {
            () = self.0.wait() => panic!("the latch is not opened"),
            () = cancel.cancelled() => Err(ProviderError::Cancelled),
        }
    }
}

/// The provider can have begun to work on the prompt, and bills it.
#[tokio::test]
async fn a_call_that_is_aborted_before_its_first_piece_is_counted_by_its_prompt() {
    let budget = Budget::new(none().with_tokens(10_000));
    let latch = Latch::new();
    let (agent, _) = agent([reply(1, 1)], &budget);
    let agent = agent.with_provider(Silent(latch.clone()));
    let events = agent.prompt("12345678".repeat(100)).unwrap();
    within(latch.reached()).await;
    agent.abort();
    let events = within(events.collect()).await;
    let last = notes(&events).pop().unwrap();
    let BudgetNote::Spent { amounts, estimated } = last.note else { panic!("{last:?}") };
    assert!(estimated && amounts.tokens >= 200, "{amounts:?}");
    assert_eq!((budget.reserved(), budget.spent().tokens), (Spending::default(), amounts.tokens));
}

/// X4: also where the task of the run is dropped.
#[tokio::test]
async fn a_run_that_is_dropped_in_a_call_keeps_nothing_set_aside() {
    let budget = Budget::new(none().with_tokens(10_000));
    let latch = Latch::new();
    let model = agent_core::testing::ScriptedProvider::new([ScriptedReply::text("ok").and_wait(&latch)]);
    let mut config = agent_core::AgentLoopConfig::system(std::sync::Arc::new(model), crate::room::priced());
    config.services.budget = Some(budget.clone());
    let mut context = agent_core::AgentContext::new("");
    let (tx, _rx) = agent_core::event_channel();
    {
        let cancel = CancellationToken::new();
        let mut going =
            std::pin::pin!(agent_core::agent_loop(vec!["go".into()], &mut context, &config, tx, cancel));
        tokio::select! {
            _ = &mut going => panic!("it waits"),
            () = latch.reached() => {}
        }
        assert!(budget.reserved().tokens > 0);
    }
    assert_eq!((budget.reserved(), budget.spent().model_calls), (Spending::default(), 1));
}

#[tokio::test]
async fn calls_of_tools_are_counted_when_they_run_and_not_when_they_are_refused() {
    let budget = Budget::new(none().with_tool_calls(10));
    let calls = ScriptedReply::new()
        .and_call("a", "look", json!({}))
        .and_call("b", "nobody", json!({}))
        .and_call("c", "look", json!({}));
    let (agent, _) = agent([calls, reply(1, 1)], &budget);
    let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
    run(&agent, "go").await;
    assert_eq!((budget.spent().tool_calls, budget.spent().model_calls), (2, 2));
}

#[derive(Debug)]
struct Asking {
    reports: bool,
    through_the_run: bool,
    own: agent_core::testing::ScriptedProvider,
}

#[async_trait::async_trait]
impl CompactionStrategy for Asking {
    async fn compact(
        &self,
        history: &History,
        _: &ContextConfig,
        cx: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError> {
        let mut asked = History::new();
        asked.push("shorten".into()).unwrap();
        let request = ModelRequest::new(cx.model.clone().unwrap(), asked);
        let own: std::sync::Arc<dyn agent_core::StreamProvider> = std::sync::Arc::new(self.own.clone());
        let provider = if self.through_the_run { cx.provider.clone().unwrap() } else { own };
        let reply = complete(&*provider, &request, &CancellationToken::new()).await.unwrap();
        let last = history.entries().last().unwrap().shared().clone();
        let outcome = CompactionOutcome::messages([last]);
        Ok(if self.reports { outcome.with_usage(reply.usage) } else { outcome })
    }
}

/// X4: what a compaction asks of a model is counted once, whether it goes through the run's provider, reports what it used, or
/// does both.
#[tokio::test]
async fn a_compaction_that_asks_a_model_is_counted_once() {
    for (reports, through_the_run) in [(true, true), (false, true), (true, false)] {
        let budget = Budget::new(none().with_money(money("1")));
        let own = agent_core::testing::ScriptedProvider::new([reply(300, 30)]);
        let mut script = vec![reply(10, 1)];
        if through_the_run {
            script.push(reply(300, 30));
        }
        script.push(reply(10, 1));
        let (agent, _) = agent(script, &budget);
        let agent = agent
            .with_context_config(
                ContextConfig::default().with_max_context_tokens(400).with_system_prompt_tokens(0),
            )
            .with_compaction_strategy(Asking { reports, through_the_run, own });
        run(&agent, &"x".repeat(1_000)).await;
        let events = run(&agent, &"y".repeat(1_000)).await;
        assert!(transcript(&events).contains("compact+ compact- reserved"), "{}", transcript(&events));
        let case = format!("reports {reports}, through the run {through_the_run}");
        assert_eq!((budget.spent().tokens, budget.spent().model_calls), (11 + 330 + 11, 3), "{case}");
        let cost = Spending::of_usage(&Usage::new(320, 32, 0, 0), &prices()).money;
        assert_eq!(budget.spent().money, cost, "{case}");
    }
}

/// The provider can have begun to work on the prompt of a compaction, too.
#[tokio::test]
async fn a_compaction_that_is_aborted_before_the_first_piece_of_its_call_is_counted_by_its_prompt() {
    let budget = Budget::new(none().with_money(money("1")));
    let latch = Latch::new();
    let own = agent_core::testing::ScriptedProvider::new([reply(1, 1)]);
    let (agent, _) = agent([reply(10, 1)], &budget);
    let context = ContextConfig::default().with_max_context_tokens(400).with_system_prompt_tokens(0);
    let agent = agent.with_context_config(context).with_compaction_strategy(Asking {
        reports: false,
        through_the_run: true,
        own,
    });
    run(&agent, &"x".repeat(1_000)).await;
    assert_eq!((budget.spent().tokens, budget.spent().model_calls), (11, 1));
    let agent = agent.with_provider(Silent(latch.clone()));
    let events = agent.prompt("y".repeat(1_000)).unwrap();
    within(latch.reached()).await;
    agent.abort();
    within(events.collect()).await;
    assert_eq!((budget.reserved(), budget.spent().model_calls), (Spending::default(), 2));
    assert!(budget.spent().tokens > 11, "{:?}", budget.spent());
}

/// X4: the time of a budget is that in which runs go on.
#[tokio::test]
async fn time_is_that_of_the_runs_clock_while_a_run_goes_on() {
    let env = agent_core::testing::ManualEnvironment::at(1_000);
    let budget = Budget::new(none().with_time(Duration::from_secs(60)));
    let clock = env.clone();
    let slow = ScriptedTool::new("slow", move |_, _| {
        clock.advance(Duration::from_secs(40));
        async { Ok(agent_core::ToolResult::text("x")) }
    });
    let call = |id: &str| ScriptedReply::call(id, "slow", json!({}));
    let (agent, model) = agent([call("a"), reply(1, 1), call("b"), reply(1, 1)], &budget);
    let agent = agent.with_tool(slow).with_environment(std::sync::Arc::new(env.clone()));
    run(&agent, "go").await;
    assert_eq!(budget.spent().time_ms, 40_000);
    env.advance(Duration::from_secs(9_000));
    let events = run(&agent, "again").await;
    assert_eq!(model.requests().len(), 3, "{}", transcript(&events));
    assert_eq!(
        crate::room::refused(&agent).await,
        "the budget of 60.0 s in time is used up: 80.0 s is spent"
    );
    let last = agent.messages().last().unwrap().text();
    assert!(last.starts_with("[Agent stopped: the budget of 60.0 s"), "{last}");
}
