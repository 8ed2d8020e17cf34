//! Going on from what a store has.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use agent_core::compat::SeedVerbs as _;
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{
    AgentError, AgentEvent, AgentSnapshot, Answer, BasicAgent, ModelConfig, RunEnd, ToolExecutionStrategy,
};
use agent_session::{
    AgentSnapshotFile, JsonStore, LoopStatus, RestoreSession, SaveContext, SessionError, SessionRecorder,
    from_legacy,
};
use scene::{Act, Play, agent, perform};
use serde_json::json;

fn store() -> (tempfile::TempDir, JsonStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    (dir, store)
}

fn with(replies: Vec<ScriptedReply>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_session_id("s-1")
}

/// REQ-216.
#[tokio::test]
async fn an_agent_goes_on_elsewhere_with_conversation_ids_and_counters() {
    let (_dir, store) = store();
    let mut first =
        agent(&[Play::Calls(vec!["say"]), Play::Text(9), Play::Text(9)], ToolExecutionStrategy::Parallel);
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    perform(&first, &[Act::Prompt(9), Act::Prompt(9)]).await;
    recorder.close().await.unwrap();

    let second = agent(&[Play::Text(3)], ToolExecutionStrategy::Parallel).with_session_id("other");
    let mut second = second.restore_unrecorded(&store.load_session("s-1").unwrap()).unwrap();
    assert_eq!((second.agent_id(), second.session_id()), (first.agent_id(), first.session_id()));
    assert_eq!(second.history(), first.history());
    let recorder = SessionRecorder::attach(&mut second, store.clone());
    perform(&second, &[Act::Prompt(5)]).await;
    recorder.close().await.unwrap();
    let loaded = store.load_session("s-1").unwrap();
    let ends: Vec<_> = loaded.loops.iter().map(|r| r.loop_id.as_str().rsplit('.').next().unwrap()).collect();
    assert_eq!(ends, ["1", "2", "3"]);
    let base = loaded.loops[2].base.as_ref().unwrap();
    assert_eq!((base.keep, base.added.len()), (first.history().len(), 0), "nothing is written twice");
    assert_eq!(loaded.history().unwrap(), second.history());
}

/// X5: suspended as data, answered elsewhere.
#[tokio::test]
async fn a_run_that_waits_for_an_answer_is_answered_by_another_process() {
    let (_dir, store) = store();
    let plays = [Play::Calls(vec!["say", "ask"]), Play::Text(4)];
    let mut first = agent(&plays, ToolExecutionStrategy::Parallel);
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    drop(first.prompt("go").unwrap());
    let Some(RunEnd::Suspended(questions)) = first.finish().await else { panic!() };
    recorder.close().await.unwrap();
    drop((first, recorder));

    let loaded = store.load_session("s-1").unwrap();
    assert_eq!(loaded.loops[0].status, LoopStatus::Suspended, "nobody cut it off");
    let mut second = agent(&plays[1..], ToolExecutionStrategy::Parallel).restore_unrecorded(&loaded).unwrap();
    let recorder = SessionRecorder::attach(&mut second, store.clone());
    drop(second.answer(questions[0].id.clone(), Answer::Allow).unwrap());
    assert!(!matches!(second.finish().await, None | Some(RunEnd::Suspended(_))));
    recorder.close().await.unwrap();
    let loaded = store.load_session("s-1").unwrap();
    let record = &loaded.loops[0];
    assert_eq!((loaded.loops.len(), record.status), (1, LoopStatus::Completed));
    assert_eq!(loaded.history().unwrap(), second.history());
    let events: Vec<AgentEvent> = record.events.iter().filter_map(|e| e.known().cloned()).collect();
    assert_eq!(events.iter().filter(|e| matches!(e, AgentEvent::AgentStart(_))).count(), 1);
    assert_eq!(events.iter().filter(|e| matches!(e, AgentEvent::AgentEnd(_))).count(), 1);
}

