//! A failed call is made again.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::time::Duration;

use agent_core::testing::{ManualEnvironment, ScriptedReply, assert_well_formed, transcript};
use agent_core::{
    AgentEvent, Environment, ErrorKind, Message, RetryConfig, RetryNote, RunEnd, RunFailure, StopReason,
};

use crate::room::{agent, agent_in, model, run};

fn gone() -> ScriptedReply {
    ScriptedReply::error(ErrorKind::Network, "gone")
}

fn notes(events: &[AgentEvent]) -> Vec<(bool, RetryNote)> {
    let notes = events.iter().filter_map(|e| match e {
        AgentEvent::RetryStart(note) => Some((true, (**note).clone())),
        AgentEvent::RetryEnd(note) => Some((false, (**note).clone())),
        _ => None,
    });
    notes.collect()
}

/// B-162, REQ-074.
#[tokio::test]
async fn a_failed_call_is_made_again_after_growing_waits_and_leaves_no_trace_for_the_model() {
    let model = model([gone(), ScriptedReply::error(ErrorKind::RateLimited, "slow down"), "hello".into()]);
    let env = ManualEnvironment::skipping(0);
    let agent = agent_in(&model, &env);
    let events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user retry+1 retry-!1 retry+2 retry-2 assistant(hello) turn_end agent_end(completed)"
    );
    let notes = notes(&events);
    let waits: Vec<u64> = notes.iter().filter(|(start, _)| *start).map(|(_, n)| n.delay_ms).collect();
    assert!((800..=1_200).contains(&waits[0]) && (1_600..=2_400).contains(&waits[1]), "{waits:?}");
    assert_eq!(env.now().0, waits.iter().sum::<u64>(), "the waits were waited");
    assert!(notes.iter().all(|(_, n)| n.max_attempts == 3));
    assert!(notes[0].1.error.as_ref().unwrap().contains("gone"));
    assert!(notes[1].1.error.as_ref().unwrap().contains("slow down"));
    assert_eq!(notes[3].1.error, None);
    assert_eq!(agent.history().llm_messages().map(Message::role).collect::<Vec<_>>(), ["user", "assistant"]);
    assert_eq!(agent.error_message(), None);
}

/// B-162.
#[tokio::test]
async fn a_reply_that_broke_off_is_closed_as_superseded_and_enters_nothing() {
    let model = model([ScriptedReply::text("hel").failing(ErrorKind::Network, "cut"), "hello".into()]);
    let agent = agent(&model);
    let events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user retry+1 assistant!(hel)~ retry-1 assistant(hello) turn_end agent_end(completed)"
    );
    let attempts: Vec<u32> = events
        .iter()
        .filter_map(|e| match e {
            AgentEvent::MessageUpdate { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [0, 1]);
    assert_eq!(agent.history().len(), 2);
    assert!(agent.history().llm_messages().all(|m| !m.text().contains("hel") || m.text() == "hello"));
}

/// B-162, REQ-074.
#[tokio::test]
async fn the_wait_that_a_provider_asks_for_wins() {
    let model = model([gone().retry_after(Duration::from_millis(7_250)), "hello".into()]);
    let env = ManualEnvironment::skipping(0);
    let events = run(&agent_in(&model, &env)).await;
    assert_eq!(notes(&events)[0].1.delay_ms, 7_250);
    assert_eq!(env.now().0, 7_250);
}

/// B-165.
#[tokio::test]
async fn a_wait_longer_than_allowed_fails_at_once_and_names_it() {
    let model = model([
        gone().retry_after(Duration::from_secs(90)),
        gone().retry_after(Duration::from_secs(90)),
        "hello".into(),
    ]);
    let env = ManualEnvironment::skipping(0);
    let agent = agent_in(&model, &env);
    let events = run(&agent).await;
    assert_eq!(transcript(&events), "agent_start turn_start user assistant!() turn_end agent_end(error)");
    let error = agent.error_message().unwrap();
    assert!(
        error.contains("asks to wait 90 s, longer than the 60 s") && error.contains("max_retry_delay_ms"),
        "{error}"
    );
    assert_eq!((env.now().0, model.requests().len()), (0, 1));

    let unbounded = RetryConfig::default().with_max_retry_delay(Duration::ZERO);
    let agent = agent.with_retry_config(unbounded);
    assert_eq!(agent.chat("again").await.unwrap(), "hello");
    assert_eq!(env.now().0, 90_000);
}

/// B-166, REQ-083.
#[tokio::test]
async fn when_the_retries_are_used_up_one_error_remains_and_every_start_has_its_end() {
    let model = model([gone(), gone(), gone()]);
    let agent = agent(&model).with_retry_config(RetryConfig::default().with_max_retries(2));
    let events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user retry+1 retry-!1 retry+2 retry-!2 assistant!() turn_end agent_end(error)"
    );
    let (starts, ends): (Vec<_>, Vec<_>) = notes(&events).into_iter().partition(|(start, _)| *start);
    let shape = |list: Vec<(bool, RetryNote)>| {
        list.into_iter().map(|(_, n)| (n.attempt, n.delay_ms)).collect::<Vec<_>>()
    };
    assert_eq!(shape(starts), shape(ends));
    let failed: Vec<_> = agent.history().messages().filter(|m| m.role() == "assistant").cloned().collect();
    assert_eq!(failed.len(), 1);
    let reply = failed[0].as_llm().and_then(Message::as_assistant).unwrap();
    assert!(reply.content.is_empty() && reply.stop_reason == StopReason::Error);
    assert!(reply.error_message.as_ref().unwrap().contains("gave up after 3 attempts"));
}

/// REQ-074.
#[tokio::test]
async fn what_waiting_cannot_help_is_not_tried_again() {
    for kind in
        [ErrorKind::Quota, ErrorKind::Auth, ErrorKind::Api, ErrorKind::ModelNotFound, ErrorKind::Other]
    {
        let model = model([ScriptedReply::error(kind, "no")]);
        let agent = agent(&model);
        let events = run(&agent).await;
        assert!(notes(&events).is_empty());
        let Some(RunEnd::Failed(RunFailure::Model { kind: told, .. })) = agent.finish().await else {
            panic!()
        };
        assert_eq!(told, kind);
    }
}

/// REQ-074.
#[tokio::test]
async fn an_abort_ends_the_wait_and_no_further_call_is_made() {
    let env = ManualEnvironment::at(0);
    let model = model([gone(), "never".into()]);
    let agent = agent_in(&model, &env);
    let events = agent.prompt("go").unwrap();
    env.sleeps_begun(1).await;
    agent.abort();
    let events = events.collect().await;
    assert_well_formed(&events);
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user retry+1 retry-!1 assistant!() turn_end agent_end(aborted)"
    );
    assert_eq!(model.requests().len(), 1);
}

/// The waits of a run are its own and the same each time.
#[tokio::test]
async fn the_same_loop_waits_the_same_and_others_wait_otherwise() {
    let mut waits = Vec::new();
    for session in ["one", "one", "two"] {
        let model = model([gone(), "hello".into()]);
        let events = run(&agent(&model).with_session_id(session)).await;
        waits.push(notes(&events)[0].1.delay_ms);
    }
    assert_eq!(waits[0], waits[1]);
    assert_ne!(waits[0], waits[2]);
}
