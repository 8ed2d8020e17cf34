//! Replies that the vendor pauses and a further request in the same turn continues.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, assert_well_formed, transcript};
use agent_core::{
    AgentEvent, ApiProtocol, ErrorKind, History, ModelConfig, Route, RunEnd, StopCause, StopReason, Usage,
};

use runs::{agent, said, within};

fn paused(text: &str) -> ScriptedReply {
    ScriptedReply::text(text).stopping(StopReason::Paused)
}

fn used(output: u64) -> Usage {
    Usage::new(10, output, 0, 0)
}

/// The roles of the messages of each request.
fn roles(model: &ScriptedProvider) -> Vec<String> {
    let initials = |history: &History| history.messages().map(|m| &m.role()[..1]).collect();
    model.requests().iter().map(|request| initials(&request.history)).collect()
}

#[tokio::test]
async fn a_paused_reply_is_continued_in_its_turn_without_a_message_of_the_user() {
    let (agent, model) = agent([
        paused("One ").using(used(1)),
        paused("two ").using(used(2)),
        ScriptedReply::text("three.").using(used(4)),
        ScriptedReply::text("Nothing."),
    ]);
    agent.follow_up("And then?");
    let events = within(agent.prompt("Count.").unwrap().collect()).await;
    assert_well_formed(&events);
    assert_eq!(roles(&model), ["u", "ua", "uaa", "uaaau"]);
    let turns: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::TurnEnd { usage, .. } => Some(usage.output),
            _ => None,
        })
        .collect();
    assert_eq!(turns[0], 7, "the turn has the tokens of all its requests");
    assert_eq!(turns.len(), 2);
    insta::assert_snapshot!(transcript(&events));
}

#[tokio::test]
async fn the_answer_is_the_text_of_all_parts() {
    let (agent, model) = agent([paused("{\"number\":"), ScriptedReply::text(" 42}")]);
    let reply = within(agent.prompt("How many?").unwrap().end()).await.into_reply().unwrap();
    assert_eq!(reply.text(), "{\"number\": 42}");
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Count {
        number: u32,
    }
    model.push(paused("{\"number\":"));
    model.push(" 43}");
    let request = agent.request("How many?").typed::<Count>();
    let count = within(request.start().unwrap().answer()).await.unwrap();
    assert_eq!(count.number, 43);
}

#[tokio::test]
async fn a_turn_that_is_always_paused_ends_at_the_limit_and_a_later_run_continues_it() {
    let (agent, model) = agent((0..8).map(|_| paused("more ")));
    let agent = agent.configure(|config| config.policy.max_continuations = 3);
    let end = within(agent.prompt("Go.").unwrap().end()).await;
    let RunEnd::Stopped(StopCause::Limit { reason }) = end else { panic!("{end:?}") };
    assert_eq!(reason, "max continuations of a paused turn exceeded (3)");
    assert_eq!(roles(&model), ["u", "ua", "uaa", "uaaa"]);

    let _ = within(agent.continue_run().unwrap().end()).await;
    assert_eq!(roles(&model)[4..], ["uaaaa", "uaaaaa", "uaaaaaa", "uaaaaaaa"]);
}

#[tokio::test]
async fn a_failed_continuation_is_retried_and_its_failure_leaves_the_paused_reply() {
    let (agent, model) = agent([
        paused("half "),
        ScriptedReply::error(ErrorKind::Network, "cut"),
        ScriptedReply::text("whole"),
        paused("first "),
        ScriptedReply::error(ErrorKind::Auth, "no key"),
    ]);
    let agent = agent.configure(|config| config.policy.retry.initial_delay_ms = 1);
    let reply = within(agent.prompt("Go.").unwrap().end()).await.into_reply().unwrap();
    assert_eq!(reply.text(), "half whole");
    assert_eq!(roles(&model), ["u", "ua", "ua"]);

    assert!(matches!(within(agent.prompt("Again.").unwrap().end()).await, RunEnd::Failed(_)));
    model.push("second");
    let end = within(agent.continue_run().unwrap().end()).await;
    assert_eq!(end.into_reply().unwrap().text(), "second");
    let last =
        model.requests().last().unwrap().history.paused_reply().map(agent_core::AssistantMessage::text);
    assert_eq!(last.as_deref(), Some("first "));
}

#[tokio::test]
async fn a_model_that_did_not_write_the_paused_reply_is_asked_to_continue() {
    let (agent, model) =
        agent([paused("One "), ScriptedReply::error(ErrorKind::Auth, "no key"), ScriptedReply::text("two.")]);
    let other = ModelConfig::new(ApiProtocol::OpenAiCompletions, "other", "other");
    let agent = agent.with_route(Route::new(other));
    let reply = within(agent.prompt("Count.").unwrap().end()).await.into_reply().unwrap();
    assert_eq!(reply.text(), "One two.");
    assert_eq!(roles(&model), ["u", "ua", "uau"]);
    let asked = model.requests().last().unwrap().history.last().unwrap().text();
    assert_eq!(asked, "[Your last reply was cut off. Continue where it ends.]");
    assert_eq!(said(&agent), "user(Count.) assistant(One ) assistant(two.)");
}

#[tokio::test]
async fn a_steering_message_waits_until_the_paused_turn_is_complete() {
    let latch = Latch::new();
    let rest = ScriptedReply::new().and_wait(&latch).and_text("two.");
    let (agent, model) = agent([paused("One "), rest, ScriptedReply::text("Three.")]);
    let mut events = agent.prompt("Count.").unwrap();
    while let Some(event) = within(events.recv()).await {
        if matches!(event, AgentEvent::TurnContinued { .. }) {
            agent.steer("And three?");
            latch.open();
        }
    }
    assert_eq!(roles(&model), ["u", "ua", "uaau"]);
}