/// REQ-216.
#[tokio::test]
async fn a_run_that_was_cut_off_is_driven_on_from_its_last_record() {
    let (_dir, store) = store();
    let latch = Latch::new();
    let mut first = with(vec![
        ScriptedReply::call("c1", "say", json!({})),
        ScriptedReply::text("half").and_wait(&latch).and_text(" never"),
    ])
    .with_tool(ScriptedTool::saying("say", "said"));
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    drop(first.prompt("go").unwrap());
    latch.reached().await;
    // As a crash leaves it: nobody ends the run.
    recorder.save().await.unwrap();
    let running = store.load_session("s-1").unwrap();
    assert_eq!(running.loops[0].status, LoopStatus::Running, "it is being written");
    recorder.close().await.unwrap();
    let cut = store.load_session("s-1").unwrap();
    assert_eq!(cut.loops[0].status, LoopStatus::Interrupted);

    let tool = ScriptedTool::saying("say", "said");
    let mut second =
        with(vec![ScriptedReply::text("whole")]).with_tool(tool.clone()).restore_unrecorded(&cut).unwrap();
    let store_2 = JsonStore::open(store.dir().join("elsewhere")).unwrap();
    store_2.save_session(&cut).unwrap();
    let recorder_2 = SessionRecorder::attach(&mut second, store_2.clone());
    drop(second.resume().unwrap());
    second.finish().await;
    assert_eq!(tool.calls().len(), 0, "what was done is not done again");
    recorder_2.close().await.unwrap();
    let loaded = store_2.load_session("s-1").unwrap();
    let record = &loaded.loops[0];
    assert_eq!(record.status, LoopStatus::Completed);
    assert_eq!(loaded.history().unwrap(), second.history());
    assert_eq!(second.history().last().unwrap().text(), "whole");
    let events: Vec<AgentEvent> = record.events.iter().filter_map(|e| e.known().cloned()).collect();
    assert_well_formed(&events);
    latch.open();
}

/// A prompt instead of a resume: the open loop stays cut off, its calls are closed.
#[tokio::test]
async fn whoever_does_not_resume_aborts_and_goes_on() {
    let (_dir, store) = store();
    let latch = Latch::new();
    let held = latch.clone();
    let tool = ScriptedTool::new("say", move |_, _| {
        let held = held.clone();
        async move {
            held.wait().await;
            Ok(agent_core::ToolResult::text("late"))
        }
    });
    let mut first = with(vec![ScriptedReply::call("c1", "say", json!({}))]).with_tool(tool);
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    drop(first.prompt("go").unwrap());
    latch.reached().await;
    recorder.close().await.unwrap();

    let cut = store.load_session("s-1").unwrap();
    assert_eq!(cut.history().unwrap().len(), 3, "the call has a result that says that there is none");
    let elsewhere = JsonStore::open(store.dir().join("elsewhere")).unwrap();
    elsewhere.save_session(&cut).unwrap();
    let mut second = with(vec![ScriptedReply::text("fine")]).restore_unrecorded(&cut).unwrap();
    second.abort();
    second.finish().await;
    let recorder_2 = SessionRecorder::attach(&mut second, elsewhere.clone());
    drop(second.prompt("again").unwrap());
    second.finish().await;
    recorder_2.close().await.unwrap();
    let loaded = elsewhere.load_session("s-1").unwrap();
    let statuses: Vec<_> = loaded.loops.iter().map(|r| r.status).collect();
    assert_eq!(statuses, [LoopStatus::Interrupted, LoopStatus::Completed]);
    assert_eq!(loaded.history().unwrap(), second.history());
    first.abort();
}

/// X1: a state that cannot be read is closed like a crash.
#[tokio::test]
async fn a_state_of_another_version_is_kept_and_the_session_loads_without_it() {
    let (dir, store) = store();
    let mut first = agent(&[Play::Calls(vec!["ask"])], ToolExecutionStrategy::Parallel);
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    drop(first.prompt("go").unwrap());
    first.finish().await;
    recorder.close().await.unwrap();
    let path = dir.path().join("s-1.json");
    let mut file = serde_json::to_value(&*store.load_session("s-1").unwrap()).unwrap();
    let state = json!({"setup": {"loop": 1}, "light": {"phase": "dreaming"}});
    file["loops"][0]["open_run"] = state.clone();
    std::fs::write(&path, file.to_string()).unwrap();

    let loaded = store.load_session("s-1").unwrap();
    assert!(matches!(loaded.open_run(), Err(SessionError::Resume { .. })));
    let second =
        agent(&[Play::Text(3)], ToolExecutionStrategy::Parallel).restore_unrecorded(&loaded).unwrap();
    assert_eq!(second.history(), loaded.history().unwrap());
    store.save_session(&loaded).unwrap();
    let file = serde_json::to_value(&*store.load_session("s-1").unwrap()).unwrap();
    assert_eq!(file["loops"][0]["open_run"], state);
    assert!(second.prompt("go").is_ok());
}

/// An agent that begins a new session leaves the old one saved and unlocked.
#[tokio::test]
async fn a_new_session_closes_the_one_before() {
    let (_dir, store) = store();
    let mut agent = with(vec![ScriptedReply::text("a"), ScriptedReply::text("b")]);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    agent.chat("one").await.unwrap();
    let new = agent.new_session();
    agent.chat("two").await.unwrap();
    assert_eq!(recorder.sessions().len(), 1);
    let old = store.load_session("s-1").unwrap();
    store.save_session(&old).unwrap();
    drop(recorder);
    drop(agent);
    // Whoever opens it waits until it is closed.
    SessionRecorder::with_store(store.clone()).ready(&new).await.unwrap();
    let loaded = store.load_session(&new).unwrap();
    assert_eq!(loaded.loops[0].base.as_ref().unwrap().added.len(), 2, "the conversation went along");
    assert!(store.path_of(&new).unwrap().exists(), "the last handle saved it");
}

