//! Many conversations at once on a server of its own process, with clients that go away and readers that do not read.
//! `LOOPTREE_SERVE_CONVERSATIONS=500` is the large form of the first test, and `LOOPTREE_SERVE_GREEDY=200` that of the second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::crash::process;
use crate::support::{ALICE, BOB, Running};

/// The memory of the server: this and a part for each conversation, in KiB.
const BASE_KIB: u64 = 96 << 10;
const CONVERSATION_KIB: u64 = 512;

#[tokio::test(flavor = "multi_thread")]
async fn every_one_of_many_conversations_at_once_gets_its_own_answer_and_memory_is_bounded() {
    let most: u64 =
        std::env::var("LOOPTREE_SERVE_CONVERSATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let folder = tempfile::tempdir().unwrap();
    let server = process(folder.path()).await;
    let client = Arc::new(server.client());
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut tasks = Vec::new();
    for n in 0..most {
        let (client, address) = (Arc::clone(&client), address.clone());
        tasks.push(tokio::spawn(async move {
            let path = client.conversation("loud").await;
            // Every third conversation has a reader that never reads, and every fifth a client that goes away.
            let stalled = if n % 3 == 0 { Some(stalled(&address, &path).await) } else { None };
            let mut events = client.events(&path, 0).await;
            client.prompt(&path, &format!("hello {n}")).await;
            if n % 5 == 0 {
                let first = events.next().await.unwrap().number.unwrap();
                drop(events);
                events = client.events(&path, first).await;
            }
            events.until("agent_end").await;
            client.wait_for(&path, "idle").await;
            let (_, messages) = client.get(&format!("{path}/messages")).await;
            assert_eq!(messages["total"], 2);
            assert_eq!(messages["messages"][1]["content"][0]["text"], format!("HELLO {n}"));
            stalled
        }));
    }
    let mut stalled = Vec::new();
    for task in tasks {
        stalled.extend(task.await.unwrap());
    }
    assert_eq!(client.get("/v1/conversations?limit=1").await.1["total"], most);
    if let Some(kib) = peak_kib(server.pid()) {
        eprintln!("{most} conversations at once: the server had a peak of {} MiB", kib >> 10);
        assert!(kib < BASE_KIB + most * CONVERSATION_KIB, "{kib} KiB");
    }
    drop(stalled);
    server.kill().await;
}

/// Opens the events of a conversation and reads the first byte only.
async fn stalled(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        format!("GET {path}/events?after=0 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ALICE}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.read_u8().await.unwrap();
    stream
}

/// The connections of the server of the next test, which fit into the usual limit of open files.
const CONNECTIONS: usize = 256;

#[tokio::test(flavor = "multi_thread")]
async fn another_key_works_beside_a_client_that_opens_everything_it_can() {
    let number = std::env::var("LOOPTREE_SERVE_GREEDY").ok().and_then(|n| n.parse::<usize>().ok());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("connections"), CONNECTIONS.to_string()).unwrap();
    let server = process(folder.path()).await;
    let client = server.client();
    let rounds = number.unwrap_or(5);
    let alone = slowest(&client, rounds).await;
    let greedy = tokio::spawn(hold_everything(server.url.clone()));
    // Until it holds what it can.
    tokio::time::sleep(Duration::from_secs(if number.is_some() { 5 } else { 1 })).await;
    let beside = slowest(&client, rounds).await;
    assert!(!greedy.is_finished(), "the greedy client has ended");
    greedy.abort();
    eprintln!("p99 of {rounds} prompts: {alone:?} alone, {beside:?} beside a greedy client");
    if number.is_some() {
        assert!(beside <= alone * 2, "{alone:?} alone, {beside:?} beside a greedy client");
    }
    server.kill().await;
}

/// Makes conversations with a prompt each, and returns the 99th percentile of their times.
async fn slowest(client: &Running, rounds: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begun = Instant::now();
        let path = client.conversation("loud").await;
        let after = client.prompt(&path, "hello").await;
        client.until(&path, after, "agent_end").await;
        times.push(begun.elapsed());
    }
    times.sort();
    times[(times.len() * 99).div_ceil(100) - 1]
}

/// Opens streams, bodies and heads without an end, as one key and without one, and opens them again when they are closed.
async fn hold_everything(url: String) {
    let address = url.strip_prefix("http://").unwrap().to_owned();
    let client = reqwest::Client::new();
    let mut paths = VecDeque::new();
    let mut held = VecDeque::new();
    loop {
        let made = client.post(format!("{url}/v1/conversations")).bearer_auth(BOB);
        if let Ok(made) = made.json(&serde_json::json!({"agent": "slow"})).send().await
            && let Ok(body) = made.json::<serde_json::Value>().await
            && let Some(id) = body["id"].as_str()
        {
            let prompt = client.post(format!("{url}/v1/conversations/{id}/prompt")).bearer_auth(BOB);
            let _ = prompt.json(&serde_json::json!({"text": "go"})).send().await;
            paths.push_back(format!("/v1/conversations/{id}"));
        }
        for path in paths.iter().rev().take(4) {
            let key = format!("host: x\r\nauthorization: Bearer {BOB}\r\n");
            for head in [
                format!("GET {path}/events?after=0 HTTP/1.1\r\n{key}\r\n"),
                format!(
                    "POST {path}/prompt HTTP/1.1\r\n{key}content-type: application/json\r\ncontent-length: 9\r\n\r\n{{"
                ),
                "GET /v1/models HTTP/1.1\r\nhost: ".to_owned(),
                String::new(),
            ] {
                let Ok(mut stream) = TcpStream::connect(&address).await else { continue };
                let _ = stream.write_all(head.as_bytes()).await;
                held.push_back(stream);
            }
        }
        while held.len() > 2 * CONNECTIONS {
            held.pop_front();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the peak memory of a process, where the system tells it.
fn peak_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
