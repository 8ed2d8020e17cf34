//! A process that is killed, and what is left of its session.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "the child is this test itself, on files of this test")]

mod scene;

use agent_core::compat::SeedSetters as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::journal::{Journal, JournalEntry, JournalError};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, ExecutionLimits, ModelConfig};
use agent_session::{LoopStatus, RestoreSession, Session, SessionError, SessionRecorder};
use async_trait::async_trait;
use scene::{Kind, kinds};

/// The file without which the child does nothing, so that running all ignored tests does no harm.
const GO: &str = "go";

/// Says on standard output how many events are safe.
#[derive(Debug)]
struct Acknowledging(Arc<dyn Journal>, AtomicUsize);

#[async_trait]
impl Journal for Acknowledging {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        let events = entry.events.len();
        self.0.append(entry).await?;
        let safe = self.1.fetch_add(events, Ordering::Relaxed) + events;
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nack {safe}").and_then(|()| out.flush()).unwrap();
        Ok(())
    }
}

fn agent() -> BasicAgent {
    let count = AtomicUsize::new(0);
    let provider = ScriptedProvider::responding(move |_| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        let text = format!("Reply {n}: {}", "some text ".repeat(n % 40));
        ScriptedReply::text(text).and_call(
            &format!("call_{n}_{}", std::process::id()),
            "say",
            serde_json::json!({}),
        )
    });
    BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_session_id("killed")
        .with_execution_limits(ExecutionLimits::unlimited().with_max_turns(2_000))
        .with_context_config(None)
        .with_tool(ScriptedTool::saying("say", "said ".repeat(60)))
}

/// What is killed. It goes on with what it finds.
#[test]
#[ignore = "the child of another test"]
fn the_child_records_until_it_is_killed() {
    if !Path::new(GO).exists() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = kind().open(Path::new("."));
        let mut agent = agent();
        let mut safe = 0;
        let mut resumes = false;
        if let Ok(loaded) = store.load_session("killed") {
            safe = events_of(&loaded);
            resumes = loaded.open_run().unwrap().is_some();
            agent = agent.restore_unrecorded(&loaded).unwrap();
        }
        let recorder = SessionRecorder::attach(&mut agent, store);
        let journal = agent.config().services.journal.unwrap();
        agent.set_journal(Some(Arc::new(Acknowledging(journal, AtomicUsize::new(safe)))));
        let events = if resumes { agent.resume() } else { agent.prompt("Go on.") };
        drop(events.unwrap());
        writeln!(std::io::stdout().lock(), "\nend {:?}", agent.finish().await).unwrap();
        drop(recorder);
    });
}

/// The kind of store that the child was told.
fn kind() -> Kind {
    let name = std::fs::read_to_string(GO).unwrap();
    Kind::named(&name)
}

fn child(dir: &Path, kind: Kind) -> Child {
    std::fs::write(dir.join(GO), format!("{kind:?}")).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &scene::test_in(module_path!(), "the_child_records_until_it_is_killed")])
        .args(["--ignored", "--nocapture"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The number of the last acknowledgement that is whole.
fn acknowledged(text: &str) -> usize {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let last = whole.lines().filter_map(|l| l.strip_prefix("ack ")).next_back();
    last.map_or(0, |n| n.parse().unwrap())
}

fn events_of(session: &Session) -> usize {
    session.loops.iter().map(|r| r.events.len()).sum()
}

/// REQ-216, B-178.
#[test]
fn a_killed_process_leaves_a_session_that_loads_resumes_and_has_all_that_was_acknowledged() {
    for kind in kinds() {
        kill_and_look(*kind);
    }
}

fn kill_and_look(kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let store = kind.open(dir.path());
    let mut before = 0;
    let mut interrupted = 0;
    for round in 0..12u64 {
        let mut child = child(dir.path(), kind);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.contains("ack ") {
            assert_ne!(out.read_line(&mut text).unwrap(), 0, "the child ended: {text}");
        }
        // Any moment will do; these are different ones.
        std::thread::sleep(Duration::from_millis(round * round % 23));
        child.kill().unwrap();
        child.wait().unwrap();
        out.read_to_string(&mut text).unwrap();
        kind.after_kill(dir.path());

        let loaded = store.load_session("killed").unwrap();
        let (safe, found) = (acknowledged(&text), events_of(&loaded));
        assert!(found >= safe, "round {round}: {safe} events were acknowledged, {found} are there");
        assert!(found >= before, "round {round}: {before} events were there, {found} are");
        before = found;
        let last = loaded.loops.last().unwrap();
        if last.status != LoopStatus::Stopped {
            assert_eq!(last.status, LoopStatus::Interrupted);
            assert!(loaded.open_run().unwrap().is_some());
            interrupted += 1;
        }
        // Every call has its result, wherever it was cut.
        loaded.history().unwrap();
    }
    assert!(interrupted > 0, "no round was killed in the middle of a run");
}

/// B-180.
#[test]
fn while_one_process_writes_another_reads_and_is_told_that_it_may_not_write() {
    for kind in kinds() {
        read_beside_a_writer(*kind);
    }
}

fn read_beside_a_writer(kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let store = kind.open(dir.path());
    let mut child = child(dir.path(), kind);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("ack ") {
        assert_ne!(out.read_line(&mut text).unwrap(), 0, "the child ended: {text}");
    }
    // The pipe is full soon, so the child stays where it is and holds the lock.
    let loaded = store.load_session("killed").unwrap();
    assert_eq!(loaded.loops[0].status, LoopStatus::Running);
    let refused = store.save_session(&loaded);
    assert!(
        matches!(&refused, Err(SessionError::Locked { lock }) if lock.contains("killed.lock") || lock.starts_with("session killed in ")),
        "{refused:?}"
    );
    assert!(matches!(store.delete_session("killed"), Err(SessionError::Locked { .. })));

    child.kill().unwrap();
    child.wait().unwrap();
    kind.after_kill(dir.path());
    let loaded = store.load_session("killed").unwrap();
    assert_eq!(loaded.loops[0].status, LoopStatus::Interrupted);
    store.save_session(&loaded).unwrap();
}
