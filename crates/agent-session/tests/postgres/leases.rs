//! Leases: who may write a session, and until when.

use agent_core::compat::SeedSetters as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, Effects, ExecutionLimits, ModelConfig};
use agent_session::{
    LoopStatus, PostgresStore, RestoreSession as _, SessionError, SessionRecorder, SessionStore as _,
};

use super::scene::postgres::Address;
use super::scene::{Delegating, block_on, test_in};
use super::{address, answering};

/// The lease of the processes that are killed or stopped.
const LEASE: Duration = Duration::from_secs(2);

/// The file that tells a child which schema it uses.
const GO: &str = "go";

async fn open(address: &Address) -> PostgresStore {
    PostgresStore::open_with(address.config().with_lease(LEASE)).await.unwrap()
}

/// Records rounds, one after the other, until it is killed or a record is refused.
#[test]
#[ignore = "the child of another test"]
fn a_child_writes_rounds_until_it_is_killed_or_refused() {
    let Ok(text) = std::fs::read_to_string(GO) else { return };
    let (url, schema) = text.split_once('\n').unwrap();
    let address = Address { url: url.to_owned(), schema: schema.to_owned() };
    block_on(async {
        let store = open(&address).await;
        let provider =
            ScriptedProvider::responding(|_| ScriptedReply::call("c", "wait", serde_json::json!({})));
        let tool = ScriptedTool::new("wait", |_, _| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(agent_core::ToolResult::text("ok"))
        });
        let mut agent = BasicAgent::new(ModelConfig::default())
            .with_session_id("s-1")
            .with_provider(provider)
            .with_execution_limits(ExecutionLimits::unlimited())
            .with_context_config(None)
            .with_tool(tool);
        let _recorder = SessionRecorder::attach(&mut agent, store);
        println!("\nready");
        let error = agent.chat("Go.").await.unwrap_err();
        println!("\nended {error}");
    });
}

fn child(dir: &Path, address: &Address) -> Child {
    child_of(dir, address, "a_child_writes_rounds_until_it_is_killed_or_refused")
}

