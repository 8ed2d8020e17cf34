//! Execution limits as the loop keeps them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use agent_core::compat::SeedSetters as _;
use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{
    ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript,
};
use agent_core::{
    AgentEvent, BasicAgent, Ended, ExecutionLimits, ExecutionTracker, ModelConfig, RunEnd, StopCause,
    Timestamp, ToolResult, Usage,
};
use serde_json::json;

use runs::{run, said, within};

fn endless() -> (BasicAgent, ScriptedProvider) {
    let model = ScriptedProvider::responding(|request| {
        let id = format!("c{}", request.history.len());
        ScriptedReply::call(&id, "look", json!({})).using(Usage::new(90, 10, 0, 0))
    });
    (BasicAgent::new(ModelConfig::default()).with_provider(model.clone()), model)
}

/// REQ-062, REQ-061.
#[tokio::test]
async fn two_turns_at_most_are_two_calls_and_the_last_message_says_why() {
    let (agent, model) = endless();
    let agent = agent
        .with_tool(ScriptedTool::saying("look", "x"))
        .with_execution_limits(ExecutionLimits::unlimited().with_max_turns(2));
    let events = run(&agent, "Go.").await;
    assert_eq!(model.requests().len(), 2);
    assert_well_formed(&events);
    assert!(transcript(&events).ends_with("turn_end user agent_end(limit)"), "{}", transcript(&events));
    assert_eq!(agent.messages().last().unwrap().text(), "[Agent stopped: max turns exceeded]");
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end") };
    assert_eq!(end.ended, Ended::Limit { reason: "max turns exceeded".into() });
    assert_eq!(end.messages.in_memory().last().unwrap().text(), "[Agent stopped: max turns exceeded]");
    assert_eq!(end.usage.total_tokens, 200);
    let limits = ExecutionLimits::unlimited().with_max_turns(1);
    let mut tracker = ExecutionTracker::new(limits, Timestamp(0));
    assert_eq!(tracker.check_limits(Timestamp(1)), None);
    tracker.record_turn(5);
    assert_eq!(
        tracker.check_limits(Timestamp(1)).map(|l| l.to_string()).as_deref(),
        Some("max turns exceeded")
    );
}

/// REQ-062, REQ-061.
#[tokio::test]
async fn tokens_and_time_are_limited_too() {
    let table = [
        (ExecutionLimits::unlimited().with_max_total_tokens(250), 3, "tokens"),
        (ExecutionLimits::unlimited().with_max_duration(Duration::from_millis(35)), 4, "duration"),
    ];
    for (limits, calls, word) in table {
        let (agent, model) = endless();
        let clock = ManualEnvironment::at(0);
        let ticking = clock.clone();
        let agent = agent.with_environment(Arc::new(clock)).with_execution_limits(limits).with_tool(
            ScriptedTool::new("look", move |_, _| {
                ticking.advance(Duration::from_millis(10));
                async { Ok(ToolResult::text("x")) }
            }),
        );
        let events = run(&agent, "Go.").await;
        assert_eq!(model.requests().len(), calls, "{word}");
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end") };
        let Ended::Limit { reason } = &end.ended else { panic!("{:?}", end.ended) };
        assert!(reason.contains(word), "{reason}");
        assert_eq!(agent.messages().last().unwrap().text(), format!("[Agent stopped: {reason}]"));
    }
}

/// B-007, REQ-062.
#[tokio::test]
async fn a_prompt_is_kept_also_where_the_limit_is_reached_before_its_turn() {
    let (agent, model) = endless();
    let agent = agent.with_execution_limits(ExecutionLimits::unlimited().with_max_turns(0));
    let events = run(&agent, "Go.").await;
    assert!(model.requests().is_empty());
    assert_eq!(transcript(&events), "agent_start user user agent_end(limit)");
    assert_eq!(said(&agent), "user(Go.) user([Agent stopped: max turns exceeded])");
    assert_well_formed(&events);
}

/// REQ-062.
#[tokio::test]
async fn each_run_has_its_limits_to_itself_and_an_agent_goes_on_after_one() {
    let (agent, model) = endless();
    let agent = agent
        .with_tool(ScriptedTool::saying("look", "x"))
        .with_execution_limits(ExecutionLimits::unlimited().with_max_turns(2));
    run(&agent, "Go.").await;
    run(&agent, "On.").await;
    assert_eq!(model.requests().len(), 4);
    assert!(matches!(within(agent.finish()).await, Some(RunEnd::Stopped(StopCause::Limit { .. }))));
    let error = agent.chat("And?").await.unwrap_err().to_string();
    assert!(error.contains("max turns exceeded") && error.contains("with_limits"), "{error}");
}
