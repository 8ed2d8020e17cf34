//! Going back in a session, and on from a place of it in another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use agent_core::compat::SeedVerbs as _;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentError, AgentMessage, BasicAgent, ContinuationKind, History, ModelConfig, Usage};
use agent_session::{LoopStatus, Point, RestoreSession, Session, SessionError, SessionRecorder, TimeTravel};
use scene::{Kind, Store, kinds};
use serde_json::json;

fn store(kind: Kind) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = kind.open(dir.path());
    (dir, store)
}

fn with(replies: Vec<ScriptedReply>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_session_id("s-1")
        .with_tool(ScriptedTool::saying("look", "a key"))
        .with_tool(ScriptedTool::saying("ask", "done").asking("May I?"))
}

fn texts(history: &History) -> Vec<String> {
    history.messages().map(AgentMessage::text).collect()
}

/// Two loops: one with a call, one without.
async fn recorded(agent: &mut BasicAgent, store: &Store) -> (SessionRecorder, Session) {
    let recorder = SessionRecorder::attach(agent, store.clone());
    agent.chat("first").await.unwrap();
    agent.chat("second").await.unwrap();
    let session = recorder.session("s-1").unwrap();
    (recorder, session)
}

fn script() -> Vec<ScriptedReply> {
    let reply = |text: &str| ScriptedReply::text(text).using(Usage::new(10, 1, 0, 0));
    vec![
        ScriptedReply::call("c1", "look", json!({})).using(Usage::new(10, 1, 0, 0)),
        reply("one"),
        reply("two"),
        reply("three"),
        reply("four"),
    ]
}

#[tokio::test]
async fn a_session_names_every_place_at_which_its_conversation_can_be_cut() {
    let (_dir, store) = store(Kind::Json);
    let (_recorder, session) = recorded(&mut with(script()), &store).await;
    let (a, b) = (session.loops[0].loop_id.clone(), session.loops[1].loop_id.clone());
    let expect: Vec<Point> = [(&a, 0), (&a, 1), (&a, 3), (&a, 4), (&b, 0), (&b, 1), (&b, 2)]
        .map(|(id, n)| Point::new(id.clone(), n))
        .to_vec();
    assert_eq!(session.points(), expect);
    let lengths: Vec<_> = expect.iter().map(|p| session.history_at(p).unwrap().len()).collect();
    assert_eq!(lengths, [0, 1, 3, 4, 4, 5, 6]);
    // In the middle of an exchange: after it.
    assert_eq!(session.history_at(&Point::new(a.clone(), 2)).unwrap().len(), 3);
    let turn = &session.loops[0].turns[1].turn_id;
    assert_eq!(session.point_before_turn(turn).unwrap(), Point::new(a.clone(), 3));
    assert_eq!(session.point_after_turn(turn).unwrap(), Point::new(a.clone(), 4));
    assert_eq!(session.end_point().unwrap(), Point::new(b, 2));
    for nowhere in [Point::new(a, 5), Point::new("s-1.none.1", 0)] {
        let error = session.history_at(&nowhere).unwrap_err();
        assert!(matches!(&error, SessionError::NoPoint { point, .. } if *point == nowhere), "{error}");
    }
}

/// B-183.
#[tokio::test]
async fn a_fork_is_a_new_file_with_the_way_to_the_place_and_a_link_to_where_it_came_from() {
    for kind in kinds() {
        let (dir, store) = store(*kind);
        let mut agent = with(script());
        let (recorder, session) = recorded(&mut agent, &store).await;
        recorder.save().await.unwrap();
        let origin = || match kind {
            Kind::Json => std::fs::read(dir.path().join("sessions/s-1.json")).unwrap(),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => serde_json::to_vec(&*store.load_session("s-1").unwrap()).unwrap(),
            #[cfg(feature = "postgres")]
            Kind::Postgres => serde_json::to_vec(&*store.load_session("s-1").unwrap()).unwrap(),
        };
        let before = origin();
        let point = Point::new(session.loops[0].loop_id.clone(), 3);
        let arrival = agent.fork(&store, &session, &point).await.unwrap();
        assert_eq!(agent.session_id(), arrival.session_id);
        assert_ne!(arrival.session_id, *"s-1");

        let fork = store.load_session(arrival.session_id.as_str()).unwrap();
        let link = fork.forked_from.as_ref().unwrap();
        assert_eq!((link.session_id.as_str(), &link.loop_id, link.messages), ("s-1", &point.loop_id, 3));
        assert_eq!(fork.loops.len(), 1, "the second loop is not on the way");
        let part = &fork.loops[0];
        assert_eq!(part.messages, session.loops[0].messages[..3]);
        assert_eq!(
            (part.turns.len(), part.status, part.usage.total_tokens),
            (1, LoopStatus::Interrupted, 11)
        );
        assert_eq!(fork.history().unwrap(), agent.history());

        // It goes on by itself: its own ids, and a branch from the loop that it came from.
        agent.chat("other").await.unwrap();
        let fork = recorder.session(arrival.session_id.as_str()).unwrap();
        let new = fork.loops.last().unwrap();
        assert_eq!(new.loop_id.as_str(), format!("{}.{}.1", arrival.session_id, segment(&session)));
        assert_eq!(new.parent_loop_id.as_ref(), Some(&point.loop_id));
        assert!(matches!(new.continuation_kind, ContinuationKind::Branch { .. }));
        assert_eq!(fork.loops[0].children_loop_ids, std::slice::from_ref(&new.loop_id));
        assert_eq!(fork.parent_spawn_ref, None, "no call began it");
        assert_eq!(texts(&fork.history().unwrap()), ["first", "", "a key", "other", "three"]);
        recorder.close().await.unwrap();
        assert_eq!(origin(), before, "the origin is as it was");
    }
}