/// Seed 003.
#[tokio::test]
async fn a_context_file_holds_the_conversation_and_a_model_can_write_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("context.json");
    let script = ScriptedProvider::new([
        ScriptedReply::call("c1", "save_session_context", json!({})),
        ScriptedReply::text("saved"),
    ]);
    let first = from_legacy(Some("m"), None, Some("Be brief."), Some(&path)).unwrap().with_provider(script);
    first.chat("Please save").await.unwrap();
    let second = from_legacy(Some("m"), None, None, Some(&path)).unwrap();
    assert_eq!(second.messages()[..2], first.messages()[..2]);
    assert_eq!(second.messages().len(), 3, "the call that saved was open and has been closed");
    first.save_context(&path).unwrap();
    assert_eq!(second.load_context(&path).unwrap(), []);
    assert_eq!(second.messages(), first.messages());

    std::fs::write(&path, "{\"no\": \"list\"}").unwrap();
    assert!(matches!(second.load_context(&path), Err(SessionError::Corrupt { .. })));
    assert_eq!(second.messages(), first.messages());
    assert!(from_legacy(None, None, None, Some(&path)).is_err(), "a damaged file is not passed over");
    assert!(matches!(second.load_context(dir.path().join("none")), Err(SessionError::NotFound { .. })));
    let into_nothing = first.save_context(dir.path().join("no/such/folder.json")).unwrap_err().to_string();
    assert!(into_nothing.contains("could not be written"), "{into_nothing}");
}

/// 002's future scenarios: a checkpoint in a file, without credentials.
#[tokio::test]
async fn a_snapshot_in_a_file_is_the_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.json");
    let agent = with(vec![ScriptedReply::text("a")])
        .configure(|c| c.model = std::sync::Arc::new((*c.model).clone().with_api_key("sk-secret")));
    agent.chat("one").await.unwrap();
    agent.checkpoint().save(&path).unwrap();
    assert_eq!(AgentSnapshot::load(&path).unwrap(), agent.checkpoint());
    assert!(!std::fs::read_to_string(&path).unwrap().contains("sk-secret"));
    std::fs::write(&path, r#"{"version": 99}"#).unwrap();
    assert!(AgentSnapshot::load(&path).unwrap_err().to_string().contains("version 99"));
}

/// Invariant 9.
#[tokio::test]
async fn no_key_is_in_any_file_of_a_session() {
    let (dir, store) = store();
    let mut agent = with(vec![ScriptedReply::text("a")])
        .configure(|c| c.model = std::sync::Arc::new((*c.model).clone().with_api_key("sk-secret")));
    let recorder = SessionRecorder::attach(&mut agent, store);
    agent.chat("one").await.unwrap();
    for name in ["s-1.journal.jsonl", "s-1.json"] {
        if name == "s-1.json" {
            recorder.save().await.unwrap();
        }
        let text = std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(!text.is_empty() && !text.contains("sk-secret"), "{name}");
    }
}

/// X6: what is not resumed is closed with what is known of it.
#[tokio::test]
async fn a_call_that_was_cut_off_and_is_not_resumed_is_closed_as_unknown() {
    let (_dir, store) = store();
    let latch = Latch::new();
    let held = latch.clone();
    let tool = ScriptedTool::new("say", move |_, _| {
        let held = held.clone();
        async move {
            held.wait().await;
            Ok(agent_core::ToolResult::text("late"))
        }
    });
    let calls = ScriptedReply::call("c1", "say", json!({})).and_call("c2", "ask", json!({}));
    let mut first = with(vec![calls]).with_tool(tool).with_tool(ScriptedTool::saying("ask", "x").asking("?"));
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    drop(first.prompt("go").unwrap());
    latch.reached().await;
    recorder.close().await.unwrap();
    let history = store.load_session("s-1").unwrap().history().unwrap();
    let results: Vec<String> = history.messages().skip(2).map(agent_core::AgentMessage::text).collect();
    assert_eq!(
        results,
        [agent_core::fold::CUT_OFF_RESULT, "No result provided"],
        "one had begun, one had not"
    );
    latch.open();
    first.abort();
}

