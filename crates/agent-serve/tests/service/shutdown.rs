//! The end of the service.

use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply};
use agent_serve::{ConversationRef, Recovery, Service};
use agent_session::JsonStore;
use serde_json::json;

use crate::support::{Running, agent, keys, quick, store};

async fn with(store: &JsonStore, provider: ScriptedProvider, recovery: Recovery) -> Running {
    let builder = Service::builder(store.clone())
        .agent("scripted", move |_: &ConversationRef| agent(&provider))
        .keys(keys())
        .limits(quick())
        .recovery(recovery);
    Running::with(builder).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_does_not_end_in_time_is_left_and_resumed_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let latch = Latch::new();
    let hangs = ScriptedProvider::new([ScriptedReply::new().and_text("Half").and_wait(&latch)]);
    let running = with(&store, hangs, Recovery::Resume).await;
    let path = running.conversation("scripted").await;
    let after = running.prompt(&path, "go").await;
    latch.reached().await;
    let mut events = running.events(&path, after).await;
    let reader = tokio::spawn(async move { events.until("service.released").await });
    running.stop().await;
    let seen = reader.await.unwrap();

    let running = with(&store, ScriptedProvider::texts([""; 0]), Recovery::Leave).await;
    assert_eq!(running.status(&path).await, "interrupted");
    let (status, body) = running.post(&format!("{path}/prompt"), json!({"text": "hello?"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (409, Some("interrupted")));
    running.stop().await;

    let running = with(&store, ScriptedProvider::texts(["Whole."]), Recovery::Resume).await;
    let last = seen.iter().filter_map(|event| event.number).max().unwrap();
    let events = running.until(&path, last, "agent_end").await;
    // The start of a reply, which has the next number, is delivered without one.
    assert_eq!(events.iter().find_map(|event| event.number), Some(last + 2));
    assert_eq!(events.last().unwrap().data["ended"]["how"], "completed");
    running.wait_for(&path, "idle").await;
    let (_, messages) = running.get(&format!("{path}/messages")).await;
    assert_eq!(messages["messages"][1]["content"][0]["text"], "Whole.");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_in_time_is_waited_for_and_new_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let latch = Latch::new();
    let waits = ScriptedProvider::new([ScriptedReply::new().and_wait(&latch).and_text("Done.")]);
    let shared = waits.clone();
    let mut limits = quick();
    limits.drain_time = crate::support::HANG;
    let builder = Service::builder(store.clone())
        .agent("scripted", move |_: &ConversationRef| agent(&shared))
        .keys(keys())
        .limits(limits);
    let running = Running::with(builder).await;
    let path = running.conversation("scripted").await;
    running.prompt(&path, "go").await;
    latch.reached().await;
    let service = running.service().clone();
    let shutdown = tokio::spawn(async move { service.shutdown().await });
    let closing = async {
        while running.get("/healthz").await.0 != 503 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::support::HANG, closing).await.unwrap();
    let (status, body) = running.post("/v1/conversations", json!({})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("closing")));
    latch.open();
    shutdown.await.unwrap();
    let id = path.rsplit('/').next().unwrap();
    let session = store.load_session(id).unwrap();
    assert_eq!(session.loops[0].status, agent_session::LoopStatus::Completed);
    running.stop().await;
}
