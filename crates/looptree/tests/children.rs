//! Child loops of tool calls: their events, their questions, and their continuation after the end of a process.
#![cfg(all(feature = "tools", feature = "session", feature = "testing"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use looptree::event::NumberedEvent;
use looptree::identity::{LoopId, SessionId};
use looptree::journal::{GroupEntry, Journal, JournalEntry, JournalError, RecordedLoop};
use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::session::LoopStatus;
use looptree::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, transcript};
use looptree::tools::SubAgentTool;
use looptree::{Message, Timestamp};
use serde_json::json;

fn model(id: &str) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, "p", id)
}

/// An orchestrator with two tasks for its helper. The helper works once on each and reports.
fn world() -> ScriptedProvider {
    ScriptedProvider::responding(|request| {
        let said = request.messages().count();
        let first = request.messages().next().map(Message::text).unwrap_or_default();
        match (request.model.id.as_str(), said) {
            ("boss", 1) => ScriptedReply::new().and_call("a", "helper", json!({"task": "paint"})).and_call(
                "b",
                "helper",
                json!({"task": "sing"}),
            ),
            ("boss", _) => "all done".into(),
            (_, 1) => ScriptedReply::call("k", "work", json!({"on": first})),
            (_, _) => ScriptedReply::text(format!("{first} done")),
        }
    })
}

/// Counts the effects of the helper's tool by task.
#[derive(Clone, Default)]
struct Done(Arc<Mutex<BTreeMap<String, usize>>>);

impl Done {
    fn tool(&self) -> ScriptedTool {
        let done = self.clone();
        ScriptedTool::new("work", move |arguments, _| {
            let on = arguments["on"].as_str().unwrap_or_default().to_owned();
            *done.0.lock().unwrap().entry(on.clone()).or_default() += 1;
            async move { Ok(ToolResult::text(format!("worked on {on}"))) }
        })
        .with_effects(Effects::Once)
    }
}

fn orchestrator(provider: &ScriptedProvider, work: ScriptedTool) -> BasicAgent {
    let helper = SubAgentTool::new("helper", model("small")).with_tool(work);
    looptree::agent(model("boss")).with_provider(provider.clone()).with_tool(helper)
}

/// The events with the depth and the short name of their loop, and their number in it.
fn numbered(events: &[NumberedEvent]) -> String {
    let mut names: BTreeMap<LoopId, String> = BTreeMap::new();
    let mut lines = Vec::new();
    for event in events.iter().filter(|event| !event.event.is_live()) {
        let count = names.len();
        let name = names.entry(event.event.loop_id().clone()).or_insert_with(|| match count {
            0 => "boss".to_owned(),
            n => format!("child {n}"),
        });
        let word = transcript(std::slice::from_ref(&event.event));
        let word = if word.is_empty() { "message_start".to_owned() } else { word };
        let place = "  ".repeat(event.depth as usize);
        lines.push(format!("{place}{name} #{} {word}", event.number));
    }
    lines.join("\n")
}

/// REQ-148, REQ-150, REQ-195.
#[tokio::test]
async fn the_stream_of_the_caller_has_the_events_of_its_children_as_they_are() {
    let done = Done::default();
    // One child after the other, so that the order is the same in each run.
    let agent = orchestrator(&world(), done.tool()).configure(|c| c.policy.max_concurrent_tools = Some(1));
    let events = agent.prompt("go").unwrap().collect_numbered().await;
    insta::assert_snapshot!(numbered(&events));
    let own = events[0].event.loop_id().clone();
    for event in &events {
        let is_own = *event.event.loop_id() == own;
        assert_eq!(event.depth, u32::from(!is_own));
        assert_eq!(event.parent_loop_id, (!is_own).then(|| own.clone()));
        assert!(!matches!(event.event, AgentEvent::ToolExecutionUpdate { .. }));
    }
    let ids: BTreeSet<_> = events.iter().filter(|e| !e.event.is_live()).map(NumberedEvent::id).collect();
    assert_eq!(ids.len(), events.iter().filter(|e| !e.event.is_live()).count(), "each id occurs once");
    // Each child names the call that it works for, and the caller has announced that call before.
    let mut announced = Vec::new();
    let mut worked_for = Vec::new();
    for event in &events {
        match &event.event {
            AgentEvent::ToolExecutionStart { loop_id, tool_call_id, tool_name, .. } if *loop_id == own => {
                announced.push((tool_call_id.clone(), tool_name.clone()));
            }
            AgentEvent::AgentStart(start) if start.loop_id == own => assert_eq!(start.spawned_by, None),
            AgentEvent::AgentStart(start) => {
                let by = start.spawned_by.clone().expect("a child names its call");
                let call = (by.tool_call_id, by.tool_name);
                assert!(
                    announced.contains(&call) && call.1.as_str() == "helper",
                    "{call:?} of {announced:?}"
                );
                worked_for.push(call.0);
            }
            _ => {}
        }
    }
    assert_eq!(worked_for.len(), announced.len());
    assert!(worked_for.len() > 1 && worked_for.windows(2).all(|pair| pair[0] != pair[1]), "{worked_for:?}");
}

