//! Many conversations at once. `LOOPTREE_SERVE_CONVERSATIONS=500` is the large form.

use std::sync::Arc;

use crate::support::{Running, builder, keys, quick, store};

#[tokio::test(flavor = "multi_thread")]
async fn every_one_of_many_conversations_at_once_gets_its_own_answer() {
    let most = std::env::var("LOOPTREE_SERVE_CONVERSATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let folder = tempfile::tempdir().unwrap();
    let [alice, bob] = keys();
    let keys = [alice.with_requests_per_minute(10_000_000), bob];
    let running = Arc::new(Running::with(builder(&store(folder.path())).keys(keys).limits(quick())).await);
    let mut tasks = Vec::new();
    for n in 0..most {
        let running = Arc::clone(&running);
        tasks.push(tokio::spawn(async move {
            let path = running.conversation("loud").await;
            let mut events = running.events(&path, 0).await;
            running.prompt(&path, &format!("hello {n}")).await;
            let all = events.until("agent_end").await;
            let text = all.iter().find_map(|event| event.data["delta"]["text"].as_str()).unwrap().to_owned();
            assert_eq!(text, format!("HELLO {n}"));
            path
        }));
    }
    let mut paths = Vec::new();
    for task in tasks {
        paths.push(task.await.unwrap());
    }
    assert_eq!(running.get("/v1/conversations?limit=1").await.1["total"], most);
    for path in paths.iter().step_by(7) {
        running.wait_for(path, "idle").await;
        assert_eq!(running.get(path).await.1["messages"], 2);
    }
    if let Some(kib) = peak_kib() {
        eprintln!("{most} conversations at once: peak of server and clients together {kib} KiB");
    }
    Arc::into_inner(running).unwrap().stop().await;
}

/// Returns the peak memory of this process.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