fn segment(session: &Session) -> String {
    let id = session.loops[0].loop_id.as_str();
    id.trim_start_matches("s-1.").trim_end_matches(".1").to_owned()
}

/// B-183.
#[tokio::test]
async fn a_rewound_agent_goes_on_in_the_same_session_and_nothing_of_it_is_lost() {
    for kind in kinds() {
        let (_dir, store) = store(*kind);
        let mut agent = with(script());
        let (recorder, session) = recorded(&mut agent, &store).await;
        let point = Point::new(session.loops[0].loop_id.clone(), 4);
        agent.rewind(&session, &point).unwrap();
        assert_eq!(texts(&agent.history()), ["first", "", "a key", "one"]);
        agent.chat("instead").await.unwrap();
        recorder.close().await.unwrap();
        let session = store.load_session("s-1").unwrap();
        assert_eq!(session.loops.len(), 3);
        let new = &session.loops[2];
        assert_eq!((new.parent_loop_id.as_ref(), new.base.as_ref().unwrap().keep), (Some(&point.loop_id), 4));
        assert_eq!(texts(&session.history().unwrap()), ["first", "", "a key", "one", "instead", "three"]);
        let second = session.history_after(session.loops[1].loop_id.as_str()).unwrap().unwrap();
        assert_eq!(texts(&second)[4..], ["second", "two"]);

        // The way to the end leads past what was taken back; a fork has it without that.
        let fork = session.forked(&session.end_point().unwrap(), "s-2", agent_core::Timestamp(9)).unwrap();
        let ids: Vec<_> = fork.loops.iter().map(|r| r.loop_id.clone()).collect();
        assert_eq!(ids, [session.loops[0].loop_id.clone(), session.loops[2].loop_id.clone()]);
        assert_eq!(fork.history().unwrap(), session.history().unwrap());

        // Elsewhere it goes on where it stood.
        let again = with(vec![ScriptedReply::text("more")]).restore_unrecorded(&session).unwrap();
        assert_eq!(again.history(), agent.history());
    }
}

#[tokio::test]
async fn back_to_the_middle_of_a_loop_the_next_prompt_follows_what_is_left() {
    for kind in kinds() {
        let (_dir, store) = store(*kind);
        let mut agent = with(script());
        let (recorder, session) = recorded(&mut agent, &store).await;
        agent.rewind(&session, &Point::new(session.loops[0].loop_id.clone(), 3)).unwrap();
        // What was there is what the loop had: going on is the same path again.
        assert!(matches!(agent.continuation_kind(), ContinuationKind::Rerun { .. }));
        drop(agent.go_on().unwrap().collect().await);
        let session = recorder.session("s-1").unwrap();
        let fork = session.forked(&session.end_point().unwrap(), "s-2", agent_core::Timestamp(9)).unwrap();
        assert_eq!(fork.loops[0].messages.len(), 3, "of the first loop only what is left");
        assert_eq!(fork.history().unwrap(), agent.history());
        // And from its very beginning.
        agent.rewind(&session, &Point::new(session.loops[0].loop_id.clone(), 0)).unwrap();
        assert!(agent.history().is_empty() && agent.last_loop_id().is_none());
        let empty = session.forked(&session.points()[0], "s-3", agent_core::Timestamp(9)).unwrap();
        assert!(empty.loops.is_empty() && empty.forked_from.is_some());
    }
}

