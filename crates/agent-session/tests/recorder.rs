//! Recording in memory: sessions from events.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, Answer, BasicAgent, ContinuationKind, ErrorKind, Hooks, Message, ModelConfig, RetryConfig,
    SessionId, Timestamp, ToolResult, TurnTrigger, Usage, Verdict,
};
use agent_session::{JsonStore, LoopStatus, ParallelGroupRecord, Session, SessionFormation, SessionRecorder};
use serde_json::json;

fn agent(replies: impl IntoIterator<Item = ScriptedReply>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_retry_config(RetryConfig::none())
        .with_session_id("s-1")
        .with_config_id("m")
        .with_tool(ScriptedTool::saying("say", "said"))
}

fn listening(agent: &BasicAgent) -> SessionRecorder {
    let recorder = SessionRecorder::new();
    let heard = recorder.clone();
    let _ = agent.subscribe(move |event| heard.on_event(event));
    recorder
}

async fn prompt(agent: &BasicAgent, text: &str) {
    drop(agent.prompt(text).unwrap().collect().await);
}

fn text(session: &Session, at: usize) -> Vec<String> {
    session.loops[at].messages.iter().map(|m| m.as_llm().map(Message::text).unwrap_or_default()).collect()
}

/// A program that logs a session must not write the conversation into its log.
#[tokio::test]
async fn the_debug_text_of_a_session_has_no_word_of_its_conversation() {
    let call = ScriptedReply::call("c1", "say", json!({"to": "tulip"})).and_text("a tulip");
    let agent = agent([call, ScriptedReply::text("the tulip")]);
    let recorder = listening(&agent);
    prompt(&agent, "my password is tulip").await;
    let session = recorder.session("s-1").unwrap();
    assert_eq!(session.loops[0].messages.len(), 4);
    for text in [format!("{session:?}"), format!("{:#?}", session.loops)] {
        assert!(!text.contains("tulip") && text.len() < 1_000, "{text}");
    }
}

/// REQ-211, REQ-214.
#[tokio::test]
async fn one_loop_is_one_record_with_its_messages_turns_usage_and_events() {
    let usage = Usage::new(7, 3, 0, 0);
    let agent = agent([
        ScriptedReply::call("c1", "say", json!({})).using(usage),
        ScriptedReply::text("done").using(usage),
    ]);
    let recorder = listening(&agent);
    prompt(&agent, "go").await;
    let session = recorder.session("s-1").unwrap();
    let record = &session.loops[0];
    assert_eq!(record.loop_id.as_str(), "s-1.m.1");
    assert_eq!(
        (record.status, record.continuation_kind.clone()),
        (LoopStatus::Completed, ContinuationKind::Initial)
    );
    assert_eq!(text(&session, 0), ["go", "", "said", "done"]);
    let places = |n: usize| {
        (
            &record.turns[n].input_messages[..],
            record.turns[n].output_message,
            &record.turns[n].tool_results[..],
        )
    };
    assert_eq!(places(0), (&[0][..], Some(1), &[2][..]));
    assert_eq!(places(1), (&[][..], Some(3), &[][..]));
    assert_eq!(record.turns[0].triggered_by, TurnTrigger::User);
    assert!(record.turns.iter().all(|t| t.usage == usage && t.ended_at.is_some()));
    assert_eq!(session.total_usage(), usage.combine(&usage));
    assert_eq!(record.config.provider, agent.model().provider);
    let sequences: Vec<u64> = record.events.iter().map(|e| e.sequence).collect();
    assert_eq!(sequences, (0..record.events.len() as u64).collect::<Vec<_>>());
    assert!(record.events.iter().all(|e| !e.known().unwrap().is_live()));
    assert!(record.ended_at.is_some() && record.open_run.is_none());
}

