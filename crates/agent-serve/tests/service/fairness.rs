//! Clients that hold everything they can, beside others that work.

use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_serve::ConversationRef;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
#[cfg(feature = "files")]
use tokio::net::TcpSocket;
use tokio::net::TcpStream;

use crate::support::{ALICE, BOB, Events, HANG, Running, agent, answer, builder, keys, quick, store};

/// Opens a connection and sends this.
async fn send(running: &Running, text: &str) -> TcpStream {
    let address = running.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Returns the beginning of what the server answers on a connection.
async fn answered(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 2_000];
    let read = tokio::time::timeout(HANG, stream.read(&mut buffer)).await.expect("no answer");
    String::from_utf8_lossy(&buffer[..read.unwrap_or_default()]).into_owned()
}

async fn as_bob(running: &Running, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = running.client.request(method, format!("{}{path}", running.url)).bearer_auth(BOB);
    if let Some(body) = body {
        request = request.json(&body);
    }
    tokio::time::timeout(HANG, answer(request)).await.expect("another key is kept out")
}

/// Lets another key work, and reads the health of the service.
async fn works(running: &Running) {
    let client = reqwest::Client::builder().timeout(HANG).build().unwrap();
    let health = client.get(format!("{}/healthz", running.url)).send().await.unwrap();
    assert_eq!(health.status().as_u16(), 200);
    let (status, made) = as_bob(running, "POST", "/v1/conversations", Some(json!({"agent": "loud"}))).await;
    assert_eq!(status, 201, "{made}");
    let path = format!("/v1/conversations/{}", made["id"].as_str().unwrap());
    let (status, started) =
        as_bob(running, "POST", &format!("{path}/prompt"), Some(json!({"text": "hi"}))).await;
    assert_eq!(status, 202, "{started}");
    let events = client.get(format!("{}{path}/events?after=0", running.url)).bearer_auth(BOB).send();
    Events::of(events.await.unwrap()).until("agent_end").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_connections_of_one_key_and_of_strangers_keep_no_other_key_and_no_health_check_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.connections = 24;
    limits.streams_per_key = 8;
    limits.requests_per_key = 12;
    let running = Running::with(builder(&store(folder.path())).keys(keys()).limits(limits)).await;
    let mut paths = Vec::new();
    for _ in 0..4 {
        paths.push(running.conversation("loud").await);
    }
    let mut held = Vec::new();
    let mut refused = 0;
    for n in 0..32 {
        let path = &paths[n % 4];
        let head =
            format!("GET {path}/events?after=0 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ALICE}\r\n\r\n");
        let mut stream = send(&running, &head).await;
        let start = answered(&mut stream).await;
        match start.contains(" 429 ") {
            true => {
                assert!(start.contains("too_many_streams") && start.contains("8 streams"), "{start}");
                assert!(start.contains("retry-after: "), "{start}");
                refused += 1;
            }
            false => assert!(start.starts_with("HTTP/1.1 200"), "{start}"),
        }
        held.push(stream);
    }
    assert_eq!(refused, 24);
    // Requests with the key whose bodies never end.
    for _ in 0..16 {
        let head = format!(
            "POST {}/prompt HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ALICE}\r\n\
             content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
            paths[0]
        );
        held.push(send(&running, &head).await);
    }
    // Strangers whose heads never end, and some that hold a connection after their answer.
    for n in 0..200 {
        let head = if n % 4 == 0 { "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n" } else { "GET /v1/mod" };
        held.push(send(&running, head).await);
    }
    works(&running).await;
    let metrics = running.client.get(format!("{}/metrics", running.url)).bearer_auth(BOB);
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("looptree_connections_evicted_total"), "{metrics}");
    drop(held);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_service_refuses_keys_with_the_figure_and_still_answers_health() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.connections = 4;
    let running = Running::with(builder(&store(folder.path())).keys(keys()).limits(limits)).await;
    let path = running.conversation("loud").await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(running.events(&path, 0).await);
    }
    let refused = running.client.get(format!("{}/v1/models", running.url)).bearer_auth(BOB);
    let response = refused.send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["code"], "busy");
    assert!(body["error"]["message"].as_str().unwrap().contains("all 4 connections"), "{body}");
    let health = running.client.get(format!("{}/healthz", running.url)).send().await.unwrap();
    assert_eq!(health.status().as_u16(), 200);
    drop(streams);
    running.stop().await;
}