fn child_of(dir: &Path, address: &Address, test: &str) -> Child {
    std::fs::write(dir.join(GO), format!("{}\n{}", address.url, address.schema)).unwrap();
    let name = test_in(module_path!(), test);
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--ignored", "--nocapture"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until the session has some records.
fn until_written(address: &Address) {
    until_written_where(address, "records > 5");
}

fn until_written_where(address: &Address, condition: &str) {
    let begun = Instant::now();
    while address.sql(&format!("SELECT records FROM sessions WHERE {condition}")).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the child writes nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_session_of_a_killed_writer_is_free_when_its_lease_has_ended_and_not_before() {
    let Some(address) = address("killed writer") else { return };
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(&address).await;
        let mut child = child(dir.path(), &address);
        until_written(&address);
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = Instant::now();
        let refused = store.write_session("s-1").await;
        let Err(SessionError::Locked { lock }) = refused else { panic!("{refused:?}") };
        assert!(lock.contains("leased to looptree, process ") && lock.contains(" s more"), "{lock}");
        assert_eq!(store.load_session("s-1").await.unwrap().loops[0].status, LoopStatus::Running);
        let found = loop {
            match store.write_session("s-1").await {
                Ok((_writer, found)) => break found.unwrap(),
                Err(SessionError::Locked { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(other) => panic!("{other}"),
            }
        };
        let waited = killed.elapsed();
        assert!(waited + Duration::from_millis(300) > LEASE / 2, "the lease ended after {waited:?}");
        assert!(found.loops[0].messages.len() > 5);
        assert_eq!(store.load_session("s-1").await.unwrap().loops[0].status, LoopStatus::Interrupted);
    });
}

/// An agent whose sub-agent replies as `provider` does.
fn with_sub_agent(provider: ScriptedProvider) -> BasicAgent {
    let tool = ScriptedTool::new("wait", |_, _| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(agent_core::ToolResult::text("ok"))
    });
    let call = ScriptedReply::call("d", "delegate", serde_json::json!({}));
    BasicAgent::new(ModelConfig::default())
        .with_session_id("s-1")
        .with_provider(ScriptedProvider::responding(move |request| match request.messages().count() {
            1 => call.clone(),
            _ => "Done.".into(),
        }))
        .with_tool(Delegating(provider, Some(tool.with_effects(Effects::ReadOnly))))
}

/// Records a sub-agent that works until the process is killed.
#[test]
#[ignore = "the child of another test"]
fn a_child_has_a_sub_agent_that_works_until_it_is_killed() {
    let Ok(text) = std::fs::read_to_string(GO) else { return };
    let (url, schema) = text.split_once('\n').unwrap();
    let address = Address { url: url.to_owned(), schema: schema.to_owned() };
    block_on(async {
        let calls = ScriptedProvider::responding(|_| ScriptedReply::call("c", "wait", serde_json::json!({})));
        let mut agent = with_sub_agent(calls);
        let _recorder = SessionRecorder::attach(&mut agent, open(&address).await);
        let _ = agent.chat("Go.").await;
    });
}

/// The lease of a caller ends before that of its sub-agent. The caller is not restored until both have ended, then this process has
/// both, and the run is resumed to its end.
#[test]
fn the_leases_of_a_caller_and_its_sub_agent_are_taken_together() {
    let Some(address) = address("tree") else { return };
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let (store, other) = (open(&address).await, open(&address).await);
        let mut child =
            child_of(dir.path(), &address, "a_child_has_a_sub_agent_that_works_until_it_is_killed");
        until_written_where(&address, "parent IS NOT NULL AND records > 5");
        child.kill().unwrap();
        child.wait().unwrap();
        // As if the sub-agent had written last.
        address.sql("UPDATE leases SET expires_at = expires_at - interval '500 ms' WHERE id = 's-1'");
        let sub_agent = address.sql("SELECT id FROM sessions WHERE parent IS NOT NULL").remove(0).unwrap();
        let mut refusals = Vec::new();
        let (agent, recorder) = loop {
            let agent = with_sub_agent(ScriptedProvider::responding(|_| "Out.".into()));
            match agent.restore_session(store.clone(), "s-1").await {
                Ok(restored) => break restored,
                Err(SessionError::Locked { lock }) => refusals.push(lock),
                Err(other) => panic!("{other}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert!(refusals.iter().any(|lock| lock.contains(&sub_agent)), "{refusals:?}");
        assert!(
            refusals.iter().all(|lock| lock.contains(" s more") && !lock.contains(" 0.0 s")),
            "{refusals:?}"
        );
        // The session of the sub-agent is not free for others, although it is not open yet.
        let refused = other.write_session(&sub_agent).await;
        assert!(matches!(refused, Err(SessionError::Locked { .. })), "{refused:?}");
        tokio::time::sleep(LEASE + Duration::from_millis(200)).await;
        let refused = other.write_session(&sub_agent).await;
        assert!(matches!(refused, Err(SessionError::Locked { .. })), "its lease is renewed: {refused:?}");
        let end = agent.resume().unwrap().end().await;
        assert!(end.is_completed(), "{end:?}");
        recorder.close().await.unwrap();
        assert!(other.write_session(&sub_agent).await.is_ok());
        assert!(other.write_session("s-1").await.is_ok());
    });
}

/// A writer that was stopped for longer than its lease, and goes on after another one has taken the session.
#[test]
fn a_paused_writer_is_refused_after_its_lease_and_two_writers_never_write_one_session() {
    let Some(address) = address("paused writer") else { return };
    for is_taken in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let store = open(&address).await;
            let mut child = child(dir.path(), &address);
            let mut out = BufReader::new(child.stdout.take().unwrap());
            until_written(&address);
            signal(&child, "-STOP");
            tokio::time::sleep(LEASE + Duration::from_millis(300)).await;
            let mut records = None;
            if is_taken {
                let agent = answering("s-1").with_tool(ScriptedTool::saying("wait", "ok"));
                let (agent, recorder) = agent.restore_session(store.clone(), "s-1").await.unwrap();
                drop(agent.resume().unwrap().collect().await);
                records = Some((agent, recorder));
            }
            let before = store.load_session("s-1").await.unwrap();
            signal(&child, "-CONT");
            let mut text = String::new();
            while !text.contains("ended ") {
                assert_ne!(out.read_line(&mut text).unwrap(), 0, "the child ended without a reason: {text}");
            }
            child.wait().unwrap();
            assert!(text.contains("the lease of session s-1 was lost, and nothing was written"), "{text}");
            let why = if is_taken { "has taken it" } else { "it ended before it was renewed" };
            assert!(text.contains(why), "{text}");
            let after = store.load_session("s-1").await.unwrap();
            assert_eq!(*after, *before, "the paused writer wrote nothing");
            if let Some((agent, recorder)) = records {
                agent.chat("And on.").await.unwrap();
                recorder.close().await.unwrap();
                let last = store.load_session("s-1").await.unwrap();
                assert_eq!(last.history().unwrap(), agent.history());
            }
        });
        address.sql("DELETE FROM sessions; DELETE FROM leases");
    }
}

