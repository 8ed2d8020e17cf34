//! A server of the Responses API over HTTP and WebSocket that answers after a simulated delay, and refuses a conversation in
//! which something is missing or comes twice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// The largest head of a request.
const MAX_HEAD: usize = 64 << 10;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    /// The latency of one direction.
    pub(super) latency: Duration,
    /// The time for each byte of a request.
    pub(super) byte_nanos: u64,
    /// The request whose connection is cut within the reply.
    pub(super) cut_at: Option<usize>,
}

/// What the server has received.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    requests: usize,
    pub(super) request_bytes: usize,
    pub(super) connections: usize,
    /// The calls and results of the last request's conversation.
    pub(super) calls: usize,
    pub(super) outputs: usize,
    pub(super) problem: Option<String>,
}

/// The server. It ends when it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) async fn start(turns: usize, settings: Settings) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&shared);
                tokio::spawn(async move {
                    lock(&seen).connections += 1;
                    if let Err(error) = connection(stream, &Peer { turns, settings, seen: &seen }).await {
                        lock(&seen).problem.get_or_insert(format!("{error:#}"));
                    }
                });
            }
        });
        Ok(Self { address, seen, task })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(super) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Peer<'s> {
    turns: usize,
    settings: Settings,
    seen: &'s Mutex<Seen>,
}

async fn connection(mut stream: TcpStream, peer: &Peer<'_>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    // The handshake of TCP.
    tokio::time::sleep(peer.settings.latency * 2).await;
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break end + 4;
            }
            if bytes.len() > MAX_HEAD {
                bail!("a long head");
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let rest = bytes.split_off(end);
        let head = String::from_utf8(std::mem::replace(&mut bytes, rest))?;
        if head.starts_with("GET ") {
            let accept = derive_accept_key(header(&head, "sec-websocket-key").context("no key")?.as_bytes());
            // The request for the upgrade and its answer.
            tokio::time::sleep(peer.settings.latency * 2).await;
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).await?;
            return peer.serve(WebSocketStream::from_raw_socket(stream, Role::Server, None).await).await;
        }
        let length: usize = header(&head, "content-length").context("no length")?.parse()?;
        while bytes.len() < length {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        let rest = bytes.split_off(length);
        let body = std::mem::replace(&mut bytes, rest);
        peer.travel(body.len()).await;
        let events = peer.answer(&serde_json::from_slice(&body)?, body.len(), &mut BTreeMap::new())?;
        let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        );
        stream.write_all(head.as_bytes()).await?;
    }
}

/// Returns a header of a request.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

impl Peer<'_> {
    /// Waits as long as a request of this size and the first byte of its answer travel.
    async fn travel(&self, bytes: usize) {
        let bytes = Duration::from_nanos(self.settings.byte_nanos * bytes as u64);
        let wait = self.settings.latency * 2 + bytes;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    async fn serve(&self, mut socket: WebSocketStream<TcpStream>) -> anyhow::Result<()> {
        let mut known = BTreeMap::new();
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            self.travel(text.len()).await;
            let events = self.answer(&serde_json::from_str(&text)?, text.len(), &mut known)?;
            let cut = self.settings.cut_at == Some(lock(self.seen).requests);
            for event in events {
                socket.send(Message::text(event.to_string())).await?;
                if cut {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Checks a request and returns the events of its reply.
    fn answer(
        &self,
        body: &Value,
        bytes: usize,
        known: &mut BTreeMap<String, Vec<Value>>,
    ) -> anyhow::Result<[Value; 3]> {
        let previous = body.get("previous_response_id").and_then(Value::as_str);
        let earlier = match previous {
            Some(id) => known.get(id).with_context(|| format!("the reply {id} is unknown"))?.clone(),
            None => Vec::new(),
        };
        let input = body.get("input").and_then(Value::as_array).context("no input")?;
        let whole: Vec<Value> = earlier.into_iter().chain(input.iter().cloned()).collect();
        let (calls, outputs) = counted(&whole)?;
        let number = {
            let mut seen = lock(self.seen);
            seen.requests += 1;
            seen.request_bytes += bytes;
            (seen.calls, seen.outputs) = (calls, outputs);
            seen.requests
        };
        let item = if calls < self.turns {
            json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
                "name": "look", "arguments": "{}"})
        } else {
            json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant",
                "content": [{"type": "output_text", "text": "Done.", "annotations": []}]})
        };
        let id = format!("resp_{number}");
        known.insert(id.clone(), whole.into_iter().chain([item.clone()]).collect());
        Ok([
            json!({"type": "response.created", "response": {"id": id}}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": "response.completed", "response": {"id": id, "status": "completed", "output": [item],
                "usage": {"input_tokens": bytes, "output_tokens": 1, "total_tokens": bytes + 1}}}),
        ])
    }
}

/// Returns the number of calls and of results. Each call must have one result, behind it.
fn counted(items: &[Value]) -> anyhow::Result<(usize, usize)> {
    let (mut calls, mut outputs) = (BTreeSet::new(), BTreeSet::new());
    for item in items {
        let id = item.get("call_id").and_then(Value::as_str).unwrap_or_default().to_owned();
        match item.get("type").and_then(Value::as_str) {
            Some("function_call") if !calls.insert(id.clone()) => bail!("the call {id} comes twice"),
            Some("function_call_output") if !calls.contains(&id) => bail!("a result of no call: {id}"),
            Some("function_call_output") if !outputs.insert(id.clone()) => bail!("two results of {id}"),
            _ => {}
        }
    }
    if calls != outputs {
        bail!("a call without a result");
    }
    Ok((calls.len(), outputs.len()))
}
