//! The start of the service with more runs than fit into memory.

use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply};
use agent_serve::{ConversationRef, Service};

use crate::support::{Running, agent, keys, quick, store};

#[tokio::test(flavor = "multi_thread")]
async fn more_left_runs_than_fit_into_memory_are_all_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let latch = Latch::new();
    let wait = latch.clone();
    let hangs = ScriptedProvider::responding(move |_| ScriptedReply::new().and_wait(&wait));
    let answers = ScriptedProvider::responding(|_| ScriptedReply::text("Done."));
    let with = |provider: &ScriptedProvider, most: usize| {
        let mut limits = quick();
        limits.open_conversations = most;
        let provider = provider.clone();
        Service::builder(store.clone())
            .agent("scripted", move |_: &ConversationRef| agent(&provider))
            .keys(keys())
            .limits(limits)
    };
    let running = Running::with(with(&hangs, 10)).await;
    let mut paths = Vec::new();
    for _ in 0..5 {
        let path = running.conversation("scripted").await;
        running.prompt(&path, "go").await;
        latch.reached().await;
        paths.push(path);
    }
    running.stop().await;
    let running = Running::with(with(&answers, 2)).await;
    for path in &paths {
        running.wait_for(path, "idle").await;
        assert_eq!(running.get(path).await.1["messages"], 2);
    }
    assert!(running.service().open_conversations() <= 2);
    running.stop().await;
}
