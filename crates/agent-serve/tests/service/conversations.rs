//! Conversations and their runs.

use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply};
use agent_serve::{ConversationRef, Service};
use serde_json::json;

use crate::support::{Running, agent, builder, keys, numbers, quick, store};

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_answered_and_the_conversation_is_listed_read_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::usual(&store(folder.path())).await;
    let path = running.conversation("loud").await;
    let after = running.prompt(&path, "hello").await;
    assert_eq!(after, 0);
    let events = running.until(&path, after, "agent_end").await;
    let all = numbers(&events);
    assert_eq!(all, (1..=all.len() as u64 + 1).filter(|n| all.contains(n)).collect::<Vec<_>>());
    let delta = events.iter().find(|event| event.kind == "message_update").unwrap();
    assert_eq!((delta.number, delta.data["delta"]["text"].as_str()), (None, Some("HELLO")));
    running.wait_for(&path, "idle").await;

    let after = running.prompt(&path, "again").await;
    assert_eq!(Some(&after), all.last());
    running.until(&path, after, "agent_end").await;
    let (status, messages) = running.get(&format!("{path}/messages?offset=1&limit=2")).await;
    assert_eq!((status, messages["total"].as_u64()), (200, Some(4)));
    assert_eq!(messages["messages"][0]["content"][0]["text"], "HELLO");
    assert_eq!(messages["messages"][1]["content"][0]["text"], "again");
    let (_, one) = running.get(&path).await;
    assert_eq!((one["messages"].as_u64(), one["agent"].as_str()), (Some(4), Some("loud")));

    assert_eq!(running.request("DELETE", &path).send().await.unwrap().status().as_u16(), 204);
    assert_eq!(running.get(&path).await.0, 404);
    assert_eq!(running.get("/v1/conversations").await.1["total"], 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_works_at_a_time_and_can_be_steered_followed_and_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Latch::new(), Latch::new());
    let provider = ScriptedProvider::new([
        ScriptedReply::new().and_wait(&first).and_text("one"),
        ScriptedReply::text("two"),
        ScriptedReply::text("three"),
        ScriptedReply::new().and_wait(&second).and_text("never"),
    ])
    .allow_empty();
    let shared = provider.clone();
    let builder = Service::builder(store(folder.path()))
        .agent("waits", move |_: &ConversationRef| agent(&shared))
        .keys(keys())
        .limits(quick());
    let running = Running::with(builder).await;
    let path = running.conversation("waits").await;
    let steer = |text: &str| (format!("{path}/steer"), json!({"text": text}));
    let (to, body) = steer("too early");
    let (status, error) = running.post(&to, body).await;
    assert_eq!((status, error["error"]["code"].as_str()), (409, Some("no_open_run")));

    running.prompt(&path, "go").await;
    first.reached().await;
    assert_eq!(running.status(&path).await, "running");
    let (status, error) = running.post(&format!("{path}/prompt"), json!({"text": "me too"})).await;
    assert_eq!((status, error["error"]["code"].as_str()), (409, Some("run_open")));
    let (to, body) = steer("left");
    assert_eq!(running.post(&to, body).await.0, 202);
    assert_eq!(running.post(&format!("{path}/follow-up"), json!({"text": "and then"})).await.0, 202);
    first.open();
    running.wait_for(&path, "idle").await;
    let (_, messages) = running.get(&format!("{path}/messages")).await;
    let texts: Vec<_> = messages["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["go", "one", "left", "two", "and then", "three"]);

    let after = running.prompt(&path, "wait").await;
    second.reached().await;
    assert_eq!(running.post(&format!("{path}/abort"), json!({})).await.0, 202);
    let events = running.until(&path, after, "agent_end").await;
    assert_eq!(events.last().unwrap().data["ended"]["how"], "aborted");
    running.wait_for(&path, "idle").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_conversations_leave_memory_and_come_back_with_everything() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.open_conversations = 2;
    let running = Running::with(builder(&store(folder.path())).keys(keys()).limits(limits)).await;
    let mut paths = Vec::new();
    for text in ["one", "two", "three", "four"] {
        let path = running.conversation("loud").await;
        let after = running.prompt(&path, text).await;
        running.until(&path, after, "agent_end").await;
        running.wait_for(&path, "idle").await;
        paths.push(path);
    }
    assert!(running.service().open_conversations() <= 2);
    for path in &paths {
        let after = running.prompt(path, "again").await;
        let events = running.until(path, after, "agent_end").await;
        assert_eq!(events[0].number, Some(after + 1));
        running.wait_for(path, "idle").await;
        assert_eq!(running.get(path).await.1["messages"], 4);
        assert!(running.service().open_conversations() <= 2);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_working_conversations_than_allowed_are_refused_and_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let latch = Latch::new();
    let wait = latch.clone();
    let provider =
        ScriptedProvider::responding(move |_| ScriptedReply::new().and_wait(&wait).and_text("done"));
    let mut limits = quick();
    limits.open_conversations = 1;
    let builder = Service::builder(store(folder.path()))
        .agent("waits", move |_: &ConversationRef| agent(&provider))
        .keys(keys())
        .limits(limits);
    let running = Running::with(builder).await;
    let (first, second) = (running.conversation("waits").await, running.conversation("waits").await);
    running.prompt(&first, "go").await;
    latch.reached().await;
    let response = running
        .request("POST", &format!("{second}/prompt"))
        .json(&json!({"text": "go"}))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status().as_u16(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    latch.open();
    running.wait_for(&first, "idle").await;
    running.prompt(&second, "go").await;
    latch.open();
    running.wait_for(&second, "idle").await;
    assert_eq!(running.get(&second).await.1["messages"], 2);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_from_outside_reach_no_other_sessions_and_no_paths() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let foreign = format!("loud-{}", "0".repeat(32));
    let session =
        agent_session::Session::new(foreign.as_str().into(), "someone".into(), agent_core::Timestamp(1));
    store.save_session(&session).unwrap();
    let running = Running::usual(&store).await;
    for id in [&*foreign, "..%2F..%2Fetc", "loud-..%2Fx", "%00", "loud-%0a", "nobody-x", "x", "loud-"] {
        for path in ["", "/messages", "/events", "/questions"] {
            let (status, body) = running.get(&format!("/v1/conversations/{id}{path}")).await;
            assert_eq!(status, 404, "{id}{path}: {body}");
        }
        let (status, _) =
            running.post(&format!("/v1/conversations/{id}/prompt"), json!({"text": "hi"})).await;
        assert_eq!(status, 404, "{id}");
    }
    running.stop().await;
}
