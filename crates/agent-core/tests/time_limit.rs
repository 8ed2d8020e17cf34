//! The maximum duration of a run: what counts, and what it ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "time_limit/clocks.rs"]
mod clocks;
#[path = "support/runs.rs"]
mod runs;
#[cfg(unix)]
#[path = "time_limit/stopped.rs"]
mod stopped;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use agent_core::hooks::Hooks;
use agent_core::provider::ErrorKind;
use agent_core::run::GRACE;
use agent_core::testing::{
    Latch, ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed,
};
use agent_core::{
    AgentEvent, Answer, BasicAgent, Ended, ExecutionLimits, ModelConfig, RunEnd, ToolResult, Usage, Verdict,
};
use serde_json::json;

const MAX: Duration = Duration::from_secs(30);

fn limited(model: ScriptedProvider) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(model)
        .with_limits(ExecutionLimits::unlimited().with_max_duration(MAX))
}

fn call() -> ScriptedReply {
    ScriptedReply::text("Look.").and_call("c1", "work", json!({}))
}

/// Runs a prompt on the paused clock and checks that the limit ends it on time.
async fn ends_on_time(name: &str, agent: BasicAgent, grace: Duration) -> Vec<AgentEvent> {
    let begun = tokio::time::Instant::now();
    let events = tokio::time::timeout(MAX * 20, agent.prompt("Hi").unwrap().collect()).await;
    let events = events.unwrap_or_else(|_| panic!("{name}: the run did not end"));
    let took = begun.elapsed();
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{name}: no end") };
    assert_eq!(end.ended, Ended::Limit { reason: "max duration exceeded".into() }, "{name}");
    assert!(
        took >= MAX - Duration::from_millis(50) && took <= MAX + grace + Duration::from_secs(1),
        "{name}: {took:?}"
    );
    assert_well_formed(&events);
    assert!(!agent.is_streaming(), "{name}");
    events
}