/// A journal that stops the process at the n-th record: before it is written, or after.
#[derive(Debug)]
struct Fuse {
    inner: Arc<dyn Journal>,
    left: AtomicUsize,
    is_written: bool,
    burnt: tokio::sync::Notify,
}

impl Fuse {
    async fn pass(&self) -> bool {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        match left {
            Ok(1) => self.burnt.notify_one(),
            Ok(_) => return true,
            Err(_) => std::future::pending().await,
        }
        if !self.is_written {
            std::future::pending::<()>().await;
        }
        false
    }
}

#[async_trait::async_trait]
impl Journal for Fuse {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        let goes_on = self.pass().await;
        self.inner.append(entry).await?;
        if goes_on { Ok(()) } else { std::future::pending().await }
    }

    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        self.inner.append_group(entry).await
    }

    async fn recorded_loop(&self, session: &SessionId, id: &LoopId) -> Result<RecordedLoop, JournalError> {
        self.inner.recorded_loop(session, id).await
    }
}

/// A journal around the agent's own that stops at the n-th record.
fn with_fuse(agent: BasicAgent, n: usize, is_written: bool) -> (BasicAgent, Arc<Fuse>) {
    let mut fuse = None;
    let agent = agent.configure(|c| {
        let (inner, left) = (c.services.journal.take().unwrap(), AtomicUsize::new(n));
        let new = Arc::new(Fuse { inner, left, is_written, burnt: tokio::sync::Notify::new() });
        c.services.journal = Some(new.clone());
        fuse = Some(new);
    });
    (agent, fuse.unwrap())
}

/// Waits for the end of the run or for the n-th record. Returns whether it was cut off.
async fn wait(mut events: EventReceiver, fuse: &Fuse) -> bool {
    tokio::select! {
        biased;
        () = fuse.burnt.notified() => {
            // Until everything that does not wait for the record has come to rest.
            tokio::time::sleep(Duration::from_millis(5)).await;
            true
        }
        end = events.end() => {
            assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
            false
        }
    }
}

/// Runs `work` in a runtime that ends with everything in it.
fn in_process<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}

/// Runs the orchestrator until its n-th record. Returns its session, and whether it was cut off.
fn run_until(n: usize, is_written: bool, folder: &Path, done: &Done) -> (SessionId, bool) {
    in_process(async {
        let mut agent = orchestrator(&world(), done.tool());
        let _recorder = SessionRecorder::attach(&mut agent, JsonStore::open(folder).unwrap());
        let (agent, fuse) = with_fuse(agent, n, is_written);
        let cut = wait(agent.prompt("go").unwrap(), &fuse).await;
        (agent.session_id(), cut)
    })
}

