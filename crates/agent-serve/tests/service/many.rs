//! Many conversations at once on a server of its own process, with clients that go away and readers that do not read.
//! `LOOPTREE_SERVE_CONVERSATIONS=500` is the large form.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::crash::process;
use crate::support::ALICE;

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

/// Returns the peak memory of a process, where the system tells it.
fn peak_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
