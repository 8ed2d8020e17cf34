//! Several processes on one store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "the children are this test itself, on files of this test")]

mod scene;

use agent_core::compat::SeedSetters as _;
use std::path::Path;
use std::process::{Command, Stdio};

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{AgentMessage, BasicAgent, LoopId, MessageRef, ModelConfig, Timestamp};
use agent_session::{
    BlockingSessionStore, LoopRecord, LoopStatus, Session, SessionError, SessionQuery, SessionRecorder,
};
use scene::{Kind, block_on, kinds};

const PROCESSES: usize = 8;
/// Sessions that all processes write by turns.
const SHARED: usize = 3;
/// Loops that each process adds to each of these, and runs of its own agent.
const ROUNDS: usize = 6;
/// The file without which a child does nothing, so that running all ignored tests does no harm.
const GO: &str = "go";

/// One of the processes: `go` says the kind of store, the name of the folder who it is.
#[test]
#[ignore = "the child of another test"]
fn a_child_writes_sessions_of_its_own_and_shared_ones() {
    let Ok(name) = std::fs::read_to_string(GO) else { return };
    let kind = Kind::named(&name);
    let me = std::env::current_dir().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let store = kind.open(Path::new(".."));
    let mut locked = 0;
    for round in 0..ROUNDS {
        let provider = ScriptedProvider::new([ScriptedReply::text(format!("reply {round} of {me}"))]);
        let id = format!("own-{me}");
        let agent =
            BasicAgent::new(ModelConfig::default()).with_session_id(id.as_str()).with_provider(provider);
        let mut agent = agent.with_config_id(format!("r{round}"));
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        block_on(agent.chat(format!("prompt {round}"))).unwrap();
        block_on(recorder.close()).unwrap();
        for shared in 0..SHARED {
            locked += add_loop(&*store, &format!("shared-{shared}"), &me, round);
        }
        store.find_sessions(&SessionQuery::new().with_text("reply")).unwrap();
    }
    println!("\nlocked {locked}");
}

/// Adds a loop to a session that others write, too, and says how often it was locked.
fn add_loop(store: &dyn BlockingSessionStore, id: &str, me: &str, round: usize) -> usize {
    let mut session = Session::new(id.into(), "shared".into(), Timestamp(1));
    let loop_id = LoopId::from(format!("{id}.{me}.{round}"));
    let mut record = LoopRecord::new(loop_id, id.into(), "shared".into(), Timestamp(2));
    record.status = LoopStatus::Completed;
    record.messages.push(MessageRef::from(AgentMessage::user(format!("{me} says {round}"))));
    session.loops.push(record);
    for tries in 0.. {
        match store.save_session(&session) {
            Ok(()) => return tries,
            Err(SessionError::Locked { .. }) => std::thread::sleep(std::time::Duration::from_millis(5)),
            Err(other) => panic!("{other}"),
        }
    }
    0
}

/// B-180, REQ-216.
#[test]
fn eight_processes_on_one_store_lose_no_loop_and_tear_no_file() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let children: Vec<_> = (0..PROCESSES)
            .map(|n| {
                let folder = dir.path().join(format!("p{n}"));
                std::fs::create_dir(&folder).unwrap();
                std::fs::write(folder.join(GO), format!("{kind:?}")).unwrap();
                Command::new(std::env::current_exe().unwrap())
                    .args([
                        "--exact",
                        &scene::test_in(module_path!(), "a_child_writes_sessions_of_its_own_and_shared_ones"),
                    ])
                    .args(["--ignored", "--nocapture"])
                    .current_dir(folder)
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let mut locked = 0;
        for child in children {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{kind:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
            let line = text.lines().find_map(|l| l.strip_prefix("locked ")).unwrap();
            locked += line.parse::<usize>().unwrap();
        }
        println!("{kind:?}: {locked} times another process held the session");
        for shared in 0..SHARED {
            let loaded = store.load_session(&format!("shared-{shared}")).unwrap();
            assert_eq!(loaded.loops.len(), PROCESSES * ROUNDS, "{kind:?}");
            assert!(loaded.loops.iter().all(|r| r.messages.len() == 1));
        }
        for n in 0..PROCESSES {
            let loaded = store.load_session(&format!("own-p{n}")).unwrap();
            assert_eq!(loaded.loops.len(), ROUNDS, "{kind:?}");
            assert!(loaded.loops.iter().all(|r| r.status == LoopStatus::Completed && r.messages.len() == 2));
        }
        assert_eq!(store.list_session_ids().unwrap().len(), PROCESSES + SHARED);
        let found = store.find_sessions(&SessionQuery::new().with_text("says 3")).unwrap();
        assert_eq!(found.total, SHARED);
        // Nothing is left of what was written on the way.
        let folders = [dir.path().join("sessions"), dir.path().join("sessions.db.locks")];
        for folder in folders.iter().filter(|f| f.exists()) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                let is_empty = entry.metadata().unwrap().len() == 0;
                let is_fine = name.ends_with(".json") || (name.ends_with(".journal.jsonl") && is_empty);
                assert!(is_fine, "{name} was left behind");
            }
        }
    }
}