/// B-183.
#[tokio::test]
async fn a_fork_that_was_made_without_an_agent_is_gone_on_with_as_a_branch() {
    for kind in kinds() {
        let (_dir, store) = store(*kind);
        let (_recorder, session) = recorded(&mut with(script()), &store).await;
        let point = Point::new(session.loops[0].loop_id.clone(), 4);
        store.save_session(&session.forked(&point, "s-2", agent_core::Timestamp(9)).unwrap()).unwrap();
        let agent = with(vec![ScriptedReply::text("x"), ScriptedReply::text("y")]);
        let mut agent = agent.restore_unrecorded(&store.load_session("s-2").unwrap()).unwrap();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("on").await.unwrap();
        agent.chat("and on").await.unwrap();
        recorder.close().await.unwrap();
        let fork = store.load_session("s-2").unwrap();
        assert_eq!(fork.loops.len(), 3);
        assert_eq!(fork.loops[1].parent_loop_id.as_ref(), Some(&point.loop_id));
        assert!(matches!(fork.loops[1].continuation_kind, ContinuationKind::Branch { .. }));
        assert!(matches!(fork.loops[2].continuation_kind, ContinuationKind::Initial), "only the first");
        assert_eq!(fork.loops[1].base.as_ref().unwrap().added.len(), 0, "nothing is written twice");
        assert_eq!(fork.history().unwrap(), agent.history());
    }
}

#[tokio::test]
async fn an_agent_that_waits_or_runs_does_not_travel() {
    for kind in kinds() {
        let (_dir, store) = store(*kind);
        let mut agent = with(vec![ScriptedReply::call("c1", "ask", json!({}))]);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        drop(agent.prompt("go").unwrap().collect().await);
        let session = recorder.session("s-1").unwrap();
        let start = &session.points()[0];
        let suspended = |e: SessionError| matches!(e, SessionError::Agent(AgentError::Suspended { .. }));
        assert!(suspended(agent.rewind(&session, start).unwrap_err()));
        assert!(suspended(agent.fork(&store, &session, start).await.unwrap_err()));
        assert_eq!(store.list_session_ids().unwrap(), ["s-1"], "nothing is left of the fork");
        // Others may fork it: the open call is closed there, and waits on here.
        let fork = session.forked(&session.end_point().unwrap(), "s-2", agent_core::Timestamp(9)).unwrap();
        assert!(fork.loops[0].open_run.is_none());
        assert_eq!(texts(&fork.history().unwrap()), ["go", "", "No result provided"]);
        assert!(agent.is_suspended());
    }
}

#[tokio::test]
async fn the_outline_is_the_tree_of_turns_and_two_of_its_places_can_be_compared() {
    let (_dir, store) = store(Kind::Json);
    let mut agent = with(script());
    let (recorder, session) = recorded(&mut agent, &store).await;
    let outline = session.outline().unwrap();
    agent.rewind(&session, &outline[1].point).unwrap();
    agent.chat("instead").await.unwrap();
    let session = recorder.session("s-1").unwrap();
    let outline = session.outline().unwrap();
    let tree: Vec<_> = outline.iter().map(|t| (t.follows, t.branch)).collect();
    assert_eq!(tree, [(None, 0), (Some(0), 0), (Some(1), 0), (Some(1), 1)]);
    assert_eq!(outline[0].calls, ["look"]);
    assert_eq!(outline[3].input[0].text(), "instead");
    assert_eq!(outline[3].reply.as_ref().unwrap().text(), "three");

    let compared = session.compare(&outline[2].point, &outline[3].point).unwrap();
    assert_eq!(compared.common, 4);
    let side =
        |messages: &[agent_core::MessageRef]| -> Vec<String> { messages.iter().map(|m| m.text()).collect() };
    assert_eq!(side(&compared.a.messages), ["second", "two"]);
    assert_eq!(side(&compared.b.messages), ["instead", "three"]);
    assert_eq!((compared.a.usage.input, compared.b.usage.input), (30, 30));
    let same = session.compare(&outline[1].point, &outline[1].point).unwrap();
    assert!(same.a.messages.is_empty() && same.b.messages.is_empty());
}

#[tokio::test]
async fn a_place_before_a_compaction_has_the_whole_conversation() {
    let (_dir, store) = store(Kind::Json);
    let plays = vec![scene::Play::Text(280); 8];
    let mut agent = scene::agent(&plays, agent_core::ToolExecutionStrategy::Parallel);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    scene::perform(&agent, &vec![scene::Act::Prompt(380); 8]).await;
    let session = recorder.session("s-1").unwrap();
    assert!(session.history().unwrap().len() < 16, "it was compacted");
    let third = session.loops[2].loop_id.clone();
    assert_eq!(session.history_at(&Point::new(third.clone(), 2)).unwrap().len(), 6);
    let fork = session.forked(&Point::new(third, 1), "s-2", agent_core::Timestamp(9)).unwrap();
    assert_eq!((fork.history().unwrap().len(), fork.loops.len()), (5, 3));
    assert_eq!(fork.loops[2].base.as_ref().unwrap().added.len(), 0, "nothing is written twice");
}