#[cfg(feature = "files")]
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_a_key_sends_or_does_not_read_leave_room_for_those_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("work");
    std::fs::create_dir(&root).unwrap();
    // More than the buffers of a connection.
    std::fs::write(root.join("large"), vec![b'x'; 14 << 20]).unwrap();
    let mut limits = quick();
    limits.bytes_per_key = (14 << 20) + 4_096;
    let builder = builder(&store(folder.path()))
        .agent_factory("files", crate::files::WithWorkspace(root))
        .keys(keys())
        .limits(limits);
    let running = Running::with(builder).await;
    let path = running.conversation("files").await;
    let file = format!("{path}/files/content?path=large");
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let address = running.url.strip_prefix("http://").unwrap().parse().unwrap();
    let mut unread = socket.connect(address).await.unwrap();
    let head = format!("GET {file} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ALICE}\r\n\r\n");
    unread.write_all(head.as_bytes()).await.unwrap();
    unread.read_u8().await.unwrap();
    let (status, body) = answer(running.request("GET", &file)).await;
    assert_eq!((status, body["error"]["code"].as_str()), (429, Some("too_many_bytes")));
    let (status, body) = running.post(&format!("{path}/prompt"), json!({"text": "y".repeat(20_000)})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (429, Some("too_many_bytes")));
    assert!(body["error"]["message"].as_str().unwrap().contains("14684160 bytes"), "{body}");
    works(&running).await;
    drop(unread);
    let again = async {
        while running.request("GET", &file).send().await.unwrap().status().as_u16() != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANG, again).await.expect("the room is never free again");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_that_a_key_keeps_working_leave_places_for_those_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.open_conversations = 4;
    limits.conversations_per_key = 3;
    let endless = ScriptedProvider::responding(|_| ScriptedReply::new().and_text("Half").and_hang());
    let builder = builder(&store(folder.path()))
        .agent("endless", move |_: &ConversationRef| agent(&endless))
        .keys(keys())
        .limits(limits);
    let running = Running::with(builder).await;
    for n in 0..5 {
        let path = running.conversation("endless").await;
        let (status, body) = running.post(&format!("{path}/prompt"), json!({"text": "go"})).await;
        match n < 3 {
            true => assert_eq!(status, 202, "{body}"),
            false => {
                assert_eq!((status, body["error"]["code"].as_str()), (429, Some("too_many_conversations")));
                assert!(body["error"]["message"].as_str().unwrap().contains("all 3 "), "{body}");
            }
        }
    }
    // Messages that wait for a run which does not take them are bounded, too.
    let (_, list) = running.get("/v1/conversations").await;
    let list = list["conversations"].as_array().unwrap();
    let open = list.iter().find(|one| one["status"] == "running").unwrap();
    let steer = format!("/v1/conversations/{}/steer", open["id"].as_str().unwrap());
    for n in 0..33 {
        let (status, body) = running.post(&steer, json!({"text": "and"})).await;
        match n < 32 {
            true => assert_eq!(status, 202, "{body}"),
            false => {
                assert_eq!((status, body["error"]["code"].as_str()), (429, Some("too_many_messages")));
            }
        }
    }
    works(&running).await;
    running.stop().await;
}

/// A connection with many requests in its buffer takes turns with the others.
#[tokio::test]
async fn requests_that_were_sent_all_at_once_do_not_keep_another_client_waiting_for_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::with(builder(&store(folder.path())).keys(keys()).limits(quick())).await;
    let (connections, requests) = (64, 1_000);
    let many = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n".repeat(requests);
    let mut greedy = Vec::new();
    for _ in 0..connections {
        greedy.push(send(&running, &many).await);
    }
    let answered = |greedy: &[TcpStream]| {
        let mut buffer = vec![0; 1 << 20];
        let arrived = greedy.iter().map(|stream| {
            let arrived = stream.try_read(&mut buffer).unwrap_or_default();
            String::from_utf8_lossy(&buffer[..arrived]).matches("HTTP/1.1 401").count()
        });
        arrived.sum::<usize>()
    };
    answered(&greedy);
    let health = reqwest::get(format!("{}/healthz", running.url)).await.unwrap();
    assert_eq!(health.status().as_u16(), 200);
    // A few turns of each. A connection that works until its buffer is empty takes dozens.
    let meanwhile = answered(&greedy);
    assert!(meanwhile < 16 * connections, "{meanwhile} requests were answered before this one");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_stores_no_more_conversations_than_its_bound_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.stored_conversations_per_key = 3;
    let start =
        async || Running::with(builder(&store(folder.path())).keys(keys()).limits(limits.clone())).await;
    let mut running = start().await;
    let mut paths = Vec::new();
    for _ in 0..3 {
        paths.push(running.conversation("loud").await);
    }
    for _ in 0..2 {
        let (status, body) = running.post("/v1/conversations", json!({"agent": "loud"})).await;
        assert_eq!((status, body["error"]["code"].as_str()), (429, Some("too_many_stored_conversations")));
        assert!(body["error"]["message"].as_str().unwrap().contains("has 3 conversations"), "{body}");
        works(&running).await;
        running.stop().await;
        running = start().await;
    }
    let (status, body) = answer(running.request("DELETE", &paths[0])).await;
    assert_eq!(status, 204, "{body}");
    running.conversation("loud").await;
    let (status, _) = running.post("/v1/conversations", json!({"agent": "loud"})).await;
    assert_eq!(status, 429);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_ends_after_its_time_and_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.stream_time = Duration::from_millis(100);
    let running = Running::with(builder(&store(folder.path())).keys(keys()).limits(limits)).await;
    let path = running.conversation("loud").await;
    let mut events = running.events(&path, 0).await;
    let released = events.until("service.released").await;
    assert_eq!(released[0].data["after"], 0);
    assert_eq!(events.next().await, None);
    let mut after = running.prompt(&path, "hello").await;
    let resumed = async {
        loop {
            let mut events = running.events(&path, after).await;
            while let Some(event) = events.next().await {
                after = event.number.unwrap_or(after);
                if event.kind == "agent_end" {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(HANG, resumed).await.expect("the end of the run never comes");
    running.stop().await;
}
