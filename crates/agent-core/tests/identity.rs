//! Who says it: agents, sessions, loops, and what opened a turn.
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
use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentStart, BasicAgent, CancellationToken, ContinuationKind,
    History, ModelConfig, SessionOrigin, ThinkingLevel, TurnTrigger, agent_loop, agent_loop_continue,
    event_channel,
};
use serde_json::json;

use runs::{agent, run, within};

fn start(events: &[AgentEvent]) -> AgentStart {
    let Some(AgentEvent::AgentStart(start)) = events.first() else { panic!("no start: {events:?}") };
    (**start).clone()
}

fn triggers(events: &[AgentEvent]) -> Vec<TurnTrigger> {
    let trigger = |e: &AgentEvent| match e {
        AgentEvent::TurnStart { triggered_by, .. } => Some(*triggered_by),
        _ => None,
    };
    events.iter().filter_map(trigger).collect()
}

/// REQ-188, REQ-192.
#[tokio::test]
async fn all_runs_of_an_agent_share_its_id_and_its_session() {
    let (agent, _) = agent(["a", "b", "c"]);
    let mut starts = Vec::new();
    for prompt in ["one", "two"] {
        starts.push(start(&run(&agent, prompt).await));
    }
    agent.steer("three");
    starts.push(start(&within(agent.continue_run().unwrap().collect()).await));
    for start in &starts {
        assert_eq!((&start.agent_id, &start.session_id), (&agent.agent_id(), &agent.session_id()));
    }
    let (other, _) = runs::agent(["x"]);
    assert_ne!(other.agent_id(), agent.agent_id());
    assert_ne!(other.session_id(), agent.session_id());
    let uuid = agent.agent_id().to_string();
    assert_eq!((uuid.len(), uuid.as_bytes()[14]), (36, b'4'), "a UUID version 4: {uuid}");
}

/// REQ-189, REQ-187.
#[tokio::test]
async fn loops_are_counted_for_each_configuration() {
    let model = ScriptedProvider::responding(|_| "ok".into());
    let mut agent = BasicAgent::new(ModelConfig::anthropic("claude-x.1", "X", "k"))
        .with_provider(model)
        .with_session_id("s");
    assert!(agent.last_loop_id().is_none());
    let mut ids = Vec::new();
    for (level, config) in [
        (ThinkingLevel::Off, None),
        (ThinkingLevel::Off, None),
        (ThinkingLevel::High, None),
        (ThinkingLevel::Off, Some("my-config")),
        (ThinkingLevel::Off, None),
        (ThinkingLevel::Off, Some("my-config")),
    ] {
        agent.set_thinking_level(level);
        agent.set_config(|c| c.policy.config_id = config.map(str::to_owned));
        let id = start(&run(&agent, "Hi").await).loop_id;
        assert_eq!(agent.last_loop_id(), Some(id.clone()));
        ids.push(id.to_string());
    }
    assert_eq!(
        ids,
        [
            "s.mock.claude-x-1.1",
            "s.mock.claude-x-1.2",
            "s.mock.claude-x-1.thinking.1",
            "s.my-config.1",
            "s.mock.claude-x-1.3",
            "s.my-config.2",
        ]
    );
}

/// REQ-192, REQ-193, REQ-181.
#[tokio::test]
async fn a_continuation_names_its_parent_and_its_kind_and_opens_its_turns_accordingly() {
    use TurnTrigger::{Branch, Continuation};
    let tag = || "2026-01-01T00:00:00Z".to_owned();
    let table = [
        (ContinuationKind::Default, ContinuationKind::Default, Continuation),
        (ContinuationKind::Initial, ContinuationKind::Default, Continuation),
        (ContinuationKind::Rerun { tag: tag() }, ContinuationKind::Rerun { tag: tag() }, Continuation),
        (ContinuationKind::Branch { tag: tag() }, ContinuationKind::Branch { tag: tag() }, Branch),
        (ContinuationKind::Compaction, ContinuationKind::Compaction, Continuation),
    ];
    for (kind, noted, first) in table {
        let (agent, _) = agent(["a".into(), ScriptedReply::call("c1", "look", json!({})), "b".into()]);
        let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
        let events = run(&agent, "Hi").await;
        let origin = start(&events);
        assert_eq!((origin.parent_loop_id, origin.continuation_kind), (None, None));
        assert_eq!(triggers(&events), [TurnTrigger::User]);

        agent.append_message("More").unwrap();
        let events = within(agent.continue_as(kind).unwrap().collect()).await;
        let next = start(&events);
        assert_eq!((next.parent_loop_id, next.continuation_kind), (Some(origin.loop_id), Some(noted)));
        assert_eq!(triggers(&events), [first, Continuation]);
    }
}

/// REQ-192.
#[tokio::test]
async fn an_empty_tag_becomes_the_time() {
    let (agent, _) = agent(["a"]);
    let agent = agent.with_environment(Arc::new(ManualEnvironment::at(0)));
    agent.append_message("Hi").unwrap();
    let events = agent.continue_as(ContinuationKind::Branch { tag: String::new() }).unwrap();
    let kind = start(&within(events.collect()).await).continuation_kind;
    let Some(ContinuationKind::Branch { tag }) = kind else { panic!("{kind:?}") };
    assert!(tag.starts_with("1970-01-01T00:00:00"), "{tag}");
}