/// REQ-214, REQ-218.
#[tokio::test]
async fn a_continuation_is_linked_both_ways_and_says_its_kind() {
    let agent = agent([ScriptedReply::text("a"), ScriptedReply::text("b"), ScriptedReply::text("c")]);
    let recorder = listening(&agent);
    prompt(&agent, "one").await;
    for (kind, more) in [(ContinuationKind::Default, "x"), (ContinuationKind::Rerun { tag: "t".into() }, "y")]
    {
        agent.follow_up(more);
        drop(agent.continue_as(kind).unwrap().collect().await);
    }
    let session = recorder.session("s-1").unwrap();
    let kinds: Vec<_> = session.loops.iter().map(|r| r.continuation_kind.clone()).collect();
    assert_eq!(
        kinds,
        [ContinuationKind::Initial, ContinuationKind::Default, ContinuationKind::Rerun { tag: "t".into() }]
    );
    assert_eq!(session.root_loops().map(|r| r.loop_id.as_str()).collect::<Vec<_>>(), ["s-1.m.1"]);
    assert_eq!(session.children_of("s-1.m.1").map(|r| r.loop_id.as_str()).collect::<Vec<_>>(), ["s-1.m.2"]);
    assert_eq!(session.loops[0].children_loop_ids, ["s-1.m.2"]);
    assert_eq!(session.loops[1].children_loop_ids, ["s-1.m.3"]);
    let chain: Vec<_> = session.loop_chain_to("s-1.m.3").iter().map(|r| r.loop_id.to_string()).collect();
    assert_eq!(chain, ["s-1.m.1", "s-1.m.2", "s-1.m.3"]);
    assert!(session.get_loop("s-1.m.4").is_none() && session.loop_chain_to("s-1.m.4").is_empty());
}

/// REQ-218.
#[tokio::test]
async fn branches_of_a_group_find_each_other_and_a_ring_of_parents_is_walked_once() {
    let agent = agent([ScriptedReply::text("a"), ScriptedReply::text("b")]);
    let recorder = listening(&agent);
    prompt(&agent, "one").await;
    prompt(&agent, "two").await;
    let session = recorder.session("s-1").unwrap();
    assert_eq!(session.parallel_siblings("s-1.m.1").len(), 0);
    let mut json = serde_json::to_value(&session).unwrap();
    for at in 0..2 {
        json["loops"][at]["parallel_group"] = json!({
            "all_loop_ids": ["s-1.m.1", "s-1.m.2"], "selected_loop_id": "s-1.m.2", "selected_config_index": 1,
            "evaluation_usage": {"input": 1, "output": 1}, "is_selected": at == 1,
        });
        json["loops"][at]["parent_loop_id"] = json!(format!("s-1.m.{}", 2 - at));
    }
    let session: Session = serde_json::from_value(json).unwrap();
    assert_eq!(session.parallel_siblings("s-1.m.1").len(), 2);
    let selected = |g: &Option<ParallelGroupRecord>| g.as_ref().unwrap().is_selected;
    assert_eq!(session.loops.iter().filter(|r| selected(&r.parallel_group)).count(), 1);
    assert_eq!(session.loop_chain_to("s-1.m.1").len(), 2);
    assert_eq!(session.root_loops().count(), 0);
}

/// REQ-215: from events and from a journal, a session says why it was begun.
#[tokio::test]
async fn a_session_that_an_agent_went_to_says_why() {
    let clock = ManualEnvironment::at(1_000);
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let mut agent = agent(["a", "b", "c"].map(ScriptedReply::text)).with_environment(Arc::new(clock.clone()));
    let (heard, written) = (listening(&agent), SessionRecorder::attach(&mut agent, store.clone()));
    prompt(&agent, "one").await;
    let asked = agent.new_session();
    prompt(&agent, "two").await;
    clock.advance(Duration::from_secs(61));
    let silent = agent.check_and_rotate(Duration::from_secs(60)).unwrap();
    prompt(&agent, "three").await;
    written.close().await.unwrap();
    let later = Timestamp(62_000);
    for (id, expect) in [
        ("s-1", SessionFormation::FirstLoop { timestamp: Timestamp(1_000) }),
        (asked.as_str(), SessionFormation::Explicit { timestamp: Timestamp(1_000) }),
        (
            silent.as_str(),
            SessionFormation::InactivityTimeout {
                threshold_secs: 60,
                previous_session_id: Some(asked.clone()),
                timestamp: later,
            },
        ),
    ] {
        assert_eq!(heard.session(id).unwrap().formation, expect);
        assert_eq!(store.load_session(id).unwrap().formation, expect);
    }
}

