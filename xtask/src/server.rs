//! A small HTTP/1.1 server on loopback that answers each request with a prepared response, piece by piece, and keeps
//! what it was sent.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The most bytes of a request's head.
const MAX_HEAD: usize = 64 << 10;

/// The most bytes of a request's body.
const MAX_BODY: usize = 4 << 20;

/// Headers that say how a recorded body was carried, which is not how it is carried here.
const CARRIAGE: &[&str] =
    &["content-length", "transfer-encoding", "content-encoding", "connection", "keep-alive"];

/// A response as it is sent.
#[derive(Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) pieces: Vec<Vec<u8>>,
    /// How long to wait between two pieces.
    pub(crate) pause: Duration,
    /// How the body ends.
    pub(crate) ending: Ending,
}

/// How a body ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As HTTP demands it.
    #[default]
    Whole,
    /// The connection is closed without the end of the body.
    Lost,
}

/// The server. It ends when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    prepared: Prepared,
    task: JoinHandle<()>,
}

type Prepared = Arc<Mutex<State>>;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    /// The path behind the base address.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// How many base addresses are kept; older ones are not found any more.
const KEPT: u64 = 256;

#[derive(Default)]
struct State {
    next: u64,
    exchanges: BTreeMap<u64, Exchange>,
}

/// The replies under one base address and the requests that arrived there.
struct Exchange {
    responses: Vec<Arc<Response>>,
    received: Vec<Received>,
}

impl State {
    /// Takes a request in, and gives the response to it: the next one, or again the last.
    fn exchange(&mut self, received: Received) -> Option<Arc<Response>> {
        let (id, rest) = received.path.strip_prefix('/')?.split_once('/').unwrap_or_default();
        let (id, path) = (id.parse::<u64>().ok()?, format!("/{rest}"));
        let exchange = self.exchanges.get_mut(&id)?;
        let response = exchange.responses.get(exchange.received.len()).or(exchange.responses.last())?;
        exchange.received.push(Received { path, ..received });
        Some(Arc::clone(response))
    }
}

impl Server {
    /// Listens on a free port of this machine.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on loopback")?;
        let address = listener.local_addr().context("cannot read the server's port")?;
        let prepared = Prepared::default();
        let for_task = Arc::clone(&prepared);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let prepared = Arc::clone(&for_task);
                tokio::spawn(async move {
                    // A client that goes away is its own affair; the comparison will show it.
                    let _ = answer(stream, &prepared).await;
                });
            }
        });
        Ok(Self { address, prepared, task })
    }

    /// Prepares a response, and gives the base address under which every path answers with it.
    pub(crate) fn prepare(&self, response: Response) -> String {
        self.prepare_all(vec![response])
    }

    /// Like [`prepare`](Self::prepare), for requests that come one after the other: each gets the next response, and
    /// those after the last one get the last one again.
    pub(crate) fn prepare_all(&self, responses: Vec<Response>) -> String {
        let mut state = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        state.next += 1;
        let id = state.next;
        // Cases come one after the other; the last few are enough.
        state.exchanges.retain(|old, _| old + KEPT > id);
        let responses = responses.into_iter().map(Arc::new).collect();
        state.exchanges.insert(id, Exchange { responses, received: Vec::new() });
        format!("http://{}/{id}", self.address)
    }

    /// What has arrived under a base address, in order.
    pub(crate) fn received(&self, base: &str) -> Vec<Received> {
        let id = base.rsplit('/').next().and_then(|id| id.parse::<u64>().ok());
        let state = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        id.and_then(|id| state.exchanges.get(&id)).map(|e| e.received.clone()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream, prepared: &Prepared) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let received = read_request(&mut stream).await?;
    let response = prepared.lock().unwrap_or_else(PoisonError::into_inner).exchange(received);
    let Some(response) = response else {
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
        return Ok(());
    };
    stream.write_all(head(&response).as_bytes()).await?;
    for (number, piece) in response.pieces.iter().enumerate() {
        if number > 0 && !response.pause.is_zero() {
            tokio::time::sleep(response.pause).await;
        }
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk).await?;
    }
    if response.ending == Ending::Whole {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    stream.shutdown().await?;
    Ok(())
}

fn head(response: &Response) -> String {
    let mut head = format!("HTTP/1.1 {} Recorded\r\n", response.status);
    for (name, value) in &response.headers {
        if !CARRIAGE.contains(&name.to_ascii_lowercase().as_str()) {
            let _ = write!(head, "{name}: {value}\r\n");
        }
    }
    head.push_str("transfer-encoding: chunked\r\nconnection: close\r\n\r\n");
    head
}

/// Reads a whole request.
async fn read_request(stream: &mut TcpStream) -> anyhow::Result<Received> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        let read = stream.read(&mut buffer).await?;
        if read == 0 || bytes.len() > MAX_HEAD {
            bail!("the request has no end of its head");
        }
        bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
    };
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
    let length = head
        .lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Ok(0), |(_, value)| value.trim().parse::<usize>())?;
    if length > MAX_BODY {
        bail!("the request has {length} bytes");
    }
    while bytes.len() < end + length {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            bail!("the request's body ends early");
        }
        bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
    }
    let line = head.lines().next().unwrap_or_default();
    let path = line.split(' ').nth(1).map(str::to_owned).context("the request names no path")?;
    let body = bytes.get(end..end + length).unwrap_or_default().to_vec();
    Ok(Received { path, body })
}

#[cfg(test)]
mod tests;
