//! Laws of sessions, over any events and any runs. `LOOPTREE_LAW_CASES` says how many cases each is tried with; 48 by
//! default, 10,000 show them well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use agent_core::compat::SeedVerbs as _;
use std::collections::BTreeSet;

use agent_core::{
    AgentEnd, AgentEvent, AgentMessage, AgentStart, Message, MessageRef, StopReason, Timestamp,
    ToolExecutionEnd, ToolExecutionStrategy, TurnTrigger, Usage,
};
use agent_session::{Session, SessionRecorder};
use proptest::prelude::*;
use scene::{act, agent, block_on, cases, kinds, perform, play};
use serde_json::json;

/// A loop of one of three sessions.
fn loop_id(n: u8) -> String {
    format!("s-{}.m.{}", n % 3, n / 3)
}

/// Events in any order, of loops that may name any loop as their parent, themselves among them.
fn event() -> impl Strategy<Value = AgentEvent> {
    let id = || 0u8..12;
    let from = |value| serde_json::from_value::<AgentEvent>(value).unwrap();
    let text = prop_oneof![Just(String::new()), Just("x\u{2028}".repeat(60)), "[a-z]{0,9}"];
    let message = (text, any::<bool>()).prop_map(|(text, is_reply)| {
        MessageRef::from(match is_reply {
            true => AgentMessage::from(Message::from({
                let mut reply = agent_core::AssistantMessage::new("p", "m", StopReason::Stop);
                reply.content.push(text.into());
                reply
            })),
            false => AgentMessage::user(text),
        })
    });
    prop_oneof![
        4 => (id(), prop::option::of(id()), 0u64..99).prop_map(move |(n, parent, at)| from(json!({
            "type": "agent_start", "agent_id": "a", "session_id": format!("s-{}", n % 3), "loop_id": loop_id(n),
            "parent_loop_id": parent.map(loop_id), "timestamp": at,
        }))),
        2 => (id(), 0u32..3).prop_map(|(n, turn)| AgentEvent::TurnStart {
            loop_id: loop_id(n).into(), turn_index: turn, timestamp: Timestamp(7), triggered_by: TurnTrigger::User,
        }),
        4 => (id(), message, any::<bool>()).prop_map(|(n, message, superseded)| AgentEvent::MessageEnd {
            loop_id: loop_id(n).into(), message, tokens: 3, superseded,
        }),
        1 => (id(), any::<u32>()).prop_map(|(n, tokens)| AgentEvent::TurnEnd {
            loop_id: loop_id(n).into(), message: None, usage: Usage::new(u64::from(tokens), 1, 0, 0),
            timestamp: Timestamp(8), tool_results: Vec::new(),
        }),
        2 => (id(), prop::option::of(id()), 0u8..3).prop_map(move |(n, child, call)| from(json!({
            "type": "tool_execution_end", "loop_id": loop_id(n), "tool_call_id": format!("c{call}"), "tool_name": "t",
            "result": {"content": [{"type": "text", "text": "r".repeat(200)}]}, "is_error": false,
            "child_loop_id": child.map(loop_id),
        }))),
        1 => id().prop_map(|n| AgentEvent::RunSuspended { loop_id: loop_id(n).into(), questions: Vec::new() }),
        2 => (id(), any::<bool>()).prop_map(move |(n, aborted)| from(json!({
            "type": "agent_end", "loop_id": loop_id(n), "messages": [], "usage": Usage::new(5, 5, 0, 0),
            "ended": {"how": if aborted { "aborted" } else { "completed" }}, "timestamp": 9,
        }))),
    ]
}

