//! Lists and searches, shown for every store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::sync::Arc;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, CostConfig, ModelConfig, RunEnd, Timestamp, Usage};
use agent_session::{
    LoopStatus, MAX_PAGE, Order, RestoreSession, Session, SessionError, SessionQuery, SessionRecorder,
    SessionSummary, SortBy, SpawnRef,
};
use scene::{Store, block_on, each_store};
use serde_json::json;

/// Five sessions: two of `a`, two of `b`, one that is a sub-agent's; with different models, costs and words.
async fn fill(store: &Store) -> Vec<SessionRecorder> {
    let mut recorders = Vec::new();
    for (n, (id, agent, model, tokens, prompt, reply)) in [
        ("s-1", "a", "small", 1_000, "The linker fails with error 42", "Add the library to the path."),
        ("s-2", "a", "large", 50_000, "Write a poem about Größe", "Roses are red, über alles."),
        ("s-3", "b", "small", 3_000, "Linking again", "The linker\nworks now. 日本語の文"),
        ("s-4", "b", "large", 9_000, "What is in src?", "main.rs and lib.rs"),
    ]
    .into_iter()
    .enumerate()
    {
        let provider = ScriptedProvider::new([
            ScriptedReply::call("c", "note", json!({})).using(Usage::new(tokens, 10, 0, 0)),
            ScriptedReply::text(reply).using(Usage::new(tokens, 10, 0, 0)),
        ]);
        let prices = CostConfig::per_million(1_000_000, 0, 0, 0);
        let mut config = ModelConfig::default().with_cost(prices);
        config.id = model.into();
        let time = 1_000 + n as u64;
        store.save_session(&Session::new(id.into(), agent.into(), Timestamp(time))).unwrap();
        let mut agent = BasicAgent::new(config)
            .with_environment(Arc::new(agent_core::testing::ManualEnvironment::at(time)))
            .with_provider(provider)
            .with_tool(ScriptedTool::saying("note", format!("noted {id}")))
            .restore_unrecorded(&store.load_session(id).unwrap())
            .unwrap();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat(prompt).await.unwrap();
        // The last one is still being written.
        if id != "s-4" {
            recorder.close().await.unwrap();
        }
        recorders.push(recorder);
    }
    let mut child = Session::new("s-5".into(), "sub".into(), Timestamp(5_000));
    let parent = json!({
        "parent_session_id": "s-1", "parent_loop_id": "s-1.m.1", "tool_call_id": "c", "tool_name": "sub"
    });
    child.parent_spawn_ref = serde_json::from_value::<Option<SpawnRef>>(parent).unwrap();
    store.save_session(&child).unwrap();
    recorders
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "each query is made for its check")]
fn check(store: &Store, query: SessionQuery, expect: &[&str]) {
    let found = store.find_sessions(&query).unwrap();
    let ids: Vec<&str> = found.sessions.iter().map(|s| s.summary.session_id.as_str()).collect();
    assert_eq!(ids, expect, "{query:?}");
    assert!(found.unreadable.is_empty());
}

#[test]
fn sessions_are_found_by_text_agent_model_time_cost_status_and_parent() {
    each_store(|_, store| {
        let _open = block_on(fill(store));
        let query = || SessionQuery::new().sorted(SortBy::Id, Order::Ascending);
        check(store, query(), &["s-1", "s-2", "s-3", "s-4", "s-5"]);
        for (text, expect) in [
            ("linker", &["s-1", "s-3"][..]),
            ("LINK", &["s-1", "s-3"]),
            ("inker", &[]),
            ("fails linker", &["s-1"]),
            ("42", &["s-1"]),
            ("linker works", &["s-3"]),
            // Both words are there, in two messages.
            ("linker library", &[]),
            ("größe", &["s-2"]),
            ("日本", &["s-3"]),
            ("noted s", &["s-1", "s-2", "s-3", "s-4"]),
            ("main.rs", &["s-4"]),
            ("\"quoted\" OR * NEAR(", &[]),
        ] {
            check(store, query().with_text(text), expect);
        }
        check(store, query().with_agent("a"), &["s-1", "s-2"]);
        check(store, query().with_model("large"), &["s-2", "s-4"]);
        check(store, query().with_model("large").with_text("src"), &["s-4"]);
        check(store, query().with_min_cost(6_000), &["s-2", "s-3", "s-4"]);
        check(store, query().with_min_cost(6_000).with_max_cost(18_000), &["s-3", "s-4"]);
        check(store, query().with_status(LoopStatus::Completed), &["s-1", "s-2", "s-3", "s-4"]);
        check(store, query().with_parent("s-1"), &["s-5"]);
        check(store, query().active_since(Timestamp(1_003)), &["s-4", "s-5"]);
        check(store, query().begun_before(Timestamp(1_001)), &["s-1"]);
        check(store, query().with_agent("nobody"), &[]);
        for text in ["", " ", "…!"] {
            let refused = store.find_sessions(&query().with_text(text));
            assert!(matches!(refused, Err(SessionError::InvalidQuery { .. })), "{refused:?}");
        }
    });
}

