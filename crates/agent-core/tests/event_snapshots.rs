//! The JSON of the events of typical runs, as a subscriber writes it to a wire. The snapshots show a change of form in review.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use std::sync::Arc;

use agent_core::compat::SeedSetters as _;
use agent_core::provider::ErrorKind;
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentEvent, Answer, BasicAgent, ExecutionLimits, ModelConfig, RunEnd, ToolResult};
use serde_json::json;

/// An agent with fixed ids, whose clock stands at 1000 and jumps over waits.
fn agent(replies: impl IntoIterator<Item = ScriptedReply>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_agent_id("a")
        .with_session_id("s")
        .with_environment(Arc::new(ManualEnvironment::skipping(1_000)))
}

/// One line for each event, without the messages of the end, which the events before it have.
fn lines(events: &[AgentEvent]) -> String {
    let lines = events.iter().map(|event| {
        let mut value = serde_json::to_value(event).unwrap();
        if let Some(messages) = value.get_mut("messages") {
            *messages = json!(format!("{} messages", messages.as_array().map_or(0, Vec::len)));
        }
        value.to_string()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_run_that_asks_and_continues_with_the_answer_has_these_events() {
    let call = ScriptedReply::call("c1", "deploy", json!({"to": "production"}));
    let agent = agent([call, ScriptedReply::text("Done.")])
        .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy to production?"));
    let mut events = agent.prompt("Deploy.").unwrap().collect().await;
    let question = agent.questions().remove(0);
    events.extend(agent.answer(question.id, Answer::Allow).unwrap().collect().await);
    insta::assert_snapshot!(lines(&events));
}

#[tokio::test]
async fn a_run_whose_model_fails_once_has_these_events() {
    let agent = agent([
        ScriptedReply::text("I beg").failing(ErrorKind::Network, "the connection was cut"),
        ScriptedReply::text("I begin again."),
    ]);
    insta::assert_snapshot!(lines(&agent.prompt("Go.").unwrap().collect().await));
}

#[tokio::test]
async fn a_run_whose_key_is_wrong_has_these_events() {
    let agent = agent([ScriptedReply::error(ErrorKind::Auth, "the key is wrong")]);
    insta::assert_snapshot!(lines(&agent.prompt("Go.").unwrap().collect().await));
}

#[tokio::test]
async fn an_aborted_run_has_these_events() {
    let agent = agent([ScriptedReply::text("I begin").and_hang()]);
    let mut receiver = agent.prompt("Go.").unwrap();
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        if event.text_delta().is_some() {
            agent.abort();
        }
        events.push(event);
    }
    assert!(matches!(receiver.end().await, RunEnd::Aborted));
    insta::assert_snapshot!(lines(&events));
}

#[tokio::test]
async fn a_run_that_a_limit_stops_has_these_events() {
    let agent = agent([ScriptedReply::call("c1", "look", json!({}))])
        .with_limits(ExecutionLimits::default().with_max_turns(1))
        .with_tool(ScriptedTool::saying("look", "a door"));
    insta::assert_snapshot!(lines(&agent.prompt("Go.").unwrap().collect().await));
}

#[tokio::test]
async fn a_run_with_a_follow_up_and_progress_of_a_tool_has_these_events() {
    let agent = agent([
        ScriptedReply::call("c1", "dig", json!({})),
        ScriptedReply::text("Dug."),
        ScriptedReply::text("Filled."),
    ])
    .with_tool(ScriptedTool::new("dig", |_, cx| async move {
        cx.on_progress("half");
        cx.on_update(ToolResult::text("a hole"));
        Ok(ToolResult::text("a deep hole"))
    }));
    agent.follow_up("Fill it.");
    insta::assert_snapshot!(lines(&agent.prompt("Dig.").unwrap().collect().await));
}
