//! A lane: sends one request over a connection and receives the events of its reply, within the limits of the transport.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agent_core::{CancellationToken, ErrorContext, ErrorKind, ProviderError};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::{Broken, Piece, Shared, Socket};
use crate::transport::{MAX_BYTES_WITHOUT_CONTENT, TransportConfig, failure};

/// Close codes after which the same request may succeed over another connection.
const PASSING: &[u16] = &[1000, 1001, 1005, 1006, 1011, 1012, 1013, 1015];

/// The maximum number of characters that are quoted of the server's reason for closing.
const MAX_QUOTED: usize = 120;

/// The place of one reply on a connection.
pub(crate) struct Lane {
    name: String,
    shared: Arc<Shared>,
    outgoing: mpsc::Sender<Message>,
    pieces: mpsc::Receiver<Piece>,
    config: TransportConfig,
    /// Whether an event of the reply has arrived.
    begun: bool,
    ended: bool,
    /// Fires when no content has arrived for too long.
    content: Option<Pin<Box<Sleep>>>,
    bytes_without_content: usize,
}

impl Lane {
    pub(super) fn new(name: String, pieces: mpsc::Receiver<Piece>, socket: &Socket) -> Self {
        Self {
            name,
            shared: Arc::clone(&socket.shared),
            outgoing: socket.outgoing.clone(),
            pieces,
            config: socket.config.clone(),
            begun: false,
            ended: false,
            content: None,
            bytes_without_content: 0,
        }
    }

    /// Returns the `stream_id` of the lane; `None` for the first lane, which has none.
    pub(crate) fn stream_id(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Sends a message. Returns whether the connection has taken it; if not, nothing was sent.
    pub(crate) async fn send(&self, text: String) -> bool {
        self.outgoing.send(Message::text(text)).await.is_ok()
    }

    /// Returns the next event of the reply.
    ///
    /// # Errors
    /// Returns `Cancelled`, and `Network` if the connection has ended or a time limit was exceeded, like an HTTP response.
    pub(crate) async fn receive(&mut self, cancel: &CancellationToken) -> Result<Utf8Bytes, ProviderError> {
        loop {
            let wait = if self.begun { self.config.idle_timeout } else { self.config.header_timeout };
            let limit = self.config.content_timeout;
            let content = self.content.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
            let piece = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ProviderError::Cancelled),
                piece = self.pieces.recv() => piece,
                () = content.as_mut() => return Err(failure::empty(limit)),
                () = tokio::time::sleep(wait) => return Err(if self.begun { failure::silent(wait) } else { late(wait) }),
            };
            match piece {
                Some(Piece::Text(text)) => {
                    self.begun = true;
                    self.bytes_without_content = self.bytes_without_content.saturating_add(text.len());
                    if self.bytes_without_content > MAX_BYTES_WITHOUT_CONTENT {
                        return Err(failure::flood(MAX_BYTES_WITHOUT_CONTENT));
                    }
                    return Ok(text);
                }
                Some(Piece::Alive) => {}
                Some(Piece::End(broken)) => return Err(self.error(&broken)),
                None => return Err(self.error(&Broken::Lost("it was closed".to_owned()))),
            }
        }
    }

    /// Resets the limits of what may arrive without content.
    pub(crate) fn had_content(&mut self) {
        self.content = None;
        self.bytes_without_content = 0;
    }

    /// Sets whether the lane is held and not read. The connection does not wait for a held lane: it is closed if too many
    /// events arrive, or with an idle connection. Reading begins a new reply with the time limits of a new request.
    pub(crate) fn set_held(&mut self, held: bool) {
        let mut lanes = self.shared.lanes();
        if held && lanes.open.contains_key(&self.name) {
            lanes.held.insert(self.name.clone());
        } else {
            lanes.held.remove(&self.name);
            lanes.used = true;
        }
        drop(lanes);
        self.begun = false;
        self.had_content();
    }

    /// Marks the reply as ended. The connection can then serve another request.
    pub(crate) fn end(mut self) {
        self.ended = true;
    }

    fn error(&self, broken: &Broken) -> ProviderError {
        let place = if self.begun { "in the middle of the answer" } else { "before an answer came" };
        let (kind, message) = match broken {
            Broken::Lost(cause) => (ErrorKind::Network, format!("the connection broke {place}: {cause}")),
            Broken::TooLong => return failure::too_long(self.config.max_frame_bytes),
            Broken::Closed(code, reason) => {
                let kind = if PASSING.contains(code) { ErrorKind::Network } else { ErrorKind::Api };
                let reason: String = reason.chars().take(MAX_QUOTED).collect();
                let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
                (kind, format!("the server closed the connection {place} (code {code}){reason}"))
            }
        };
        ProviderError::new(kind, ErrorContext::new(message))
    }
}

/// Returns the error for a reply that did not begin in time.
fn late(limit: Duration) -> ProviderError {
    let context = ErrorContext::new(format!("the server sent no answer within {} s", limit.as_secs_f64()))
        .with_advice("the server may be overloaded; a longer header_timeout in TransportConfig waits longer");
    ProviderError::new(ErrorKind::Network, context)
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.shared.leave(&self.name, self.ended);
    }
}
