//! A strict server of the Responses API on loopback, over WebSocket and HTTP. It refuses what the public one refuses: unknown
//! earlier replies, calls without an output, outputs without a call, and items that come twice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::steered::{OpenReply, Steered};

/// What the server does with a request instead of a plain answer.
#[derive(Clone)]
pub enum Fault {
    /// Sends the first event and half of the frame of the second.
    CutMidFrame,
    /// Ends the connection before an event.
    CutBefore,
    /// Answers, and then ends the connection.
    CutAfter,
    /// Sends the first event and closes with this code.
    Close(u16),
    /// Sends a message with this many bytes of text.
    Large(usize),
    /// Sends the first event and then nothing.
    Silent,
    /// Has forgotten all replies.
    Forget,
    /// Sends this instead of a reply.
    Event(Value),
    /// Sends pings before and within the answer, and waits for the pongs.
    Pings,
    /// Sends a binary message.
    Binary,
    /// Waits before it answers.
    Wait(Arc<Notify>),
    /// Begins the reply, waits for a message that steers it, and goes on in this way.
    Steered(Steered),
}

/// How the server answers an upgrade.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Upgrade {
    /// Opens the connection.
    #[default]
    Open,
    /// Answers with this status.
    Status(u16),
    /// Answers with a wrong `sec-websocket-accept`.
    WrongAccept,
    /// Ends the connection.
    Drop,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The connection, counted from 0.
    pub connection: usize,
    /// Whether it came over HTTP.
    pub http: bool,
    /// The body or message.
    pub body: Value,
    /// The whole conversation, of which the request may hold the end only.
    pub whole: Vec<Value>,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    heads: Vec<String>,
    faults: BTreeMap<usize, Fault>,
    /// The number of replies that call the tool.
    calls: usize,
    upgrade: Upgrade,
    pongs: usize,
    problems: Vec<String>,
    closed: usize,
}

pub struct Server {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server whose first `calls` replies call the tool `look`; all others are texts.
    pub async fn start(
        calls: usize,
        upgrade: Upgrade,
        faults: impl IntoIterator<Item = (usize, Fault)>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let faults = faults.into_iter().collect();
        let state = Arc::new(Mutex::new(State { calls, upgrade, faults, ..State::default() }));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let mut tasks = JoinSet::new();
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                tasks.spawn(connection(stream, Arc::clone(&shared), number));
                number += 1;
            }
        });
        Self { address, state, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    /// The heads of the upgrades.
    pub fn heads(&self) -> Vec<String> {
        self.state().heads.clone()
    }

    pub fn pongs(&self) -> usize {
        self.state().pongs
    }

    /// The number of connections that have ended.
    pub fn closed(&self) -> usize {
        self.state().closed
    }

    /// What was wrong with the requests.
    pub fn problems(&self) -> Vec<String> {
        self.state().problems.clone()
    }
}

async fn head(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Some((String::from_utf8(bytes).unwrap(), rest));
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn connection(mut stream: TcpStream, state: Arc<Mutex<State>>, number: usize) {
    while let Some((text, rest)) = head(&mut stream).await {
        if text.starts_with("POST") {
            http(&mut stream, &state, number, (&text, rest)).await;
            continue;
        }
        state.lock().unwrap().heads.push(text.clone());
        let upgrade = state.lock().unwrap().upgrade;
        let name = "sec-websocket-key: ";
        let key =
            text.lines().find_map(|line| line.to_lowercase().starts_with(name).then(|| &line[name.len()..]));
        let accept =
            tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.unwrap().trim().as_bytes());
        let answer = match upgrade {
            Upgrade::Drop => return,
            Upgrade::Status(status) => {
                let body =
                    r#"{"error":{"message":"no sockets for sk-test-0123456789","type":"t","code":null}}"#;
                format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                )
            }
            Upgrade::Open | Upgrade::WrongAccept => {
                let accept = if upgrade == Upgrade::Open { accept } else { "AAAA".to_owned() };
                format!(
                    "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
                )
            }
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
        if upgrade == Upgrade::Open {
            let role = tokio_tungstenite::tungstenite::protocol::Role::Server;
            let socket = WebSocketStream::from_raw_socket(stream, role, None).await;
            serve(socket, &state, number).await;
            state.lock().unwrap().closed += 1;
            return;
        }
    }
}