/// REQ-214.
#[tokio::test]
async fn each_way_to_end_has_its_status() {
    let hooks = |deny: &'static str| {
        let mut hooks = Hooks::default();
        if deny == "loop" {
            hooks = hooks.before_loop(|_| async { Verdict::Deny("not today".into()) });
        } else {
            hooks = hooks.before_turn(|_| async { Verdict::Deny("enough".into()) });
        }
        hooks
    };
    let check = |agent: BasicAgent, status: LoopStatus, rejection: Option<&'static str>| async move {
        let recorder = listening(&agent);
        // Something that begins, so that the session is known.
        let hooks = agent.config().hooks;
        let mut agent = agent;
        agent.set_hooks(Hooks::default());
        prompt(&agent, "first").await;
        agent.set_hooks(hooks);
        prompt(&agent, "second").await;
        let session = recorder.session("s-1").unwrap();
        let record = session.loops.last().unwrap();
        assert_eq!((session.loops.len(), record.status), (2, status));
        assert_eq!(record.rejection.as_deref(), rejection);
        assert!(record.ended.is_some() && record.ended_at.is_some());
    };
    let ok = || ScriptedReply::text("ok");
    check(agent([ok(), ok()]), LoopStatus::Completed, None).await;
    check(agent([ok()]).with_hooks(hooks("loop")), LoopStatus::Rejected, Some("not today")).await;
    check(agent([ok()]).with_hooks(hooks("turn")), LoopStatus::Stopped, None).await;
    check(agent([ok(), ScriptedReply::error(ErrorKind::Auth, "no")]), LoopStatus::Failed, None).await;
    check(agent([ok(), ok().and_panic("the provider panics")]), LoopStatus::Failed, None).await;
}

/// REQ-214, D30.
#[tokio::test]
async fn an_aborted_loop_is_aborted() {
    let agent = agent([ScriptedReply::text("partial").and_hang()]);
    let recorder = listening(&agent);
    let mut events = agent.prompt("go").unwrap();
    while let Some(event) = events.recv().await {
        if matches!(event, AgentEvent::MessageUpdate { .. }) {
            agent.abort();
        }
    }
    assert_eq!(recorder.session("s-1").unwrap().loops[0].status, LoopStatus::Aborted);
}

/// D30.
#[tokio::test]
async fn a_later_loop_of_a_drained_session_comes_with_the_earlier_ones() {
    let agent = agent([ScriptedReply::text("a"), ScriptedReply::text("b")]);
    let recorder = listening(&agent);
    prompt(&agent, "one").await;
    assert_eq!(recorder.compact_journal().await.unwrap(), 1);
    assert_eq!(recorder.drain_completed().len(), 1);
    assert_eq!(recorder.drain_completed().len(), 0, "nothing changed since");
    prompt(&agent, "two").await;
    recorder.flush();
    let drained = recorder.drain_completed();
    assert_eq!(drained[0].loops.len(), 2);
    assert_eq!(drained[0].history().unwrap(), agent.history());
    assert_eq!(recorder.forget("s-1").unwrap(), drained[0]);
    assert!(recorder.sessions().is_empty());
}

/// The events of a sub-agent between those of its parent make a session of their own and leave the parent's unchanged.
#[tokio::test]
async fn the_events_of_a_sub_agent_in_the_stream_of_its_parent_are_recorded_apart() {
    let parent = agent([ScriptedReply::text("parent")]).prompt("go").unwrap().collect().await;
    let child = agent([ScriptedReply::text("child")]).with_session_id("child");
    let child = child.prompt("task").unwrap().collect().await;
    let recorded = |events: &[AgentEvent]| {
        let recorder = SessionRecorder::new();
        events.iter().for_each(|event| recorder.on_event(event));
        recorder
    };
    let alone = recorded(&parent);
    for at in 1..parent.len() {
        let mut events = parent.clone();
        events.splice(at..at, child.clone());
        let both = recorded(&events);
        assert_eq!(both.session("s-1"), alone.session("s-1"));
        assert_eq!(both.session("child").unwrap().loops[0].status, LoopStatus::Completed);
    }
}