/// A prompt to an interrupted session names the interruption, not an answer to no question.
#[tokio::test]
async fn a_prompt_after_an_interruption_says_that_the_run_was_interrupted() {
    let (_dir, store) = store();
    let mut first = with(vec![ScriptedReply::text("half").and_hang()]);
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    let mut events = first.prompt("go").unwrap();
    while !matches!(events.recv().await.unwrap(), AgentEvent::MessageUpdate { .. }) {}
    recorder.close().await.unwrap();
    let cut = store.load_session("s-1").unwrap();
    assert_eq!(cut.loops[0].status, LoopStatus::Interrupted);
    let elsewhere = JsonStore::open(store.dir().join("elsewhere")).unwrap();
    elsewhere.save_session(&cut).unwrap();

    let second = with(vec![ScriptedReply::text("whole")]);
    let (second, recorder) = second.restore_session(elsewhere.clone(), "s-1").await.unwrap();
    assert!(second.questions().is_empty());
    let error = second.prompt("again").unwrap_err();
    assert!(matches!(error, AgentError::Interrupted), "{error:?}");
    assert!(error.to_string().contains("interrupted") && !error.to_string().contains("question"), "{error}");
    let end = second.resume().unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    recorder.close().await.unwrap();
    assert_eq!(elsewhere.load_session("s-1").unwrap().loops[0].status, LoopStatus::Completed);
}

/// A snapshot of a recorded agent runs with a journal, or after the caller has asked for a run without one.
#[tokio::test]
async fn a_snapshot_of_a_recorded_agent_refuses_to_run_without_a_journal() {
    let (_dir, store) = store();
    let charge = || ScriptedTool::saying("charge", "charged").asking("Charge?");
    let mut first = with(vec![ScriptedReply::call("c1", "charge", json!({}))]).with_tool(charge());
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    assert!(matches!(first.prompt("go").unwrap().end().await, RunEnd::Suspended(_)));
    recorder.close().await.unwrap();
    let snapshot = first.snapshot();
    assert!(snapshot.recorded);
    let question = first.questions()[0].id.clone();
    drop((first, recorder));

    let restored = |replies| with(replies).with_tool(charge()).restore(snapshot.clone()).unwrap();
    let second = restored(vec![ScriptedReply::text("done")]);
    assert!(matches!(second.resume(), Err(AgentError::Unrecorded)));
    assert!(matches!(second.answer(question.clone(), Answer::Allow), Err(AgentError::Unrecorded)));
    assert!(second.snapshot().recorded, "a copy of the copy refuses, too");
    // By request it runs, and no session has the rest.
    assert!(matches!(second.resume_unrecorded().unwrap().end().await, RunEnd::Suspended(_)));
    let end = second.answer(question.clone(), Answer::Allow).unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    assert_eq!(store.load_session("s-1").unwrap().loops[0].status, LoopStatus::Suspended);

    // With a journal it runs and is recorded.
    let mut third = restored(vec![ScriptedReply::text("done")]);
    let recorder = SessionRecorder::attach(&mut third, store.clone());
    let end = third.answer(question.clone(), Answer::Allow).unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    recorder.close().await.unwrap();
    assert_eq!(store.load_session("s-1").unwrap().history().unwrap(), third.history());
}

/// The store checks at the restore, the agent at the resume; both name what is missing alike.
#[tokio::test]
async fn what_an_agent_lacks_is_named_alike_at_the_restore_and_at_the_resume() {
    let (_dir, store) = store();
    let charge = ScriptedTool::saying("charge", "charged").asking("Charge?");
    let mut first = with(vec![ScriptedReply::call("c1", "charge", json!({}))]).with_tool(charge);
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    first.prompt("go").unwrap().collect().await;
    recorder.close().await.unwrap();
    drop((first, recorder));

    let error = with(Vec::new()).restore_session(store.clone(), "s-1").await.unwrap_err();
    let SessionError::Missing { missing, .. } = error else { panic!("{error:?}") };
    let unchecked = with(Vec::new()).restore_unrecorded(&store.load_session("s-1").unwrap()).unwrap();
    let error = unchecked.resume().unwrap_err();
    let AgentError::Lacks { what } = error else { panic!("{error:?}") };
    assert_eq!(missing, [what]);
}

/// A model can call a tool that does not exist. The run needs no such tool when another process continues it.
#[tokio::test]
async fn a_call_of_an_unknown_tool_does_not_prevent_the_restore_of_a_run_that_waits() {
    let (_dir, store) = store();
    let charge = || ScriptedTool::saying("charge", "charged").asking("Charge?");
    let reply = ScriptedReply::call("c1", "charge", json!({})).and_call("c2", "no_such_tool", json!({}));
    let mut first = with(vec![reply]).with_tool(charge());
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    first.prompt("go").unwrap().collect().await;
    recorder.close().await.unwrap();
    drop((first, recorder));

    let second = with(vec![ScriptedReply::text("done")]).with_tool(charge());
    let (second, recorder) = second.restore_session(store.clone(), "s-1").await.unwrap();
    let question = second.questions()[0].id.clone();
    let end = second.answer(question, Answer::Allow).unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    recorder.close().await.unwrap();
}
