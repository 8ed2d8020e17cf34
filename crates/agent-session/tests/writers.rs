//! Writers of sessions in files that are ended, or save again and again.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use agent_core::compat::SeedSetters as _;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{BasicAgent, ModelConfig};
use agent_session::{LoopStatus, SessionError, SessionRecorder};
use scene::block_on;

/// An agent that answers each prompt, and its session.
fn answering() -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_session_id("s-1")
        .with_provider(ScriptedProvider::responding(|_| ScriptedReply::text("Done.")))
}

/// The files that a writer leaves when it is ended at each point. The next writer continues from what was acknowledged.
#[test]
fn a_writer_that_is_ended_at_any_point_leaves_what_it_acknowledged() {
    use agent_session::{BlockingSessionStore, JsonStore, RestoreSession as _};
    for is_saved in [false, true] {
        for state in ["new file", "locked file", "both names", "no lock", "two files"] {
            let dir = tempfile::tempdir().unwrap();
            let (lock, journal) = (dir.path().join("s-1.lock"), dir.path().join("s-1.journal.jsonl"));
            let store = JsonStore::open(dir.path()).unwrap();
            block_on(async {
                let mut agent = answering();
                let recorder = SessionRecorder::attach(&mut agent, store.clone());
                agent.chat("one").await.unwrap();
                let file = dir.path().join("s-1.json");
                let mut saved = None;
                if is_saved {
                    recorder.save().await.unwrap();
                    saved = std::fs::read(&file).ok();
                    agent.chat("two").await.unwrap();
                }
                if !matches!(state, "new file" | "locked file") {
                    // The file tells of its journal once the journal has its name.
                    saved = std::fs::read(&file).ok();
                }
                let records = std::fs::read(&journal).unwrap();
                recorder.close().await.unwrap();
                // As the process left it before the last save.
                std::fs::remove_file(&file).unwrap();
                if let Some(saved) = saved {
                    std::fs::write(&file, saved).unwrap();
                }
                match state {
                    "new file" => {
                        std::fs::write(&lock, "").unwrap();
                        std::fs::write(dir.path().join("s-1.lock.tmp.1.1"), records).unwrap();
                    }
                    "locked file" => std::fs::write(&lock, records).unwrap(),
                    "both names" => {
                        std::fs::write(&journal, records).unwrap();
                        std::fs::hard_link(&journal, &lock).unwrap();
                    }
                    "no lock" => std::fs::write(&journal, records).unwrap(),
                    _ => {
                        std::fs::write(&journal, records).unwrap();
                        std::fs::write(&lock, "").unwrap();
                    }
                }
            });
            let is_acknowledged = !matches!(state, "new file" | "locked file");
            let loops = usize::from(is_saved) + usize::from(is_acknowledged);
            match store.load_session("s-1") {
                Ok(loaded) => assert_eq!(loaded.loops.len(), loops, "{state}"),
                Err(SessionError::NotFound { .. }) => assert_eq!(loops, 0, "{state}"),
                Err(other) => panic!("{state}: {other}"),
            }
            assert_eq!(BlockingSessionStore::list_session_ids(&store).unwrap().len(), loops.min(1));
            block_on(async {
                let (agent, recorder) = match loops {
                    0 => {
                        let mut agent = answering();
                        let recorder = SessionRecorder::attach(&mut agent, store.clone());
                        (agent, recorder)
                    }
                    _ => answering().restore_session(store.clone(), "s-1").await.unwrap(),
                };
                agent.chat("next").await.unwrap();
                assert_eq!(store.load_session("s-1").unwrap().loops.len(), loops + 1, "{state}");
                recorder.close().await.unwrap();
            });
            assert_eq!(store.load_session("s-1").unwrap().loops.len(), loops + 1, "{state}");
            assert!(!lock.exists() && !journal.exists(), "{state}");
        }
    }
}

/// A reader that looks for the writer while it replaces the file of its lock finds it.
#[test]
fn a_session_that_is_saved_again_and_again_is_locked_all_the_time() {
    use std::sync::atomic::{AtomicBool, Ordering};
    const ROUNDS: usize = 150;
    let dir = tempfile::tempdir().unwrap();
    let store = agent_session::JsonStore::open(dir.path()).unwrap();
    let is_over = std::sync::Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, is_over) = (store.clone(), is_over.clone());
            std::thread::spawn(move || {
                let mut looked = 0;
                while !is_over.load(Ordering::Relaxed) {
                    match store.load_session("s-1") {
                        Ok(loaded) if !is_over.load(Ordering::Relaxed) => {
                            assert_eq!(loaded.loops[0].status, LoopStatus::Running);
                            let saved = store.save_session(&loaded);
                            let is_locked = matches!(saved, Err(SessionError::Locked { .. }));
                            assert!(is_locked || is_over.load(Ordering::Relaxed), "{saved:?}");
                            looked += 1;
                        }
                        Ok(_) | Err(SessionError::NotFound { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
                looked
            })
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let ended = is_over.clone();
        let replies =
            (0..ROUNDS).map(|n| ScriptedReply::call(&format!("c{n}"), "look", serde_json::json!({})));
        let mut agent = BasicAgent::new(ModelConfig::default())
            .with_execution_limits(None)
            .with_session_id("s-1")
            .with_provider(ScriptedProvider::new(replies.chain([ScriptedReply::text("Done.")])));
        let rounds = std::sync::atomic::AtomicUsize::new(0);
        agent.set_tools(vec![std::sync::Arc::new(agent_core::testing::ScriptedTool::new(
            "look",
            move |_, _| {
                // The last round: the run ends soon.
                if rounds.fetch_add(1, Ordering::Relaxed) + 1 == ROUNDS {
                    ended.store(true, Ordering::Relaxed);
                }
                async { Ok(agent_core::ToolResult::text("ok")) }
            },
        ))]);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        drop(agent.prompt("Look.").unwrap());
        while !is_over.load(Ordering::Relaxed) {
            recorder.save().await.unwrap();
        }
        agent.finish().await;
        recorder.close().await.unwrap();
    });
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
    assert_eq!(store.load_session("s-1").unwrap().loops[0].messages.len(), 2 * ROUNDS + 2);
}