/// It is not drained while it waits, because its answer and the rest of the run follow.
#[tokio::test]
async fn a_run_that_waits_for_an_answer_is_not_completed() {
    let agent = agent([ScriptedReply::call("c1", "deploy", json!({})), ScriptedReply::text("done")])
        .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy?"));
    let recorder = listening(&agent);
    prompt(&agent, "go").await;
    assert_eq!(recorder.session("s-1").unwrap().loops[0].status, LoopStatus::Suspended);
    assert_eq!(recorder.compact_journal().await.unwrap(), 0);
    assert!(recorder.drain_completed().is_empty());
    drop(agent.answer("c1", Answer::Allow).unwrap().collect().await);
    assert_eq!(recorder.compact_journal().await.unwrap(), 1);
    assert_eq!(recorder.drain_completed().remove(0).loops[0].status, LoopStatus::Completed);
}

/// REQ-214.
#[tokio::test]
async fn a_flush_closes_what_is_open_and_what_comes_after_opens_it_again() {
    let agent = agent([ScriptedReply::text("a")]);
    let events = agent.prompt("one").unwrap().collect().await;
    let recorder = SessionRecorder::new();
    let (first, rest) = events.split_at(3);
    first.iter().for_each(|e| recorder.on_event(e));
    assert_eq!(recorder.compact_journal().await.unwrap(), 0, "a loop is open");
    recorder.flush();
    let record = recorder.drain_completed().remove(0).loops.remove(0);
    assert_eq!((record.status, record.ended_at), (LoopStatus::Aborted, None));
    rest.iter().for_each(|e| recorder.on_event(e));
    assert_eq!(recorder.session("s-1").unwrap().loops[0].status, LoopStatus::Completed);
}

/// REQ-214.
#[tokio::test]
async fn deltas_are_kept_only_when_asked_for() {
    let agent = agent([ScriptedReply::text("some text").in_pieces_of(1)]);
    let events = agent.prompt("one").unwrap().collect().await;
    let count = |recorder: SessionRecorder| {
        events.iter().for_each(|e| recorder.on_event(e));
        recorder.session("s-1").unwrap().loops[0].events.len()
    };
    let live = events.iter().filter(|e| e.is_live()).count();
    assert!(live > 5);
    assert_eq!(count(SessionRecorder::new()) + live, events.len());
    assert_eq!(count(SessionRecorder::new().include_streaming_events(true)), events.len());
}

/// The events of a parent whose call `c1` began the loop `child.m.1` in a session of its own, and the child's.
async fn family() -> (Vec<AgentEvent>, Vec<AgentEvent>) {
    let tool = ScriptedTool::new("delegate", |_, _| async {
        Ok(ToolResult::text("child says hi").with_child_loop("child.m.1".into()))
    });
    let parent =
        agent([ScriptedReply::call("c1", "delegate", json!({})), ScriptedReply::text("ok")]).with_tool(tool);
    let parent_events = parent.prompt("go").unwrap().collect().await;
    let child = agent([ScriptedReply::text("hi")]).with_session_id("child");
    let mut child_events = child.prompt("task").unwrap().collect().await;
    if let Some(AgentEvent::AgentStart(start)) = child_events.first_mut() {
        start.parent_loop_id = Some("s-1.m.1".into());
    }
    (parent_events, child_events)
}

#[track_caller]
fn assert_linked(recorder: &SessionRecorder) {
    let (parent, child) = (recorder.session("s-1").unwrap(), recorder.session("child").unwrap());
    let link = &parent.loops[0].child_loop_refs[0];
    assert_eq!((link.tool_call_id.as_str(), link.tool_name.as_str()), ("c1", "delegate"));
    let found = recorder.session(&link.child_session_id).unwrap();
    assert!(found.get_loop(link.child_loop_id.as_str()).is_some());
    let spawn = child.parent_spawn_ref.unwrap();
    assert_eq!((spawn.parent_session_id.as_str(), spawn.parent_loop_id.as_str()), ("s-1", "s-1.m.1"));
    assert_eq!((spawn.tool_call_id.as_str(), spawn.tool_name.as_str()), ("c1", "delegate"));
    assert!(
        parent.loops[0].children_loop_ids.is_empty(),
        "a loop of another session is no child of this tree"
    );
}