/// The lease of an open session that writes nothing is renewed, also while the runtime of its process is blocked.
#[test]
fn a_lease_is_renewed_while_nothing_is_written_and_the_runtime_is_blocked() {
    let Some(address) = address("renewed") else { return };
    block_on(async {
        let (one, two) = (open(&address).await, open(&address).await);
        let mut agent = answering("s-1");
        let recorder = SessionRecorder::attach(&mut agent, one);
        agent.chat("Hi").await.unwrap();
        std::thread::sleep(LEASE * 2);
        let refused = two.write_session("s-1").await;
        assert!(matches!(refused, Err(SessionError::Locked { .. })), "{refused:?}");
        agent.chat("Still there?").await.unwrap();
        recorder.close().await.unwrap();
        assert!(two.write_session("s-1").await.is_ok(), "the lease was given back");
    });
}

/// The transaction of a save renews the lease at its beginning and again at its end.
#[test]
fn a_save_that_takes_longer_than_the_lease_keeps_it() {
    let Some(address) = address("slow") else { return };
    block_on(async {
        let mut agent = answering("s-1");
        let recorder = SessionRecorder::attach(&mut agent, open(&address).await);
        agent.chat("Hi").await.unwrap();
        let seconds = (LEASE * 2).as_secs();
        let other = address.clone();
        let text = format!("BEGIN; LOCK TABLE lines IN EXCLUSIVE MODE; SELECT pg_sleep({seconds}); COMMIT");
        let locking = std::thread::spawn(move || other.sql(&text));
        let locked =
            "SELECT count(*) FROM pg_locks WHERE relation = 'lines'::regclass AND mode = 'ExclusiveLock'";
        while address.sql(locked) != [Some("1".to_owned())] {
            std::thread::sleep(Duration::from_millis(10));
        }
        let begun = Instant::now();
        recorder.save().await.unwrap();
        assert!(begun.elapsed() > LEASE, "the save waited: {:?}", begun.elapsed());
        agent.chat("Still mine?").await.unwrap();
        recorder.close().await.unwrap();
        locking.join().unwrap();
    });
}

/// A lease that ended while its row says so refuses the next record with a typed error, and the agent starts again from what
/// is stored.
#[test]
fn a_lost_lease_is_a_typed_error_and_the_numbers_of_leases_only_grow() {
    let Some(address) = address("typed") else { return };
    block_on(async {
        let store = open(&address).await;
        let mut last = 0;
        for _ in 0..3 {
            let (mut writer, found) = store.write_session("s-1").await.unwrap();
            let fence: i64 = address.sql("SELECT fence FROM leases")[0].as_ref().unwrap().parse().unwrap();
            assert!(fence > last, "{fence} after {last}");
            last = fence;
            address.end_leases();
            let session = found.unwrap_or_else(|| {
                agent_session::Session::new("s-1".into(), "a".into(), agent_core::Timestamp(1))
            });
            let lost = writer.save(session).await;
            assert!(matches!(lost, Err(SessionError::LeaseLost { .. })), "{lost:?}");
        }
        let mut agent = answering("s-2");
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("Hi").await.unwrap();
        address.end_leases();
        let error = agent.chat("More").await.unwrap_err().to_string();
        assert!(error.contains("the lease of session s-2 was lost"), "{error}");
        assert_eq!(store.load_session("s-2").await.unwrap().loops.len(), 1);
        agent.chat("Again").await.unwrap();
        recorder.close().await.unwrap();
        assert_eq!(store.load_session("s-2").await.unwrap().loops.len(), 2);
    });
}
