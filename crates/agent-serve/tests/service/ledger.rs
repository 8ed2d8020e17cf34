//! What a key has spent counts also after its conversations were deleted and the service was started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent_core::BudgetLimits;
use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_serve::{ConversationRef, ServiceBuilder};
use agent_session::JsonStore;
use serde_json::json;

use crate::crash::process;
use crate::support::{HANG, Running, agent, builder, keys, quick, store};

/// The tokens of a reply of the agent `loud`.
const REPLY: u64 = 17;

fn limited(store: &JsonStore, tokens: u64) -> ServiceBuilder {
    counting(store, tokens, &Arc::default())
}

/// As [`limited`], and counts the calls of the agent `endless`.
fn counting(store: &JsonStore, tokens: u64, calls: &Arc<AtomicU64>) -> ServiceBuilder {
    let [alice, bob] = keys();
    let alice = alice.with_budget(BudgetLimits::none().with_tokens(tokens));
    let calls = Arc::clone(calls);
    let half = ScriptedProvider::responding(move |_| {
        calls.fetch_add(1, Ordering::Relaxed);
        ScriptedReply::new().and_text("Half of it").and_hang()
    });
    builder(store)
        .agent("endless", move |_: &ConversationRef| agent(&half))
        .keys([alice, bob])
        .limits(quick())
}

async fn spent(running: &Running) -> u64 {
    running.get("/v1/usage").await.1["spent"]["tokens"].as_u64().unwrap()
}

/// Waits until the list of conversations has this many.
async fn until_listed(running: &Running, number: u64) {
    let waiting = async {
        while running.get("/v1/conversations").await.1["total"] != number {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HANG, waiting).await.expect("a conversation is never deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_budget_is_new_after_conversations_were_deleted_and_the_service_was_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let running = Running::with(limited(&store, 10_000)).await;
    let path = running.conversation("loud").await;
    for _ in 0..2 {
        let after = running.prompt(&path, "hello").await;
        running.until(&path, after, "agent_end").await;
        running.wait_for(&path, "idle").await;
    }
    assert_eq!(running.request("DELETE", &path).send().await.unwrap().status().as_u16(), 204);
    // By default a chat completion is deleted after its answer, and a response with `store: false`.
    let chat = json!({"model": "loud", "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(running.post("/v1/chat/completions", chat).await.0, 200);
    let response = json!({"model": "loud", "input": "hi", "store": false});
    assert_eq!(running.post("/v1/responses", response).await.0, 200);
    // A run that its client aborts has used the prompt and a part of the reply.
    let path = running.conversation("endless").await;
    let after = running.prompt(&path, "go").await;
    running.until(&path, after, "message_update").await;
    assert_eq!(running.post(&format!("{path}/abort"), json!({})).await.0, 202);
    assert_eq!(running.request("DELETE", &path).send().await.unwrap().status().as_u16(), 204);
    until_listed(&running, 0).await;
    let all = spent(&running).await;
    let time = running.get("/v1/usage").await.1["spent"]["time_ms"].as_u64().unwrap();
    assert!(all > 4 * REPLY, "{all}");
    running.stop().await;

    // Also with another budget in the file of keys, and not twice by another start.
    for tokens in [all, 10_000, all] {
        let running = Running::with(limited(&store, tokens)).await;
        assert_eq!(spent(&running).await, all);
        // The clock of a run stops after its last record.
        let again = running.get("/v1/usage").await.1["spent"]["time_ms"].as_u64().unwrap();
        assert!(again <= time && again + 20 > time, "{again} {time}");
        if tokens == all {
            let path = running.conversation("loud").await;
            let (status, body) = running.post(&format!("{path}/prompt"), json!({"text": "more"})).await;
            assert_eq!((status, body["error"]["code"].as_str()), (402, Some("insufficient_quota")));
        }
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_has_spent_is_counted_once_also_when_its_runs_are_resumed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = process(folder.path()).await;
    let client = server.client();
    let done = client.conversation("loud").await;
    let after = client.prompt(&done, "hello").await;
    client.until(&done, after, "agent_end").await;
    // The first call of the model is complete, and the second one never ends.
    let open = client.conversation("steps").await;
    let after = client.prompt(&open, "go").await;
    client.until(&open, after, "tool_execution_end").await;
    server.kill().await;

    std::fs::write(folder.path().join("again"), "").unwrap();
    for round in 0..3 {
        let server = process(folder.path()).await;
        let client = server.client();
        if round < 2 {
            client.wait_for(&open, "idle").await;
        }
        // Three calls: that of `loud`, and two of `steps`.
        assert_eq!(spent(&client).await, 3 * REPLY, "round {round}");
        if round == 1 {
            for path in [&done, &open] {
                assert_eq!(client.request("DELETE", path).send().await.unwrap().status().as_u16(), 204);
            }
        }
        server.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_in_parallel_spend_no_more_than_the_budget_together() {
    let folder = tempfile::tempdir().unwrap();
    // A call reserves 1,024 tokens for its answer, so that at most four calls fit at once.
    let calls = Arc::default();
    let running = Running::with(counting(&store(folder.path()), 5_000, &calls)).await;
    let mut paths = Vec::new();
    for _ in 0..40 {
        paths.push(running.conversation("endless").await);
    }
    let prompts = paths.iter().map(|path| running.prompt(path, "go"));
    futures_util::future::join_all(prompts).await;
    running.stop().await;
    let calls = calls.load(Ordering::Relaxed);
    assert!((1..=4).contains(&calls), "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_of_a_conversation_is_not_new_when_it_was_released_from_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut limits = quick();
    limits.conversation_budget = BudgetLimits::none().with_model_calls(1);
    let mut path = String::new();
    for round in 0..2 {
        let running = Running::with(builder(&store).keys(keys()).limits(limits.clone())).await;
        if round == 0 {
            path = running.conversation("loud").await;
        }
        let after = running.prompt(&path, "hello").await;
        running.until(&path, after, "agent_end").await;
        running.wait_for(&path, "idle").await;
        let (_, messages) = running.get(&format!("{path}/messages")).await;
        let replies = messages["messages"].as_array().unwrap();
        let replies = replies.iter().filter(|message| message["role"] == "assistant").count();
        assert_eq!(replies, 1, "{messages}");
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_an_earlier_version_is_counted_by_its_sessions_and_two_services_count_both() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let running = Running::with(limited(&store, 10_000)).await;
    let path = running.conversation("loud").await;
    let after = running.prompt(&path, "hello").await;
    running.until(&path, after, "agent_end").await;
    running.stop().await;
    store.delete_session("serve-ledger-0").unwrap();

    let first = Running::with(limited(&store, 10_000)).await;
    assert_eq!(spent(&first).await, REPLY);
    let second = Running::with(limited(&store, 10_000)).await;
    assert_eq!(spent(&second).await, REPLY);
    for running in [&first, &second] {
        let path = running.conversation("loud").await;
        let after = running.prompt(&path, "hello").await;
        running.until(&path, after, "agent_end").await;
    }
    second.stop().await;
    first.stop().await;
    let ids = store.list_session_ids().unwrap();
    assert!(ids.iter().any(|id| id.as_str() == "serve-ledger-1"), "{ids:?}");
    let third = Running::with(limited(&store, 10_000)).await;
    assert_eq!(spent(&third).await, 3 * REPLY);
    third.stop().await;
}
