//! The transport over the pipes of a child, with one JSON value per line.
//!
//! The SDK's own transport drops an invalid response, and the call waits until it times out. With this transport an
//! invalid response fails its call at once.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcMessage, NumberOrString, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use super::MAX_MESSAGE_BYTES;
use super::limits::{McpLimit, has_too_many_values};
use super::stderr::Tail;

/// The error code that replaces an invalid response. No server sends it, because the codes of JSON-RPC are far above.
pub(super) const BROKEN_ANSWER: ErrorCode = ErrorCode(i32::MIN);

/// The number of bytes retained of a line that is too long, to find the call that it answers.
const HEAD_BYTES: usize = 256;

/// The maximum capacity in bytes of a buffer that is reused. A larger one is freed.
const KEPT_BYTES: usize = 256 * 1024;

pub(super) struct Pipe<R, W> {
    reader: BufReader<R>,
    line: Vec<u8>,
    state: Line,
    /// The other messages of a batch.
    waiting: VecDeque<ServerJsonRpcMessage>,
    writer: Arc<Mutex<Option<W>>>,
    /// Receives the lines that are not messages, because programs report problems on either output.
    junk: Tail,
}

/// The state of the line that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Kept,
    /// It is too long, so only its beginning is retained.
    TooLong,
}

/// A line that has been read.
enum Read {
    Whole,
    TooLong,
    End,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin> Pipe<R, W> {
    pub(super) fn new(reader: R, writer: W, junk: Tail) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            state: Line::Kept,
            waiting: VecDeque::new(),
            writer: Arc::new(Mutex::new(Some(writer))),
            junk,
        }
    }

    /// Reads one line into the buffer. If the future is dropped, the next call continues at the same position.
    async fn read_line(&mut self) -> Read {
        loop {
            // An error is treated as the end of the pipe. The rest is not a complete line.
            let part = self.reader.fill_buf().await.unwrap_or_default();
            if part.is_empty() {
                return Read::End;
            }
            let end = memchr::memchr(b'\n', part);
            let taken = end.unwrap_or(part.len());
            let kept = part.get(..taken).unwrap_or_default();
            if self.state == Line::Kept {
                if self.line.len() + kept.len() > MAX_MESSAGE_BYTES {
                    self.state = Line::TooLong;
                    self.line.truncate(HEAD_BYTES);
                } else {
                    self.line.extend_from_slice(kept);
                }
            }
            self.reader.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                return match std::mem::replace(&mut self.state, Line::Kept) {
                    Line::Kept => Read::Whole,
                    Line::TooLong => Read::TooLong,
                };
            }
        }
    }

    /// Returns the messages of the line, or the replacement of one that is not valid.
    fn messages(&self) -> VecDeque<ServerJsonRpcMessage> {
        // A carriage return and a byte order mark are not part of the JSON text.
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return VecDeque::new();
        }
        // Some servers answer with a batch, which earlier versions of the protocol had.
        if line.starts_with(b"[")
            && !has_too_many_values(line)
            && let Ok(batch) = serde_json::from_slice::<Vec<&RawValue>>(line)
        {
            return batch.into_iter().filter_map(|one| self.message(one.get().as_bytes())).collect();
        }
        self.message(line).into_iter().collect()
    }

    fn message(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        if has_too_many_values(line) {
            return too_many_values(line);
        }
        let error = match serde_json::from_slice(line) {
            Ok(message) => return Some(message),
            Err(error) => error,
        };
        match Head::of(line).and_then(|head| Some((head.answered()?, head.is_empty()))) {
            Some((id, is_empty)) => {
                Some(broken(id, if is_empty { EMPTY.to_owned() } else { error.to_string() }))
            }
            None => {
                self.junk.push(line);
                self.junk.push(b"\n");
                None
            }
        }
    }
}

/// The error text for a response with neither result nor error.
const EMPTY: &str = "Empty result";

fn broken(id: NumberOrString, what: String) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(BROKEN_ANSWER, what, None), Some(id))
}

/// Returns the response that replaces one above a limit.
fn too_large(id: NumberOrString, limit: McpLimit) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(limit.code(), limit.to_string(), None), Some(id))
}

/// The members that identify a message. Their values and the other members are not stored, so values may be nested to
/// any depth.
#[derive(Deserialize)]
struct Head {
    id: Option<Value>,
    method: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "is_there")]
    result: bool,
    #[serde(default, deserialize_with = "is_there")]
    error: bool,
}

/// Returns `true` for any value, also for `null`.
fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

impl Head {
    fn of(message: &[u8]) -> Option<Self> {
        serde_json::from_slice(message).ok()
    }

    /// Returns the id of the call that the message answers.
    fn answered(&self) -> Option<NumberOrString> {
        let id = self.id.as_ref().filter(|_| self.method.is_none())?;
        id_of(id)
    }

    fn is_empty(&self) -> bool {
        !self.result && !self.error
    }
}

/// Returns the response that replaces a message with too many values, or `None` if it answers no request.
pub(super) fn too_many_values(message: &[u8]) -> Option<ServerJsonRpcMessage> {
    Some(too_large(Head::of(message)?.answered()?, McpLimit::MessageValues))
}

fn id_of(value: &Value) -> Option<NumberOrString> {
    match value {
        Value::Number(number) => number.as_i64().map(NumberOrString::Number),
        Value::String(text) => Some(NumberOrString::String(text.as_str().into())),
        _ => None,
    }
}

/// Returns the id of the call that a line answers, from the beginning of the line. Most servers write the id before the
/// result.
fn id_in_head(head: &[u8]) -> Option<NumberOrString> {
    let text = String::from_utf8_lossy(head);
    let (before, after) = text.split_once("\"id\":")?;
    if before.contains("\"result\"") || before.contains("\"error\"") || before.contains("\"method\"") {
        return None;
    }
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(NumberOrString::Number)
}

impl<R, W> Transport<RoleClient> for Pipe<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            writer.write_all(&line).await?;
            writer.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            self.waiting = match self.read_line().await {
                Read::Whole => self.messages(),
                Read::TooLong => id_in_head(&self.line)
                    .map(|id| too_large(id, McpLimit::MessageBytes))
                    .into_iter()
                    .collect(),
                Read::End => return None,
            };
            self.line.clear();
            self.line.shrink_to(KEPT_BYTES);
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.writer.lock().await.take());
        Ok(())
    }
}