/// Runs the orchestrator until both children ask, answers both questions from outside, and resumes it until its n-th
/// record.
fn answer_and_resume_until(n: usize, is_written: bool, folder: &Path, done: &Done) -> (SessionId, bool) {
    let store = JsonStore::open(folder).unwrap();
    let tool = || done.tool().asking("Work now?");
    let id = in_process(async {
        let mut agent = orchestrator(&world(), tool());
        let _recorder = SessionRecorder::attach(&mut agent, store.clone());
        let end = agent.prompt("go").unwrap().end().await;
        assert!(matches!(end, RunEnd::Suspended(ref questions) if questions.len() == 2), "{end:?}");
        agent.session_id()
    });
    in_process(async {
        for question in ["a/k", "b/k"] {
            store.answer(&id, question, Answer::Allow, Timestamp(1)).await.unwrap();
        }
        let agent = orchestrator(&world(), tool());
        let (agent, _recorder) = agent.restore_session(store.clone(), id.as_str()).await.unwrap();
        let (agent, fuse) = with_fuse(agent, n, is_written);
        let cut = wait(agent.resume().unwrap(), &fuse).await;
        (id.clone(), cut)
    })
}

/// REQ-148, REQ-178, REQ-212. The process ends before and after each record of the caller and its children. The resumed
/// caller continues its children: each task is done once, and the tree has both children with their messages.
#[test]
fn a_caller_that_is_killed_at_each_step_is_resumed_with_its_children() {
    let (mut cuts, mut asked) = (0, 0);
    for is_written in [false, true] {
        for n in 1.. {
            let folder = tempfile::tempdir().unwrap();
            let done = Done::default();
            let (id, cut) = run_until(n, is_written, folder.path(), &done);
            if !cut {
                break;
            }
            cuts += 1;
            asked += resume_and_check(&id, folder.path(), &done, &format!("{n} {is_written}"));
        }
    }
    assert!(cuts > 20, "{cuts}");
    assert!(asked > 0, "a call with an effect that was running is asked about");
}

/// REQ-148, REQ-178. Answers that another process gave are not lost, whichever record of the resumed caller and its
/// children is the last one.
#[test]
fn an_answered_caller_that_is_killed_at_each_step_asks_nothing_again() {
    let mut cuts = 0;
    for is_written in [false, true] {
        for n in 1.. {
            let folder = tempfile::tempdir().unwrap();
            let done = Done::default();
            let (id, cut) = answer_and_resume_until(n, is_written, folder.path(), &done);
            if !cut {
                break;
            }
            cuts += 1;
            resume_and_check(&id, folder.path(), &done, &format!("answered {n} {is_written}"));
        }
    }
    assert!(cuts > 10, "{cuts}");
}

/// Resumes the caller and checks the tree. Returns the number of questions.
fn resume_and_check(id: &SessionId, folder: &Path, done: &Done, at: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = JsonStore::open(folder).unwrap();
        if store.load_session(id.as_str()).is_err() {
            assert!(done.0.lock().unwrap().is_empty(), "{at}: nothing was recorded");
            return 0;
        }
        let provider = world();
        let agent = orchestrator(&provider, done.tool());
        let (agent, recorder) = agent.restore_session(store.clone(), id.as_str()).await.unwrap();
        let mut asked = 0;
        if let Ok(mut events) = agent.resume() {
            let mut end = events.end().await;
            while let RunEnd::Suspended(questions) = &end {
                asked += 1;
                assert!(
                    questions[0].id.as_str().ends_with("/k"),
                    "{at}: only a call of a child is asked about"
                );
                assert!(questions[0].text.contains("had started"), "{at}: {questions:?}");
                let on = questions[0].call.as_ref().unwrap().arguments.value().unwrap()["on"].clone();
                // The user looks whether the work was done.
                let was_done = done.0.lock().unwrap().contains_key(on.as_str().unwrap());
                let answer = if was_done { Answer::deny("it was done") } else { Answer::Allow };
                end = agent.answer(questions[0].id.clone(), answer).unwrap().end().await;
            }
            assert!(matches!(end, RunEnd::Completed(_)), "{at}: {end:?}");
        }
        recorder.close().await.unwrap();
        let counts = done.0.lock().unwrap().clone();
        assert_eq!(counts, BTreeMap::from([("paint".to_owned(), 1), ("sing".to_owned(), 1)]), "{at}");
        let parent = store.load_session(id.as_str()).unwrap().into_session();
        let record = parent.loops.last().unwrap();
        assert_eq!(record.status, LoopStatus::Completed, "{at}");
        let links: BTreeMap<_, _> =
            record.child_loop_refs.iter().map(|link| (link.tool_call_id.as_str(), link)).collect();
        assert_eq!(links.keys().copied().collect::<Vec<_>>(), ["a", "b"], "{at}");
        for (link, task) in links.values().zip(["paint", "sing"]) {
            let child = store.load_session(link.child_session_id.as_str()).unwrap().into_session();
            assert_eq!(child.loops.len(), 1, "{at}");
            assert_eq!(child.loops[0].status, LoopStatus::Completed, "{at}");
            assert_eq!(child.loops[0].parent_loop_id.as_ref(), Some(&record.loop_id), "{at}");
            let said: Vec<String> = child.history().unwrap().llm_messages().map(Message::text).collect();
            assert_eq!((said[0].as_str(), said[3].as_str()), (task, &*format!("{task} done")), "{at}");
        }
        assert_eq!(store.list_session_ids().unwrap().len(), 3, "{at}: the caller and its children");
        asked
    })
}