/// REQ-212, REQ-214.
#[tokio::test]
async fn a_sub_agents_session_and_its_callers_loop_name_each_other() {
    let (parent, child) = family().await;
    let recorder = SessionRecorder::new();
    let end = parent.iter().position(|e| matches!(e, AgentEvent::ToolExecutionEnd(_))).unwrap();
    parent[..end].iter().chain(&child).chain(&parent[end..]).for_each(|e| recorder.on_event(e));
    assert_linked(&recorder);
}

/// REQ-212.
#[tokio::test]
async fn from_a_callers_file_the_sub_agents_file_is_found_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let (parent, child) = family().await;
    let recorder = SessionRecorder::with_store(store.clone());
    parent.iter().take(3).chain(&child).chain(parent.iter().skip(3)).for_each(|e| recorder.on_event(e));
    recorder.close().await.unwrap();
    let parent = store.load_session("s-1").unwrap();
    let link = &parent.loops[0].child_loop_refs[0];
    let child = store.load_session(&link.child_session_id).unwrap();
    assert_eq!(child.get_loop(link.child_loop_id.as_str()).unwrap().messages.len(), 2);
    let back = child.parent_spawn_ref.clone().unwrap();
    let caller = store.load_session(&back.parent_session_id).unwrap();
    let record = caller.get_loop(back.parent_loop_id.as_str()).unwrap();
    assert!(record.child_loop_refs.iter().any(|r| r.tool_call_id == back.tool_call_id));
}

/// D30: a process that goes on with a stored session writes all its loops.
#[tokio::test]
async fn an_adopted_session_grows() {
    let agent = agent([ScriptedReply::text("a"), ScriptedReply::text("b")]);
    let recorder = listening(&agent);
    prompt(&agent, "one").await;
    let stored = recorder.session("s-1").unwrap();
    let later = listening(&agent);
    later.adopt(stored.clone());
    prompt(&agent, "two").await;
    let grown = later.session("s-1").unwrap();
    assert_eq!(grown.loops.len(), 2);
    assert_eq!(grown.loops[0], stored.loops[0]);
    later.adopt(stored);
    assert_eq!(later.session("s-1").unwrap(), grown, "what is there already is not replaced");
}

/// REQ-221.
#[tokio::test]
async fn the_link_is_drawn_also_when_the_childs_session_was_put_aside_before() {
    let (parent, child) = family().await;
    let recorder = SessionRecorder::new();
    let end = parent.iter().position(|e| matches!(e, AgentEvent::ToolExecutionEnd(_))).unwrap();
    parent[..end].iter().chain(&child).for_each(|e| recorder.on_event(e));
    recorder.flush();
    let drained = recorder.drain_completed();
    let early = drained.iter().find(|s| s.session_id.as_str() == "child").unwrap();
    assert_eq!(early.parent_spawn_ref.as_ref().unwrap().tool_call_id.as_str(), "");
    parent[end..].iter().for_each(|e| recorder.on_event(e));
    assert_linked(&recorder);
    recorder.compact_journal().await.unwrap();
    let again = recorder.drain_completed();
    assert!(
        again.iter().any(|s| s.session_id.as_str() == "child"),
        "the child is handed out once more, whole"
    );
}

/// Session ids may hold dots; events of loops that never began are dropped.
#[tokio::test]
async fn ids_with_dots_are_told_apart_and_strangers_are_dropped() {
    let recorder = SessionRecorder::new();
    for id in ["a", "a.b", "a.b.c"] {
        let agent = agent([ScriptedReply::text("x")]).with_session_id(SessionId::from(id));
        agent.prompt("go").unwrap().collect().await.iter().for_each(|e| recorder.on_event(e));
    }
    let ids: Vec<_> = recorder.sessions().iter().map(|s| (s.session_id.to_string(), s.loops.len())).collect();
    assert_eq!(ids, [("a".to_owned(), 1), ("a.b".to_owned(), 1), ("a.b.c".to_owned(), 1)]);
    let before = recorder.sessions();
    recorder.on_event(&AgentEvent::InputRejected { loop_id: "nobody.m.1".into(), reason: "x".into() });
    assert_eq!(recorder.sessions(), before);
}
