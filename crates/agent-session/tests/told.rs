//! What listeners and receivers are told of is recorded, wherever the store fails, and the run continues in the same process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, Answer, BasicAgent, Effects, Ended, ErrorKind, EventReceiver, ModelConfig, RunEnd,
    RunFailure, SessionId, ToolResult,
};
use agent_session::{
    LoadedSession, LoopStatus, PendingWrite, RestoreSession as _, Session, SessionError, SessionReader,
    SessionRecord, SessionRecorder, SessionStore, SessionWriter,
};
use async_trait::async_trait;
use scene::{Kind, Store, block_on, kinds};
use serde_json::json;

/// How a record fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Nothing is written.
    Before,
    /// The record is written, and its writer gets an error.
    After,
    /// Nothing is written, and the store cannot be read until it is repaired.
    Outage,
    /// Nothing is written, and the write never ends.
    HangsBefore,
    /// The record is written, and the write never ends.
    HangsAfter,
}

const PLANNED: &str = "the planned failure";

/// A store in which the `n`th record fails.
#[derive(Debug, Clone)]
struct Failing {
    store: Store,
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    n: usize,
    failure: Failure,
    written: AtomicUsize,
    is_away: AtomicBool,
    hangs: AtomicBool,
}

impl Failing {
    fn new(store: Store, n: usize, failure: Failure) -> Self {
        let (written, is_away, hangs) = Default::default();
        Self { store, plan: Arc::new(Plan { n, failure, written, is_away, hangs }) }
    }

    fn check(&self) -> Result<(), SessionError> {
        if self.plan.is_away.load(Ordering::SeqCst) { Err(failed()) } else { Ok(()) }
    }
}

fn failed() -> SessionError {
    SessionError::store("the session", "written", PLANNED)
}

#[async_trait]
impl SessionStore for Failing {
    fn describe(&self) -> String {
        self.store.describe()
    }

    async fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        self.check()?;
        SessionStore::save_session(&self.store, session).await
    }

    async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        self.check()?;
        SessionStore::load_session(&self.store, id).await
    }

    async fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        SessionStore::delete_session(&self.store, id).await
    }

    async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        SessionStore::list_session_ids(&self.store).await
    }

    async fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
        self.check()?;
        let (writer, found) = SessionStore::write_session(&self.store, id).await?;
        Ok((Box::new(FailingWriter { writer, plan: Arc::clone(&self.plan) }), found))
    }
}

#[derive(Debug)]
struct FailingWriter {
    writer: Box<dyn SessionWriter>,
    plan: Arc<Plan>,
}

#[async_trait]
impl SessionWriter for FailingWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError> {
        if self.plan.written.fetch_add(1, Ordering::SeqCst) != self.plan.n {
            return self.writer.append(record);
        }
        match self.plan.failure {
            Failure::Before => Err(failed()),
            Failure::Outage => {
                self.plan.is_away.store(true, Ordering::SeqCst);
                Err(failed())
            }
            Failure::HangsBefore => {
                let plan = Arc::clone(&self.plan);
                Ok(Some(Box::pin(async move {
                    plan.hangs.store(true, Ordering::SeqCst);
                    std::future::pending().await
                })))
            }
            Failure::After | Failure::HangsAfter => {
                let (pending, plan) = (self.writer.append(record)?, Arc::clone(&self.plan));
                Ok(Some(Box::pin(async move {
                    if let Some(pending) = pending {
                        pending.await?;
                    }
                    if plan.failure == Failure::After {
                        return Err(failed());
                    }
                    plan.hangs.store(true, Ordering::SeqCst);
                    std::future::pending().await
                })))
            }
        }
    }

    async fn save(&mut self, session: Session) -> Result<(), SessionError> {
        self.writer.save(session).await
    }

    fn save_on_drop(&mut self, session: &Session) -> Result<(), SessionError> {
        self.writer.save_on_drop(session)
    }

    fn reader(&self) -> Option<SessionReader> {
        self.writer.reader()
    }
}

/// How often the tool that must not run twice has run.
type Ledger = Arc<AtomicUsize>;

/// A model that is asked again, calls three tools, one of which asks first, and answers.
fn agent(ledger: &Ledger) -> BasicAgent {
    let fails = AtomicBool::new(true);
    let provider = ScriptedProvider::responding(move |request| {
        let replies = request.messages().filter(|m| m.role() == "assistant").count();
        match replies {
            0 if fails.swap(false, Ordering::SeqCst) => ScriptedReply::error(ErrorKind::Network, "reset"),
            0 => ScriptedReply::text("I look.").and_call("c1", "say", json!({})).and_call(
                "c2",
                "send",
                json!({}),
            ),
            1 => ScriptedReply::call("c3", "ask", json!({})),
            _ => ScriptedReply::text("Done."),
        }
    });
    let sent = Arc::clone(ledger);
    let send = ScriptedTool::new("send", move |_, _| {
        sent.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolResult::text("sent")) }
    });
    BasicAgent::new(ModelConfig::default())
        .with_environment(Arc::new(ManualEnvironment::skipping(1_000)))
        .with_provider(provider)
        .with_session_id("s-1")
        .with_tool(ScriptedTool::saying("say", "said"))
        .with_tool(send.with_effects(Effects::Once))
        .with_tool(ScriptedTool::saying("ask", "allowed").asking("May I?"))
}