async fn http(
    stream: &mut TcpStream,
    state: &Mutex<State>,
    number: usize,
    (head, mut body): (&str, Vec<u8>),
) {
    let length =
        head.lines().find_map(|l| l.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let length: usize = length.unwrap().trim().parse().unwrap();
    while body.len() < length {
        stream.read_buf(&mut body).await.unwrap();
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    let (events, _) = answer(state, number, true, body, &mut BTreeMap::new());
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        events.len()
    );
    stream.write_all(format!("{head}{events}").as_bytes()).await.unwrap();
}

async fn serve(mut socket: WebSocketStream<TcpStream>, state: &Mutex<State>, connection: usize) {
    let mut known = BTreeMap::new();
    let mut open: Option<OpenReply> = None;
    let (outgoing, mut waiting) = tokio::sync::mpsc::unbounded_channel::<String>();
    loop {
        let message = tokio::select! {
            message = socket.next() => message,
            Some(event) = waiting.recv() => {
                socket.send(Message::text(event)).await.unwrap();
                continue;
            }
        };
        let Some(Ok(message)) = message else { return };
        let Message::Text(text) = message else {
            state.lock().unwrap().pongs += usize::from(matches!(message, Message::Pong(_)));
            continue;
        };
        let body: Value = serde_json::from_str(&text).unwrap();
        if body["type"] == "response.steer" {
            let (events, cut) = steer(state, connection, open.take(), body, &mut known);
            for event in events {
                socket.send(Message::text(event.to_string())).await.unwrap();
            }
            if cut {
                return;
            }
            continue;
        }
        let fault = {
            let state = state.lock().unwrap();
            state.faults.get(&(state.asked.len() + 1)).cloned()
        };
        if let Some(Fault::Forget) = fault {
            known.clear();
        }
        let (events, broken) = answer(state, connection, false, body, &mut known);
        if let Some(Fault::Steered(how)) = fault {
            socket.send(Message::text(events[0].to_string())).await.unwrap();
            let whole = state.lock().unwrap().asked.last().unwrap().whole.clone();
            open = Some(OpenReply { events, whole, how });
            continue;
        }
        let mut events = events.into_iter().map(|event| event.to_string());
        match fault {
            Some(Fault::CutBefore) => return,
            Some(Fault::CutMidFrame) => {
                socket.send(Message::text(events.next().unwrap())).await.unwrap();
                let mut raw = socket.into_inner();
                // A text frame of 100 bytes, of which four arrive.
                raw.write_all(&[0x81, 100, b'{', b'"', b't', b'y']).await.unwrap();
                return;
            }
            Some(Fault::Close(code)) => {
                socket.send(Message::text(events.next().unwrap())).await.unwrap();
                let reason = "going away: sk-test-0123456789".into();
                let _ = socket.close(Some(CloseFrame { code: code.into(), reason })).await;
                while let Some(Ok(_)) = socket.next().await {}
                return;
            }
            Some(Fault::Large(bytes)) => {
                let _ = socket.send(Message::text("x".repeat(bytes))).await;
                continue;
            }
            Some(Fault::Silent) => {
                socket.send(Message::text(events.next().unwrap())).await.unwrap();
                continue;
            }
            Some(Fault::Event(event)) => {
                socket.send(Message::text(event.to_string())).await.unwrap();
                continue;
            }
            Some(Fault::Binary) => {
                socket.send(Message::binary(vec![1, 2])).await.unwrap();
                continue;
            }
            Some(Fault::Wait(notify)) => {
                let (outgoing, events) = (outgoing.clone(), events.collect::<Vec<_>>());
                tokio::spawn(async move {
                    notify.notified().await;
                    for event in events {
                        let _ = outgoing.send(event);
                    }
                });
                continue;
            }
            Some(Fault::Pings) => socket.send(Message::Ping("a".into())).await.unwrap(),
            Some(Fault::CutAfter | Fault::Forget | Fault::Steered(_)) | None => {}
        }
        for event in events {
            socket.send(Message::text(event)).await.unwrap();
            if let Some(Fault::Pings) = fault {
                socket.send(Message::Ping("b".into())).await.unwrap();
            }
        }
        if broken || matches!(fault, Some(Fault::CutAfter)) {
            return;
        }
    }
}

/// Checks a message that steers the open reply and returns the events that follow it, and whether the connection then ends.
fn steer(
    state: &Mutex<State>,
    connection: usize,
    open: Option<OpenReply>,
    body: Value,
    known: &mut BTreeMap<String, Vec<Value>>,
) -> (Vec<Value>, bool) {
    let mut state = state.lock().unwrap();
    let number = state.asked.len() + 1;
    let Some(reply) = open else {
        state.problems.push(format!("no open reply: {body}"));
        return (vec![], false);
    };
    let answer = reply.steered(&body, number, known);
    state.problems.extend(answer.problem);
    state.asked.push(Asked { connection, http: false, body, whole: answer.whole });
    (answer.events, answer.cut)
}

/// Checks a request and returns the events of its answer, and whether it was refused.
fn answer(
    state: &Mutex<State>,
    connection: usize,
    http: bool,
    body: Value,
    known: &mut BTreeMap<String, Vec<Value>>,
) -> (Vec<Value>, bool) {
    let mut state = state.lock().unwrap();
    let number = state.asked.len() + 1;
    let previous = body["previous_response_id"].as_str().map(str::to_owned);
    let earlier = previous.as_ref().map(|id| known.get(id).cloned());
    let found = earlier.clone().flatten().unwrap_or_default();
    let whole: Vec<Value> =
        found.into_iter().chain(body["input"].as_array().unwrap().iter().cloned()).collect();
    state.asked.push(Asked { connection, http, body: body.clone(), whole: whole.clone() });
    let stream_id = body.get("stream_id").cloned();
    let mark = |mut event: Value| {
        if let Some(id) = &stream_id {
            event["stream_id"] = id.clone();
        }
        event
    };
    if let Some(None) = earlier {
        let error = json!({"type": "error", "status": 400, "error": {"type": "invalid_request_error",
            "code": "previous_response_not_found", "message": "Previous response not found."}});
        return (vec![mark(error)], false);
    }
    if let Some(problem) = problem(&body, http, &whole) {
        state.problems.push(problem.clone());
        let error = json!({"type": "error", "status": 400, "error": {"type": "invalid_request_error",
            "code": "bad", "message": problem}});
        return (vec![mark(error)], false);
    }
    let id = format!("resp_{number}");
    let tools = body.get("tools").is_some();
    let is_async = body["tools"][0]["async"] == true;
    let mut item = if number <= state.calls && tools {
        json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
            "name": "look", "arguments": format!("{{\"n\":{number}}}"), "status": "completed"})
    } else {
        json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": format!("text {number}"), "annotations": []}]})
    };
    if is_async && item["type"] == "function_call" {
        item["async"] = true.into();
    }
    let tokens = u64::try_from(whole.len()).unwrap();
    let events = vec![
        json!({"type": "response.created", "response": {"id": id, "model": "gpt-5.5"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": id, "status": "completed", "output": [item],
            "usage": {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}}}),
    ];
    known.insert(id, whole.into_iter().chain([item]).collect());
    (events.into_iter().map(mark).collect(), false)
}

