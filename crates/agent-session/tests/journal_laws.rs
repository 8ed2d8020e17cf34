//! Laws of the journal, over random runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::sync::Arc;

use agent_core::compat::SeedVerbs as _;
use agent_core::run::{ReadMessagesError, StoredMessages};
use agent_core::{AgentEvent, History, MessageRef, ToolExecutionStrategy};
use agent_session::{LoopStatus, RecordedEvent, Session, SessionRecorder};
use proptest::prelude::*;
use scene::{Looking, act, agent, block_on, kinds, perform, play};

fn strategy() -> impl Strategy<Value = ToolExecutionStrategy> {
    prop_oneof![
        Just(ToolExecutionStrategy::Parallel),
        Just(ToolExecutionStrategy::Sequential),
        Just(ToolExecutionStrategy::Batched { size: 2 }),
    ]
}

/// A store that is not asked.
#[derive(Debug)]
struct NotRead;

#[async_trait::async_trait]
impl StoredMessages for NotRead {
    async fn read(&self) -> Result<Vec<MessageRef>, ReadMessagesError> {
        Err(ReadMessagesError::failed("this store is not asked", None))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scene::cases(48), failure_persistence: None, ..ProptestConfig::default() })]

    /// REQ-216, D30.
    #[test]
    fn after_every_record_the_session_gives_back_the_open_run_and_its_messages(
        plays in prop::collection::vec(play(), 0..8),
        acts in prop::collection::vec(act(), 1..6),
        kind in prop::sample::select(kinds()),
        strategy in strategy(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        block_on(async {
            let mut agent = agent(&plays, strategy);
            let recorder = SessionRecorder::attach(&mut agent, store.clone());
            let looking = Looking::at(&mut agent, &store, |loaded, run| {
                let record = loaded.get_loop(run.loop_id().as_str()).expect("the loop is there");
                assert_eq!(record.messages.len(), run.new_messages().len());
                assert!(run.new_messages().all().is_none_or(|all| record.messages == all));
                assert_eq!(loaded.torn_bytes(), 0);
                match run.ended() {
                    None => {
                        let mut restored = loaded.open_run().expect("it can be resumed").expect("it is open");
                        assert_eq!(restored.new_messages().all(), Some(&*record.messages));
                        if run.new_messages().released() > 0 {
                            // As the driver does when it resumes the run.
                            restored.release_messages(Arc::new(NotRead));
                        }
                        assert_eq!(&restored, run);
                        // The driver leaves the run after the record of the question.
                        let left = record.events.last().is_some_and(|e| {
                            matches!(&e.event, RecordedEvent::Known(event) if matches!(**event, AgentEvent::RunSuspended { .. }))
                        });
                        let waits = record.status == LoopStatus::Suspended;
                        assert!(waits || !left, "{:?}", record.status);
                        assert!(run.is_suspended() || !waits, "{:?}", record.status);
                    }
                    Some(ended) => {
                        assert_eq!(loaded.open_run().expect("fine"), None);
                        assert_eq!(record.ended.as_ref(), Some(ended));
                        assert_eq!(record.usage, run.usage());
                        assert_eq!(loaded.history().expect("it folds"), *run.history());
                    }
                }
            });
            perform(&agent, &acts).await;
            looking.assert_fine();
            drop(recorder);
        });
    }

    /// REQ-211, REQ-216.
    #[test]
    fn what_is_in_memory_what_the_journal_gives_and_what_the_file_gives_are_equal(
        plays in prop::collection::vec(play(), 0..8),
        acts in prop::collection::vec(act(), 1..6),
        kind in prop::sample::select(kinds()),
        strategy in strategy(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        block_on(async {
            let mut agent = agent(&plays, strategy);
            let recorder = SessionRecorder::attach(&mut agent, store.clone());
            let in_memory = SessionRecorder::new();
            let heard = in_memory.clone();
            let _ = agent.subscribe(move |event| heard.on_event(event));
            perform(&agent, &acts).await;
            let live = recorder.sessions();
            let from_journal: Vec<Session> =
                live.iter().map(|s| store.load_session(s.session_id.as_str()).unwrap().into_session()).collect();
            assert_eq!(from_journal, live);
            recorder.close().await.unwrap();
            for session in &live {
                let from_file = store.load_session(session.session_id.as_str()).unwrap();
                assert_eq!(*from_file, *session);
                let text = serde_json::to_string(&*from_file).unwrap();
                assert_eq!(serde_json::from_str::<Session>(&text).unwrap(), *session);
                // The plain form is given events only; it has the same loops.
                let plain = in_memory.session(&session.session_id).unwrap();
                for (a, b) in plain.loops.iter().zip(&session.loops) {
                    assert_eq!((&a.messages, &a.turns, &a.events, a.usage), (&b.messages, &b.turns, &b.events, b.usage));
                    assert_eq!((&a.status, &a.children_loop_ids), (&b.status, &b.children_loop_ids));
                }
                assert_eq!(plain.loops.len(), session.loops.len());
            }
        });
    }

    /// Every loop knows what was before it, whatever the program did to the conversation in between.
    #[test]
    fn the_conversation_after_each_loop_is_the_one_that_the_agent_had(
        plays in prop::collection::vec(play(), 0..8),
        acts in prop::collection::vec(act(), 1..8),
        kind in prop::sample::select(kinds()),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        block_on(async {
            let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
            let recorder = SessionRecorder::attach(&mut agent, store.clone());
            let mut seen: Vec<(String, String, History)> = Vec::new();
            for act in &acts {
                perform(&agent, std::slice::from_ref(act)).await;
                if matches!(act, scene::Act::Prompt(_)) {
                    let loop_id = agent.last_loop_id().unwrap().to_string();
                    seen.push((agent.session_id().to_string(), loop_id, agent.history()));
                    recorder.close().await.unwrap();
                }
            }
            for (session, loop_id, history) in seen {
                let loaded = store.load_session(&session).unwrap();
                assert_eq!(loaded.history_after(&loop_id).unwrap().unwrap(), history);
            }
        });
    }
}

/// The laws above say nothing unless their runs do something.
#[test]
fn the_random_runs_reach_compaction_questions_retries_and_failures() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut words = String::new();
    let plays = prop::collection::vec(play(), 0..8);
    let acts = prop::collection::vec(act(), 1..6);
    for _ in 0..40 {
        let (plays, acts) = (plays.new_tree(&mut runner).unwrap(), acts.new_tree(&mut runner).unwrap());
        let agent = agent(&plays.current(), ToolExecutionStrategy::Parallel);
        let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let list = std::sync::Arc::clone(&heard);
        let _ = agent.subscribe(move |event| list.lock().unwrap().push(event.clone()));
        block_on(perform(&agent, &acts.current()));
        words.push_str(&agent_core::testing::transcript(&heard.lock().unwrap()));
        words.push(' ');
    }
    for word in ["compact-", "suspended", "answered(", "retry-1", "assistant!(", ")~", "tool-!(", "result("] {
        assert!(words.contains(word), "no run has {word}: {words}");
    }
}
