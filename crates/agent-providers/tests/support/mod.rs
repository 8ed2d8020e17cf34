//! A scripted HTTP/1.1 server on loopback. It does what a test says, byte for byte, and keeps what it was asked.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::{
    CancellationToken, Completion, History, ModelConfig, ModelRequest, OwnedStreamEvent, ProviderError,
    StreamProvider,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What the server does after it has read a request.
#[derive(Clone)]
pub enum Act {
    /// Sends the head of an answer whose body is chunked.
    Head(u16, Vec<(&'static str, String)>),
    /// Sends a piece of the body.
    Piece(Vec<u8>),
    /// Waits until the test calls `go`.
    Wait(Arc<Notify>),
    /// Says nothing for this long.
    Pause(Duration),
    /// Says nothing for ever.
    Stall,
    /// Closes the connection without the end of the body.
    Cut,
    /// Ends the body; the connection stays for the next request.
    End,
    /// Sends these bytes as they are and closes.
    Raw(Vec<u8>),
    /// Answers with this JSON and status 400 instead of the rest of the script, if the function finds a fault.
    Refuse(fn(&Asked) -> Option<serde_json::Value>),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub line: String,
    pub headers: String,
    pub body: String,
    /// Which connection it came by, counted from 0.
    pub connection: usize,
}

impl Asked {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

pub struct Server {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers the first request with the first script, and so on; the last script is used again.
    pub async fn start(scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut tasks = tokio::task::JoinSet::new();
            let mut connection = 0;
            while let Ok((stream, _)) = listener.accept().await {
                tasks.spawn(serve(stream, scripts.clone(), Arc::clone(&seen), connection));
                connection += 1;
            }
        });
        Self { address, asked, task }
    }

    /// A good answer of this type with this body.
    pub async fn answering(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::start(vec![vec![head(200, content_type), Act::Piece(body.into()), Act::End]]).await
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

pub fn head(status: u16, content_type: &str) -> Act {
    Act::Head(status, vec![("content-type", content_type.to_owned())])
}

pub fn sse() -> Act {
    head(200, "text/event-stream")
}

pub fn piece(text: &str) -> Act {
    Act::Piece(text.as_bytes().to_vec())
}

async fn serve(
    mut stream: TcpStream,
    scripts: Vec<Vec<Act>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    connection: usize,
) {
    let mut buffer = Vec::new();
    loop {
        let Some(request) = read_request(&mut stream, &mut buffer, connection).await else { return };
        let n = {
            let mut asked = asked.lock().unwrap();
            asked.push(request.clone());
            asked.len() - 1
        };
        let script = scripts.get(n).or(scripts.last()).cloned().unwrap_or_default();
        for act in script {
            let sent = match act {
                Act::Refuse(fault) => match fault(&request) {
                    Some(body) => {
                        let body = body.to_string();
                        let head = format!(
                            "HTTP/1.1 400 X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        let _ = stream.write_all(head.as_bytes()).await;
                        break;
                    }
                    None => Ok(()),
                },
                Act::Head(status, headers) => {
                    let mut head = format!("HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\n");
                    for (name, value) in headers {
                        head.push_str(&format!("{name}: {value}\r\n"));
                    }
                    head.push_str("\r\n");
                    stream.write_all(head.as_bytes()).await
                }
                Act::Piece(bytes) if bytes.is_empty() => Ok(()),
                Act::Piece(bytes) => {
                    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
                    out.extend_from_slice(&bytes);
                    out.extend_from_slice(b"\r\n");
                    stream.write_all(&out).await
                }
                Act::Wait(notify) => {
                    notify.notified().await;
                    Ok(())
                }
                Act::Pause(time) => {
                    tokio::time::sleep(time).await;
                    Ok(())
                }
                Act::Stall => {
                    let _ = stream.flush().await;
                    // Until the client goes.
                    let mut byte = [0; 1];
                    let _ = stream.read(&mut byte).await;
                    return;
                }
                Act::Cut => return,
                Act::End => stream.write_all(b"0\r\n\r\n").await,
                Act::Raw(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    let _ = stream.shutdown().await;
                    return;
                }
            };
            if sent.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> Option<Asked> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let (line, headers) = head.split_once("\r\n").unwrap();
    let length = headers
        .lines()
        .find_map(|l| {
            l.to_lowercase().strip_prefix("content-length:").map(|v| v.trim().parse::<usize>().unwrap())
        })
        .unwrap_or(0);
    while buffer.len() < head_end + 4 + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(buffer[head_end + 4..head_end + 4 + length].to_vec()).unwrap();
    let asked = Asked { line: line.to_owned(), headers: headers.to_owned(), body, connection };
    buffer.drain(..head_end + 4 + length);
    Some(asked)
}

/// What a call gave.
#[derive(Debug)]
pub struct Outcome {
    pub events: Vec<OwnedStreamEvent>,
    pub log: agent_core::ReplyLog,
    pub end: Result<Completion, ProviderError>,
}

impl Outcome {
    pub fn text(&self) -> String {
        self.log.snapshot().text()
    }

    pub fn error(&self) -> &ProviderError {
        self.end.as_ref().expect_err("the call should have failed")
    }

    /// The reply as a message.
    pub fn message(&self) -> agent_core::AssistantMessage {
        self.log.finish("p", "m", self.end.as_ref().unwrap())
    }
}

pub async fn call(provider: &dyn StreamProvider, request: &ModelRequest) -> Outcome {
    call_until(provider, request, &CancellationToken::new()).await
}

pub async fn call_until(
    provider: &dyn StreamProvider,
    request: &ModelRequest,
    cancel: &CancellationToken,
) -> Outcome {
    let mut events = Vec::new();
    let mut log = agent_core::ReplyLog::new();
    let mut sink = |event: agent_core::StreamEvent<'_>| {
        log.push(&event);
        events.push(event.into());
    };
    let end = tokio::time::timeout(Duration::from_secs(30), provider.stream(request, &mut sink, cancel))
        .await
        .expect("the call should end by itself");
    Outcome { events, log, end }
}

/// A request that says hello to this model.
pub fn hello(model: ModelConfig) -> ModelRequest {
    let mut history = History::new();
    history.push("hello".into()).unwrap();
    ModelRequest::new(model, history)
}