/// Returns what is wrong with a request.
fn problem(body: &Value, http: bool, whole: &[Value]) -> Option<String> {
    if !http && (body["type"] != "response.create" || body.get("stream").is_some()) {
        return Some(format!("not a message of a connection: {body}"));
    }
    if http && body["stream"] != true {
        return Some("not streamed".to_owned());
    }
    let (mut open, mut later) = (BTreeSet::new(), BTreeSet::new());
    let mut seen = BTreeSet::new();
    for item in whole {
        let call = item["call_id"].as_str().unwrap_or_default().to_owned();
        match item["type"].as_str().unwrap_or_default() {
            "function_call" => {
                if !seen.insert(call.clone()) {
                    return Some(format!("the call {call} comes twice"));
                }
                let waiting = if item["async"] == true { &mut later } else { &mut open };
                waiting.insert(call);
            }
            "function_call_output" if !open.remove(&call) && !later.remove(&call) => {
                return Some(format!("an output of no call: {call}"));
            }
            "function_call_output" => {}
            _ if !open.is_empty() => return Some(format!("a call without an output: {open:?}")),
            _ => {}
        }
        if let Some(id) = item["id"].as_str()
            && !seen.insert(id.to_owned())
        {
            return Some(format!("the item {id} comes twice"));
        }
    }
    (!open.is_empty()).then(|| format!("a call without an output: {open:?}"))
}
