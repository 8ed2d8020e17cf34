//! Clients that go away.

use std::time::Duration;

use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply};
use agent_serve::{ConversationRef, Service, VanishedClient};
use serde_json::json;

use crate::support::{HANG, Running, agent, keys, quick, store};

async fn with(folder: &std::path::Path, provider: &ScriptedProvider, vanished: VanishedClient) -> Running {
    let mut limits = quick();
    limits.vanished = vanished;
    let provider = provider.clone();
    let builder = Service::builder(store(folder))
        .agent("scripted", move |_: &ConversationRef| agent(&provider))
        .keys(keys())
        .limits(limits);
    Running::with(builder).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_reader_stops_only_if_it_is_configured_so() {
    for (vanished, ended) in [
        (VanishedClient::Stop { after: Duration::from_millis(50) }, "aborted"),
        (VanishedClient::Continue, "completed"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let latch = Latch::new();
        let provider = ScriptedProvider::new([ScriptedReply::new().and_wait(&latch).and_text("Done.")]);
        let running = with(folder.path(), &provider, vanished).await;
        let path = running.conversation("scripted").await;
        let after = running.prompt(&path, "go").await;
        latch.reached().await;
        drop(running.events(&path, after).await);
        if ended == "completed" {
            tokio::time::sleep(Duration::from_millis(150)).await;
            latch.open();
        }
        running.wait_for(&path, "idle").await;
        let events = running.until(&path, after, "agent_end").await;
        assert_eq!(events.last().unwrap().data["ended"]["how"], ended);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_comes_back_in_time_keeps_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let latch = Latch::new();
    let provider = ScriptedProvider::new([ScriptedReply::new().and_wait(&latch).and_text("Done.")]);
    let after = Duration::from_millis(400);
    let running = with(folder.path(), &provider, VanishedClient::Stop { after }).await;
    let path = running.conversation("scripted").await;
    let first = running.prompt(&path, "go").await;
    latch.reached().await;
    drop(running.events(&path, first).await);
    let mut again = running.events(&path, first).await;
    tokio::time::sleep(after * 2).await;
    latch.open();
    let events = again.until("agent_end").await;
    assert_eq!(events.last().unwrap().data["ended"]["how"], "completed");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_waits_for_ends_its_run_and_its_conversation() {
    for stream in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let latch = Latch::new();
        let reply = ScriptedReply::new().and_text("Half").and_wait(&latch);
        let running = with(folder.path(), &ScriptedProvider::new([reply]), VanishedClient::Continue).await;
        let body =
            json!({"model": "scripted", "stream": stream, "messages": [{"role": "user", "content": "go"}]});
        let request = running.request("POST", "/v1/chat/completions").json(&body);
        let client = tokio::spawn(async move {
            let mut response = request.send().await.unwrap();
            while response.chunk().await.unwrap().is_some() {}
        });
        latch.reached().await;
        client.abort();
        let gone = async {
            loop {
                let list = running.get("/v1/conversations").await.1;
                if list["total"] == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(HANG, gone).await.expect("the conversation stays");
        running.stop().await;
    }
}
