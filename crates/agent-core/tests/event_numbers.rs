//! The numbers of events over whole runs, and in groups of branches.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use agent_core::compat::SeedSetters as _;
use agent_core::event::{EventId, NumberedEvent};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, Answer, BasicAgent, BranchSpec, ErrorKind, EventSender, LlmJudgeEvaluation, ModelConfig,
    RetryConfig, RunEnd,
};
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

fn agent(replies: impl IntoIterator<Item = ScriptedReply>) -> BasicAgent {
    let quick = Duration::from_millis(1);
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_session_id("s-1")
        .with_retry_config(RetryConfig::default().with_delays(quick, quick))
        .with_tool(ScriptedTool::saying("say", "said"))
        .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy?"))
}

/// Asserts that the recorded events of each loop are numbered from 1 without gaps, that live ones have the number of the
/// event before them, and returns the number of recorded events of each loop.
fn numbers(events: &[NumberedEvent]) -> BTreeMap<String, u64> {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for event in events {
        let number = last.entry(event.event.loop_id().to_string()).or_default();
        *number += u64::from(!event.is_live());
        assert_eq!(event.number, *number, "{:?}", event.event);
    }
    last
}

/// A retried and superseded reply, tools, live events, a question, a suspension, an answer and a second run.
#[tokio::test]
async fn a_run_is_numbered_without_gaps_through_retries_tools_and_a_suspension() {
    let agent = agent([
        ScriptedReply::text("hel").failing(ErrorKind::Network, "cut"),
        ScriptedReply::text("one moment").in_pieces_of(3).and_call("c1", "say", json!({})),
        ScriptedReply::call("c2", "deploy", json!({})),
        ScriptedReply::text("Done.").in_pieces_of(2),
        ScriptedReply::text("Again."),
    ]);
    let mut events = agent.prompt("go").unwrap().collect_numbered().await;
    let Some(AgentEvent::RunSuspended { questions, .. }) = events.last().map(|e| &e.event) else { panic!() };
    let suspended_at = events.last().unwrap().number;
    let rest = agent.answer(questions[0].id.clone(), Answer::Allow).unwrap().collect_numbered().await;
    assert_eq!(rest[0].number, suspended_at + 1, "the answer continues the numbers");
    assert!(matches!(rest.last().unwrap().event, AgentEvent::AgentEnd(_)));
    events.extend(rest);
    assert!(events.iter().any(|e| matches!(e.event, AgentEvent::RetryStart(_))));
    let live = events.iter().filter(|e| e.is_live()).count();
    assert!(live > 5, "{live}");
    let first = events[0].event.loop_id().to_string();
    events.extend(agent.prompt("again").unwrap().collect_numbered().await);
    let counts = numbers(&events);
    assert_eq!(counts.len(), 2, "the second run has numbers of its own");
    assert_eq!(events[0].id(), EventId { loop_id: first.into(), number: 1 });
    assert!(events.iter().all(|e| e.depth == 0));
}

/// Awaited listeners take another way through the delivery.
#[tokio::test]
async fn awaited_listeners_and_an_abort_do_not_change_the_numbers() {
    let agent =
        agent([ScriptedReply::call("c1", "say", json!({})), ScriptedReply::text("a").in_pieces_of(1)]);
    let _listening = agent.subscribe_async(|_| async { tokio::task::yield_now().await });
    let handle = agent.handle();
    let mut events = agent.prompt("go").unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.recv_numbered().await {
        if matches!(event.event, AgentEvent::ToolExecutionEnd(_)) {
            handle.abort();
        }
        seen.push(event);
    }
    assert!(matches!(events.end().await, RunEnd::Aborted));
    numbers(&seen);
}

/// The run of a dropped task ends with numbers that continue.
#[tokio::test]
async fn an_interrupted_run_ends_with_the_next_number() {
    use agent_core::{AgentContext, AgentLoopConfig, CancellationToken, agent_loop, event_channel};
    let model = std::sync::Arc::new(ScriptedProvider::new([ScriptedReply::text("half").and_hang()]));
    let config = AgentLoopConfig::system(model, ModelConfig::default());
    let mut context = AgentContext::new("");
    let (tx, mut rx) = event_channel();
    let mut seen = Vec::new();
    {
        let run = agent_loop(vec!["go".into()], &mut context, &config, tx, CancellationToken::new());
        tokio::pin!(run);
        loop {
            tokio::select! {
                biased;
                _ = &mut run => panic!("it hangs"),
                event = rx.recv_numbered() => {
                    let event = event.unwrap();
                    let live = event.is_live();
                    seen.push(event);
                    if live {
                        break;
                    }
                }
            }
        }
    }
    seen.extend(rx.collect_numbered().await);
    assert!(matches!(seen.last().unwrap().event, AgentEvent::AgentEnd(_)));
    numbers(&seen);
}

/// The events of a group have the numbers 1 and 2 under the id of the group, and each of its loops has its own.
#[tokio::test]
async fn a_group_and_its_loops_have_numbers_of_their_own() {
    let piece = |text: &str| ScriptedReply::text(text).in_pieces_of(1);
    let agent = agent([piece("first"), piece("one"), piece("two")]);
    agent.chat("go").await.unwrap();
    let branch = || BranchSpec::asking("on");
    let judge = LlmJudgeEvaluation::new(agent_core::AgentLoopConfig::system(
        std::sync::Arc::new(ScriptedProvider::texts(["2"])),
        ModelConfig::default(),
    ));
    let (tx, mut rx) = unbounded_channel();
    agent.explore_and_adopt([branch(), branch()], judge, EventSender::numbered(tx)).await.unwrap();
    let events: Vec<NumberedEvent> = std::iter::from_fn(|| rx.try_recv().ok()).collect();
    let counts = numbers(&events);
    let (start, end) = (&events[0], events.last().unwrap());
    assert!(matches!(start.event, AgentEvent::ParallelLoopStart(_)));
    assert!(matches!(end.event, AgentEvent::ParallelLoopEnd(_)));
    assert_eq!((start.number, end.number), (1, 2));
    assert_eq!(start.event.loop_id(), end.event.loop_id());
    assert_eq!(counts.len(), 4, "the group, two branches and the judge: {counts:?}");
    for event in &events {
        assert_eq!(event.depth, 0);
        if let AgentEvent::AgentStart(own) = &event.event {
            assert_eq!(event.parent_loop_id, own.parent_loop_id);
        }
    }
    assert!(start.parent_loop_id.is_some());
}