#[test]
fn a_list_is_sorted_and_cut_into_pages() {
    each_store(|_, store| {
        let _open = block_on(fill(store));
        let sorted = |by, order| SessionQuery::new().sorted(by, order);
        check(store, SessionQuery::new(), &["s-5", "s-4", "s-3", "s-2", "s-1"]);
        check(store, sorted(SortBy::Created, Order::Ascending), &["s-1", "s-2", "s-3", "s-4", "s-5"]);
        check(store, sorted(SortBy::Cost, Order::Descending), &["s-2", "s-4", "s-3", "s-1", "s-5"]);
        check(store, sorted(SortBy::Tokens, Order::Ascending), &["s-5", "s-1", "s-3", "s-4", "s-2"]);
        let page = |offset, limit| sorted(SortBy::Id, Order::Ascending).page(offset, limit);
        check(store, page(0, 2), &["s-1", "s-2"]);
        check(store, page(4, 2), &["s-5"]);
        check(store, page(9, 2), &[]);
        check(store, page(0, usize::MAX), &["s-1", "s-2", "s-3", "s-4", "s-5"]);
        let found = store.find_sessions(&page(1, 1)).unwrap();
        assert_eq!((found.total, found.sessions.len()), (5, 1));
        assert_eq!(store.find_sessions(&page(0, MAX_PAGE)).unwrap().sessions.len(), 5);
    });
}

#[test]
fn a_list_says_what_the_session_says_whether_it_is_saved_or_not() {
    each_store(|_, store| {
        let recorders = block_on(fill(store));
        let listed = || -> Vec<SessionSummary> {
            let query = SessionQuery::new().sorted(SortBy::Id, Order::Ascending);
            store.find_sessions(&query).unwrap().sessions.into_iter().map(|s| s.summary).collect()
        };
        let before = listed();
        for summary in &before {
            let loaded = store.load_session(summary.session_id.as_str()).unwrap();
            assert_eq!(*summary, SessionSummary::of(&loaded));
        }
        let first = &before[0];
        assert_eq!(first.title.as_deref(), Some("The linker fails with error 42"));
        assert_eq!((first.messages, first.loops, first.cost_micros), (4, 1, 2_000));
        assert_eq!(first.usage, Usage::new(2_000, 20, 0, 0));
        for recorder in &recorders {
            block_on(recorder.close()).unwrap();
        }
        assert_eq!(listed(), before);
    });
}

#[test]
fn a_hit_names_its_message_and_shows_the_words_around() {
    each_store(|_, store| {
        let _open = block_on(fill(store));
        let found = store.find_sessions(&SessionQuery::new().with_text("works")).unwrap();
        let [hit] = &found.sessions[0].hits[..] else { panic!("{:?}", found.sessions) };
        let loaded = store.load_session("s-3").unwrap();
        let record = loaded.get_loop(hit.loop_id.as_str()).unwrap();
        assert!(record.messages[hit.message].text().contains("works"));
        assert_eq!(hit.snippet, "The linker works now. 日本語の文");
    });
}

/// X5: what waits for an answer is found by whoever looks.
#[test]
fn a_run_that_waits_is_found_by_its_status_and_one_that_was_cut_off_too() {
    each_store(|_, store| {
        block_on(async {
            let asking = || {
                BasicAgent::new(ModelConfig::default())
                    .with_provider(ScriptedProvider::new([ScriptedReply::call("c", "ask", json!({}))]))
                    .with_tool(ScriptedTool::saying("ask", "x").asking("May I?"))
            };
            let mut waiting = asking().with_session_id("waits");
            let recorder = SessionRecorder::attach(&mut waiting, store.clone());
            drop(waiting.prompt("go").unwrap());
            let Some(RunEnd::Suspended(_)) = waiting.finish().await else { panic!() };

            let latch = agent_core::testing::Latch::new();
            let provider =
                ScriptedProvider::new([ScriptedReply::text("half").and_wait(&latch).and_text("!")]);
            let mut cut =
                BasicAgent::new(ModelConfig::default()).with_provider(provider).with_session_id("cut");
            let cut_recorder = SessionRecorder::attach(&mut cut, store.clone());
            drop(cut.prompt("go").unwrap());
            latch.reached().await;

            let by = |status| SessionQuery::new().with_status(status);
            check(store, by(LoopStatus::Suspended), &["waits"]);
            check(store, by(LoopStatus::Running), &["cut"]);
            check(store, by(LoopStatus::Interrupted), &[]);
            recorder.close().await.unwrap();
            cut_recorder.close().await.unwrap();
            check(store, by(LoopStatus::Suspended), &["waits"]);
            check(store, by(LoopStatus::Running), &[]);
            check(store, by(LoopStatus::Interrupted), &["cut"]);
            let status =
                store.find_sessions(&by(LoopStatus::Interrupted)).unwrap().sessions[0].summary.status;
            assert_eq!(status, Some(LoopStatus::Interrupted));
            latch.open();
        });
    });
}

#[test]
fn a_deleted_session_is_found_no_more() {
    each_store(|_, store| {
        drop(block_on(fill(store)));
        store.delete_session("s-1").unwrap();
        check(store, SessionQuery::new().with_text("linker"), &["s-3"]);
        let mut loaded = store.load_session("s-3").unwrap().into_session();
        loaded.loops[0].messages.clear();
        loaded.loops[0].events.push(agent_session::LoopEvent::new(
            999,
            agent_core::AgentEvent::InputRejected { loop_id: "x".into(), reason: "y".into() },
        ));
        loaded.loops[0].events.retain(|e| e.sequence == 999);
        store.delete_session("s-3").unwrap();
        store.save_session(&loaded).unwrap();
        check(store, SessionQuery::new().with_text("linker"), &[]);
    });
}