/// REQ-181, REQ-193.
#[tokio::test]
async fn the_first_turn_of_a_first_loop_is_what_the_configuration_says() {
    for trigger in [TurnTrigger::User, TurnTrigger::SubAgent] {
        let model = ScriptedProvider::new([ScriptedReply::call("c1", "gone", json!({})), "ok".into()]);
        let mut config = AgentLoopConfig::system(Arc::new(model), ModelConfig::default());
        config.policy.first_turn_trigger = trigger;
        let (tx, rx) = event_channel();
        let mut context = AgentContext::new("");
        within(agent_loop(vec!["Hi".into()], &mut context, &config, tx, CancellationToken::new()))
            .await
            .unwrap();
        assert_eq!(triggers(&within(rx.collect()).await), [trigger, TurnTrigger::Continuation]);
    }
}

/// REQ-190, REQ-192, REQ-028.
#[tokio::test]
async fn the_loop_takes_the_ids_and_the_kind_from_its_context() {
    let model = ScriptedProvider::texts(["ok"]);
    let config = AgentLoopConfig::system(Arc::new(model), ModelConfig::default());
    let mut context = AgentContext::new("Be kind.")
        .with_history(History::repaired([agent_core::AgentMessage::user("Hi")]).0);
    context.agent_id = Some("a".into());
    context.session_id = Some("s".into());
    context.loop_id = Some("s.m.2".into());
    context.parent_loop_id = Some("s.m.1".into());
    context.continuation_kind = Some(ContinuationKind::Default);
    let (tx, rx) = event_channel();
    within(agent_loop_continue(&mut context, &config, tx, CancellationToken::new())).await.unwrap();
    let start = start(&within(rx.collect()).await);
    assert_eq!((start.agent_id.as_str(), start.session_id.as_str()), ("a", "s"));
    assert_eq!((start.loop_id, start.parent_loop_id), ("s.m.2".into(), Some("s.m.1".into())));
    assert_eq!(start.continuation_kind, Some(ContinuationKind::Default));
    assert_eq!(context.history.len(), 2, "the loop puts the longer conversation into the context");
}

/// REQ-215, REQ-188.
#[tokio::test]
async fn a_new_session_has_a_new_id_and_counts_its_loops_from_one() {
    let (agent, _) = agent(["a", "b", "c"]);
    run(&agent, "one").await;
    let first = start(&run(&agent, "two").await);
    assert!(first.loop_id.as_str().ends_with(".2"));
    let id = agent.new_session();
    assert_eq!(agent.session_id(), id);
    assert_ne!(first.session_id, id);
    assert!(agent.last_loop_id().is_none());
    assert_eq!(agent.messages().len(), 4, "the conversation stays");
    let next = start(&run(&agent, "three").await);
    assert!(next.loop_id.as_str().starts_with(id.as_str()) && next.loop_id.as_str().ends_with(".1"));
    assert_eq!(next.agent_id, first.agent_id);
    assert_eq!((first.session_origin, next.session_origin), (None, Some(SessionOrigin::Explicit)));
    assert_eq!(start(&run(&agent, "four").await).session_origin, None, "said once");
}

/// REQ-215.
#[tokio::test]
async fn the_idle_time_counts_from_the_end_of_a_run_and_a_run_is_not_rotated() {
    let (agent, _) = agent(["a"]);
    let clock = ManualEnvironment::at(1_000);
    let agent = agent.with_environment(Arc::new(clock.clone())).with_limits(None);
    let (handle, rotated) = (agent.handle(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let (seen, minute) = (Arc::clone(&rotated), Duration::from_secs(60));
    let listening = clock.clone();
    let _subscription = agent.subscribe(move |event| {
        if matches!(event, AgentEvent::TurnStart { .. }) {
            listening.advance(Duration::from_secs(900));
        }
        seen.lock().unwrap().push(handle.check_and_rotate(Duration::from_secs(600)));
    });
    run(&agent, "Hi").await;
    assert!(rotated.lock().unwrap().iter().all(Option::is_none), "never during a run");
    assert_eq!(agent.check_and_rotate(minute), None, "the run has just ended");
    clock.advance(minute + Duration::from_millis(1));
    assert!(agent.check_and_rotate(minute).is_some());
}

/// REQ-215.
#[tokio::test]
async fn a_session_is_rotated_when_the_last_run_ended_longer_ago_than_the_threshold() {
    let (agent, _) = agent(["a"]);
    let clock = ManualEnvironment::at(1_000);
    let agent = agent.with_environment(Arc::new(clock.clone()));
    let minute = Duration::from_secs(60);
    assert_eq!(agent.check_and_rotate(minute), None, "never active");
    run(&agent, "Hi").await;
    assert_eq!(agent.last_active_at().map(|t| t.0), Some(1_000));
    clock.advance(minute);
    assert_eq!(agent.check_and_rotate(minute), None, "not longer than the threshold");
    clock.advance(Duration::from_millis(1));
    let before = agent.session_id();
    let rotated = agent.check_and_rotate(minute).expect("it is time");
    assert_eq!(agent.session_id(), rotated);
    assert_ne!(before, rotated);
    let origin = SessionOrigin::Inactivity { threshold_secs: 60, previous_session_id: before };
    assert_eq!(start(&run(&agent, "Again").await).session_origin, Some(origin));
}