/// What was told: to the listeners, and to the receivers with its number.
#[derive(Debug, Clone, Default)]
struct Told {
    heard: Arc<Mutex<Vec<AgentEvent>>>,
    received: Arc<Mutex<Vec<(u64, AgentEvent)>>>,
}

impl Told {
    fn subscribe(&self, agent: &BasicAgent) {
        let heard = Arc::clone(&self.heard);
        agent.subscribe(move |event| heard.lock().unwrap().push(event.clone()));
    }

    async fn receive(&self, mut events: EventReceiver) {
        while let Some(event) = events.recv_numbered().await {
            self.received.lock().unwrap().push((event.number, event.event));
        }
    }

    /// Checks that the store has what was told, in order, and nothing else if the run `is_over`. The start of a reply is told
    /// with its pieces, and the end of a run that could not be recorded is told as such.
    #[track_caller]
    fn check(&self, store: &Store, is_over: bool, label: &str) {
        let stored = events_of(store);
        let is_recorded = |event: &AgentEvent| match event {
            AgentEvent::AgentEnd(end) => !matches!(end.ended, Ended::Interrupted { .. }),
            event => !event.is_live(),
        };
        let is_start = |event: &AgentEvent| matches!(event, AgentEvent::MessageStart { message, .. } if message.role() == "assistant");
        let received = self.received.lock().unwrap().clone();
        let heard = self.heard.lock().unwrap().clone();
        let numbered: Vec<(u64, AgentEvent)> =
            received.iter().filter(|(_, e)| is_recorded(e)).cloned().collect();
        for (at, (number, event)) in numbered.iter().enumerate() {
            assert_eq!(*number, at as u64 + 1, "{label}: {event:?}");
            match stored.get(at) {
                Some(found) => assert_eq!(found, event, "{label}"),
                None => assert!(
                    is_start(event) && at + 1 == numbered.len(),
                    "{label}: {event:?} was told and is not stored"
                ),
            }
        }
        if is_over {
            assert_eq!(numbered.len(), stored.len(), "{label}: what is stored was told");
        }
        let both: Vec<&AgentEvent> =
            received.iter().map(|(_, event)| event).filter(|e| !e.is_live()).collect();
        assert_eq!(heard.iter().filter(|e| !e.is_live()).collect::<Vec<_>>(), both, "{label}");
    }
}