fn asking() -> ScriptedTool {
    ScriptedTool::saying("work", "worked").asking("Work now?")
}

/// REQ-148, B-146. A child that asks suspends its caller. The question is among those of the caller and is answered there,
/// in memory or by another process.
#[tokio::test]
async fn a_question_of_a_child_is_answered_at_its_caller() {
    let agent = orchestrator(&world(), asking());
    let events = agent.prompt("go").unwrap().collect().await;
    let suspended = events.iter().filter(|e| matches!(e, AgentEvent::RunSuspended { .. })).count();
    assert_eq!(suspended, 3, "both children, then their caller");
    let ids: Vec<String> = agent.questions().iter().map(|q| q.id.to_string()).collect();
    assert_eq!(ids, ["a/k", "b/k"]);
    let end = agent.answer("b/k", Answer::Allow).unwrap().end().await;
    assert!(matches!(end, RunEnd::Suspended(ref left) if left.len() == 1), "{end:?}");
    let end = agent.answer("a/k", Answer::deny("not today")).unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    let results: Vec<String> = agent.history().llm_messages().map(Message::text).collect();
    assert_eq!(results, ["go", "", "paint done", "sing done", "all done"]);
}

/// REQ-148, REQ-178. The process of the caller ends while both children wait. Another program answers both questions.
#[tokio::test]
async fn a_question_of_a_child_is_answered_from_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let mut agent = orchestrator(&world(), asking());
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let end = agent.prompt("go").unwrap().end().await;
    assert!(matches!(end, RunEnd::Suspended(ref questions) if questions.len() == 2), "{end:?}");
    recorder.close().await.unwrap();
    drop((agent, recorder));

    let found = store.unfinished().await.unwrap();
    assert_eq!(found.waiting().len(), 1, "the children wait with their caller: {found:?}");
    let (id, questions) = (found.waiting()[0].session_id.clone(), found.waiting()[0].questions.clone());
    for question in questions {
        assert_eq!(question.text, "Work now?");
        store.answer(&id, question.id, Answer::Allow, Timestamp(1)).await.unwrap();
    }

    let provider = world();
    let agent = orchestrator(&provider, asking());
    let (agent, recorder) = agent.restore_session(store.clone(), id.as_str()).await.unwrap();
    let events = agent.resume().unwrap().collect().await;
    let text = transcript(&events);
    assert!(text.contains("answered(a/k)") && text.contains("answered(b/k)"), "{text}");
    assert!(text.ends_with("agent_end(completed)"), "{text}");
    // One request for each child after its call, and one for the caller.
    assert_eq!(provider.requests().len(), 3, "nothing is repeated");
    recorder.close().await.unwrap();
    assert_eq!(store.list_session_ids().unwrap().len(), 3);
}

/// REQ-141. An abort while a child waits ends the caller, and its calls have results.
#[tokio::test]
async fn an_abort_while_a_child_waits_ends_the_caller() {
    let agent = orchestrator(&world(), asking());
    agent.prompt("go").unwrap().collect().await;
    agent.abort();
    let end = agent.finish().await;
    assert!(matches!(end, Some(RunEnd::Aborted)), "{end:?}");
    assert!(agent.questions().is_empty());
    let results: Vec<String> = agent.history().llm_messages().map(Message::text).collect();
    assert_eq!(results[2..], ["Operation aborted", "Operation aborted"]);
}