/// Each loop is there once, in its parent once, and the chain of its parents ends.
#[track_caller]
fn assert_tree(sessions: &[Session]) {
    for session in sessions {
        let ids: BTreeSet<&str> = session.loops.iter().map(|r| r.loop_id.as_str()).collect();
        assert_eq!(ids.len(), session.loops.len(), "a loop is there twice");
        for record in &session.loops {
            assert_eq!(record.session_id, session.session_id);
            for child in &record.children_loop_ids {
                let child = session.get_loop(child.as_str()).expect("a child is of the same session");
                assert_eq!(child.parent_loop_id.as_ref(), Some(&record.loop_id), "a child names its parent");
            }
            let parents =
                session.loops.iter().filter(|r| r.children_loop_ids.contains(&record.loop_id)).count();
            let parent = record.parent_loop_id.as_ref().and_then(|p| session.get_loop(p.as_str()));
            assert_eq!(parents, usize::from(parent.is_some()), "one parent each: {}", record.loop_id);
            let mut at = record;
            for step in 0.. {
                let next = at.parent_loop_id.as_ref().and_then(|p| session.get_loop(p.as_str()));
                let Some(next) = next else { break };
                assert!(step < session.loops.len(), "a ring of parents at {}", record.loop_id);
                at = next;
            }
            let sequences: Vec<u64> = record.events.iter().map(|e| e.sequence).collect();
            assert_eq!(sequences, (0..record.events.len() as u64).collect::<Vec<_>>());
            for turn in &record.turns {
                let places = turn.input_messages.iter().chain(&turn.output_message).chain(&turn.tool_results);
                assert!(places.into_iter().all(|p| *p < record.messages.len()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(48), failure_persistence: None, ..ProptestConfig::default() })]

    /// REQ-214, REQ-218.
    #[test]
    fn whatever_events_come_the_tree_is_a_tree(
        events in prop::collection::vec(event(), 0..60),
        breaks in prop::collection::vec(0usize..60, 0..4),
    ) {
        let recorder = SessionRecorder::new();
        for (at, event) in events.iter().enumerate() {
            recorder.on_event(event);
            if breaks.contains(&at) {
                if at % 2 == 0 { recorder.flush() } else { let _ = block_on(recorder.compact_journal()).unwrap(); }
            }
        }
        assert_tree(&recorder.sessions());
    }

    /// REQ-211, REQ-216, B-181.
    #[test]
    fn whatever_was_recorded_loads_as_it_was_saved(
        events in prop::collection::vec(event(), 0..40),
        kind in prop::sample::select(kinds()),
    ) {
        let recorder = SessionRecorder::new();
        events.iter().for_each(|e| recorder.on_event(e));
        recorder.flush();
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        for session in recorder.sessions() {
            let text = serde_json::to_string(&session).unwrap();
            prop_assert_eq!(serde_json::from_str::<Session>(&text).unwrap(), session.clone());
            store.save_session(&session).unwrap();
            store.save_session(&session).unwrap();
            prop_assert_eq!(store.load_session(session.session_id.as_str()).unwrap().into_session(), session);
        }
    }

    /// D30: the log is enough for messages, history and tree.
    #[test]
    fn the_events_of_a_run_give_its_messages_history_and_tree_again(
        plays in prop::collection::vec(play(), 0..8),
        acts in prop::collection::vec(act(), 1..5),
    ) {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
            let recorder = SessionRecorder::attach(&mut agent, scene::Kind::Json.open(dir.path()));
            perform(&agent, &acts).await;
            for session in recorder.sessions() {
                let again = SessionRecorder::new();
                for record in &session.loops {
                    record.events.iter().for_each(|e| again.on_event(e.known().unwrap()));
                }
                let Some(folded) = again.session(&session.session_id) else {
                    assert!(session.loops.is_empty());
                    continue;
                };
                for (a, b) in folded.loops.iter().zip(&session.loops) {
                    assert_eq!((&a.loop_id, &a.messages, &a.other_messages), (&b.loop_id, &b.messages, &b.other_messages));
                    assert_eq!((&a.turns, a.usage, a.status), (&b.turns, b.usage, b.status));
                    assert_eq!((&a.parent_loop_id, &a.children_loop_ids), (&b.parent_loop_id, &b.children_loop_ids));
                }
                assert_eq!(folded.loops.len(), session.loops.len());
                if session.session_id == agent.session_id() && !session.loops.is_empty() {
                    let last = session.loops.last().unwrap().loop_id.clone();
                    if agent.last_loop_id().as_ref() == Some(&last) && !agent_changed(&acts) {
                        assert_eq!(session.history().unwrap(), agent.history());
                    }
                }
                assert_tree(std::slice::from_ref(&session));
            }
        });
    }
}

/// Whether the program did something to the conversation after the last prompt, which no loop knows of yet.
fn agent_changed(acts: &[scene::Act]) -> bool {
    let after = acts.iter().rev().take_while(|a| !matches!(a, scene::Act::Prompt(_)));
    after.into_iter().any(|a| matches!(a, scene::Act::Clear | scene::Act::Note))
}

/// The types of the events that are made above, so that a kind that is renamed is noticed here.
#[test]
fn the_events_are_of_the_kinds_that_they_are_meant_to_be() {
    fn boxed(_: Option<Box<AgentStart>>, _: Option<Box<AgentEnd>>, _: Option<Box<ToolExecutionEnd>>) {}
    boxed(None, None, None);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut kinds = BTreeSet::new();
    for _ in 0..300 {
        use proptest::strategy::ValueTree;
        let event = event().new_tree(&mut runner).unwrap().current();
        kinds.insert(serde_json::to_value(&event).unwrap()["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds.len(), 7, "{kinds:?}");
}