fn load(store: &Store) -> Option<LoadedSession> {
    match (**store).load_session("s-1") {
        Ok(loaded) => Some(loaded),
        Err(SessionError::NotFound { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn events_of(store: &Store) -> Vec<AgentEvent> {
    let Some(loaded) = load(store) else { return Vec::new() };
    assert!(loaded.loops.len() < 2);
    let events = loaded.loops.iter().flat_map(|record| &record.events);
    events.map(|event| event.known().unwrap().clone()).collect()
}

/// Answers until the run ends or is interrupted. Returns the reason of an interruption.
async fn finish(agent: &BasicAgent, told: &Told, ledger: &Ledger) -> Option<String> {
    loop {
        match agent.finish().await.unwrap() {
            RunEnd::Completed(_) => return None,
            RunEnd::Suspended(questions) => {
                // The call that must not run twice is asked about where it may have run; the ledger tells.
                let may_run = questions[0].call.as_ref().is_some_and(|call| call.id == *"c3")
                    || ledger.load(Ordering::SeqCst) == 0;
                let answer = match may_run {
                    true => Answer::Allow,
                    false => Answer::Deny { reason: "It has run.".into() },
                };
                told.receive(agent.answer(questions[0].id.clone(), answer).unwrap()).await;
            }
            RunEnd::Failed(RunFailure::Interrupted { reason }) => return Some(reason),
            other => panic!("{other:?}"),
        }
    }
}

/// Lets each record of a run fail. Returns how many there are.
async fn fail_each(kind: Kind, failure: Failure) -> usize {
    for n in 0.. {
        let label = format!("{kind:?}, {failure:?}, record {n}");
        let dir = tempfile::tempdir().unwrap();
        let (store, ledger, told) = (kind.open(dir.path()), Ledger::default(), Told::default());
        let failing = Failing::new(store.clone(), n, failure);
        let mut agent = agent(&ledger);
        let recorder = SessionRecorder::attach(&mut agent, failing.clone());
        told.subscribe(&agent);
        told.receive(agent.prompt("Go").unwrap()).await;
        let Some(mut reason) = finish(&agent, &told, &ledger).await else {
            told.check(&store, true, &label);
            return n;
        };
        assert!(reason.contains(PLANNED), "{label}: {reason}");
        told.check(&store, false, &label);
        let history = agent.history();
        if failure == Failure::Outage {
            // The store is still away: that is told again, and nothing else.
            told.receive(agent.resume().unwrap()).await;
            reason = finish(&agent, &told, &ledger).await.expect(&label);
            assert!(reason.contains(PLANNED), "{label}: {reason}");
            assert_eq!(agent.history(), history, "{label}");
            failing.plan.is_away.store(false, Ordering::SeqCst);
            told.check(&store, false, &label);
        }
        told.receive(agent.resume().unwrap_or_else(|error| panic!("{label}: {error}"))).await;
        assert_eq!(finish(&agent, &told, &ledger).await, None, "{label}");
        told.check(&store, true, &label);
        let loaded = load(&store).unwrap();
        assert_eq!(loaded.loops[0].status, LoopStatus::Completed, "{label}");
        assert_eq!(loaded.history().unwrap(), agent.history(), "{label}");
        assert_eq!(ledger.load(Ordering::SeqCst), 1, "{label}");
        recorder.close().await.unwrap();
        assert_eq!(load(&store).unwrap().history().unwrap(), agent.history(), "{label}");
    }
    unreachable!()
}

/// Every record of a run fails once, in each way. The store has what was told, the run names the failure, and `resume()` continues
/// it in the same process without a second call of a tool that must not run twice.
#[test]
fn what_is_told_is_recorded_wherever_the_store_fails_and_the_run_resumes_in_the_same_process() {
    for kind in kinds() {
        for failure in [Failure::Before, Failure::After, Failure::Outage] {
            let records = block_on(fail_each(*kind, failure));
            assert!(records > 10, "{records} records");
        }
    }
}

/// Another process continues what this one could not record.
#[test]
fn another_process_resumes_from_what_was_told() {
    for kind in kinds() {
        for n in 1..6 {
            let label = format!("{kind:?}, record {n}");
            let dir = tempfile::tempdir().unwrap();
            let (store, ledger, told) = (kind.open(dir.path()), Ledger::default(), Told::default());
            block_on(async {
                let mut first = agent(&ledger);
                drop(SessionRecorder::attach(&mut first, Failing::new(store.clone(), n, Failure::Before)));
                told.receive(first.prompt("Go").unwrap()).await;
                assert!(finish(&first, &told, &ledger).await.is_some(), "{label}");
                drop(first);
                let (second, recorder) = agent(&ledger).restore_session(store.clone(), "s-1").await.unwrap();
                told.receive(second.resume().unwrap()).await;
                assert_eq!(finish(&second, &told, &ledger).await, None, "{label}");
                assert_eq!(load(&store).unwrap().history().unwrap(), second.history(), "{label}");
                recorder.close().await.unwrap();
            });
        }
    }
}

/// A run whose runtime ends while a record is written continues in another runtime.
#[test]
fn a_run_whose_runtime_ended_in_a_write_resumes_in_another_runtime() {
    for kind in kinds().iter().filter(|kind| kind.is_in_folder()) {
        for failure in [Failure::HangsBefore, Failure::HangsAfter] {
            for n in 0..8 {
                hang(*kind, failure, n);
            }
        }
    }
}

fn hang(kind: Kind, failure: Failure, n: usize) {
    let label = format!("{kind:?}, {failure:?}, record {n}");
    let dir = tempfile::tempdir().unwrap();
    let (store, ledger, told) = (kind.open(dir.path()), Ledger::default(), Told::default());
    let failing = Failing::new(store.clone(), n, failure);
    let mut agent = agent(&ledger);
    let recorder = SessionRecorder::attach(&mut agent, failing.clone());
    told.subscribe(&agent);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let events = first.block_on(async {
        let events = agent.prompt("Go").unwrap();
        while !failing.plan.hangs.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        events
    });
    drop(first);
    runtime().block_on(told.receive(events));
    told.check(&store, false, &label);
    runtime().block_on(async {
        told.receive(agent.resume().unwrap_or_else(|error| panic!("{label}: {error}"))).await;
        assert_eq!(finish(&agent, &told, &ledger).await, None, "{label}");
        told.check(&store, true, &label);
        assert!(ledger.load(Ordering::SeqCst) <= 1, "{label}");
        recorder.close().await.unwrap();
        assert_eq!(load(&store).unwrap().history().unwrap(), agent.history(), "{label}");
    });
}