/// REQ-061, REQ-062.
#[tokio::test(start_paused = true)]
async fn the_limit_ends_a_model_call_and_retains_what_arrived() {
    let latch = Latch::new();
    let model = ScriptedProvider::new([ScriptedReply::text("half").and_wait(&latch).and_text("whole")]);
    let events = ends_on_time("a model call", limited(model), Duration::ZERO).await;
    assert!(agent_core::testing::transcript(&events).contains("assistant!(half)"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn the_limit_ends_a_tool_after_its_grace_period() {
    let deaf = ScriptedTool::new("work", |_, _| async { pending().await });
    let model = ScriptedProvider::new([call(), "never".into()]);
    ends_on_time("a tool that ignores its token", limited(model).with_tool(deaf), GRACE).await;

    let polite = ScriptedTool::new("work", |_, ctx| async move {
        ctx.cancel.cancelled().await;
        Ok(ToolResult::text("half of it"))
    });
    let model = ScriptedProvider::new([call(), "never".into()]);
    let events =
        ends_on_time("a tool that heeds its token", limited(model).with_tool(polite), Duration::ZERO).await;
    assert!(format!("{events:?}").contains("half of it"));
}

#[tokio::test(start_paused = true)]
async fn the_limit_ends_hooks_delays_and_listeners() {
    let slow =
        ScriptedProvider::responding(|_| ScriptedReply::new().failing(ErrorKind::RateLimited, "later"));
    let agent = limited(slow).configure(|c| c.policy.retry.max_retries = 1_000);
    ends_on_time("retries", agent, Duration::ZERO).await;

    let hooks = Hooks::new().before_tool(|_| async { pending::<Verdict>().await });
    let model = ScriptedProvider::new([call(), "never".into()]);
    let tool = ScriptedTool::new("work", |_, _| async { Ok(ToolResult::text("done")) });
    ends_on_time("a hook", limited(model).with_tool(tool).with_hooks(hooks), Duration::ZERO).await;

    let agent = limited(ScriptedProvider::texts(["Hello."]));
    let _listening = agent.subscribe_async(|event| async move {
        if matches!(event, AgentEvent::TurnStart { .. }) {
            pending::<()>().await;
        }
    });
    ends_on_time("a listener", agent, GRACE).await;
}

/// An agent on a clock of its own that asks before its tool.
fn asking(environment: &ManualEnvironment, replies: impl IntoIterator<Item = ScriptedReply>) -> BasicAgent {
    let model = ScriptedProvider::new(replies);
    let tool = ScriptedTool::new("work", |_, _| async { Ok(ToolResult::text("done")) });
    let hooks = Hooks::new().before_tool(|_| async { Verdict::Ask("May it?".into()) });
    let environment = Arc::new(environment.clone());
    BasicAgent::new(ModelConfig::default())
        .with_provider(model)
        .with_tool(tool)
        .with_hooks(hooks)
        .configure(|c| c.services.environment = environment)
}

/// With the default limits, 600 seconds among them.
#[tokio::test]
async fn waiting_for_an_answer_does_not_count() {
    for wait in [11 * 60, 3 * 24 * 60 * 60].map(Duration::from_secs) {
        // The same process answers.
        let environment = ManualEnvironment::at(1_000);
        let agent = asking(&environment, [call(), "done".into()]);
        let RunEnd::Suspended(questions) = agent.prompt("Hi").unwrap().end().await else {
            panic!("no question")
        };
        environment.advance(wait);
        let end = agent.answer(questions[0].id.clone(), Answer::Allow).unwrap().end().await;
        assert!(matches!(end, RunEnd::Completed(_)), "{wait:?}: {end:?}");

        // Another process answers, with a run that it read.
        let environment = ManualEnvironment::at(1_000);
        let agent = asking(&environment, [call(), "done".into()]);
        let RunEnd::Suspended(questions) = agent.prompt("Hi").unwrap().end().await else {
            panic!("no question")
        };
        let snapshot = serde_json::to_string(&agent.snapshot()).unwrap();
        environment.advance(wait);
        let other =
            asking(&environment, ["done".into()]).restore(serde_json::from_str(&snapshot).unwrap()).unwrap();
        let end = other.answer(questions[0].id.clone(), Answer::Allow).unwrap().end().await;
        assert!(matches!(end, RunEnd::Completed(_)), "{wait:?}, elsewhere: {end:?}");
    }
}

/// The time before and after the question counts as before.
#[tokio::test]
async fn the_time_before_the_question_still_counts_after_it() {
    let environment = ManualEnvironment::at(0);
    let agent = asking(&environment, [call(), "done".into()])
        .with_limits(ExecutionLimits::unlimited().with_max_duration(MAX));
    let clock = environment.clone();
    let _listening = agent.subscribe(move |event| {
        if matches!(event, AgentEvent::TurnStart { .. }) {
            clock.advance(Duration::from_secs(20));
        }
    });
    let RunEnd::Suspended(questions) = agent.prompt("Hi").unwrap().end().await else { panic!("no question") };
    let run = agent.snapshot().suspended.unwrap();
    environment.advance(Duration::from_secs(3_600));
    assert_eq!(run.time_left(agent_core::Timestamp(3_620_000)), Some(Duration::from_secs(10)));
    let end = agent.answer(questions[0].id.clone(), Answer::Allow).unwrap().end().await;
    // 20 seconds before the question, and 20 at the start of the second turn.
    assert!(matches!(end, RunEnd::Stopped(_)), "{end:?}");
}

/// 41 turns of 20,000 cached tokens are below a limit of 200,000.
#[tokio::test]
async fn tokens_that_a_cache_served_do_not_count() {
    let turns = std::sync::atomic::AtomicUsize::new(0);
    let model = ScriptedProvider::responding(move |_| {
        let n = turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let reply = if n < 40 {
            ScriptedReply::new().and_call(&format!("c{n}"), "work", json!({"n": n}))
        } else {
            "done".into()
        };
        reply.using(Usage::new(100, 10, 20_000, 0))
    });
    let tool = ScriptedTool::new("work", |_, _| async { Ok(ToolResult::text("done")) });
    let limits = ExecutionLimits::unlimited().with_max_total_tokens(200_000);
    let agent =
        BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(tool).with_limits(limits);
    let end = agent.prompt("Hi").unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
}

/// REQ-061.
#[tokio::test]
async fn tokens_that_are_written_to_a_cache_count() {
    let reply = |id| ScriptedReply::call(id, "work", json!({})).using(Usage::new(100, 10, 20_000, 9_890));
    let model = ScriptedProvider::new([reply("c1"), reply("c2"), reply("c3")]);
    let tool = ScriptedTool::new("work", |_, _| async { Ok(ToolResult::text("done")) });
    let limits = ExecutionLimits::unlimited().with_max_total_tokens(20_000);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(model.clone())
        .with_tool(tool)
        .with_limits(limits);
    let end = agent.prompt("Hi").unwrap().end().await;
    assert!(matches!(end, RunEnd::Stopped(_)), "{end:?}");
    assert_eq!(model.requests().len(), 2, "each turn counts 10,000");
}
