//! The task of a connection: writes messages, passes those of the server to their lanes, and closes an idle connection.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, Stream, StreamExt as _};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::{Broken, Piece, Shared};
use crate::json::Text;

/// The number of times within the idle limit that the connection is checked.
const CHECKS: u32 = 4;

/// The time limit for sending the closing message.
const CLOSING: Duration = Duration::from_secs(2);

/// The code of a connection that was closed without one.
const NO_CODE: u16 = 1005;

/// Serves a connection until it ends. The lanes that are open then receive the cause.
pub(super) async fn carry<S: AsyncRead + AsyncWrite + Unpin>(
    stream: WebSocketStream<S>,
    mut outgoing: mpsc::Receiver<Message>,
    shared: Arc<Shared>,
    idle: Duration,
) {
    let (mut sink, source) = stream.split();
    let write = async {
        loop {
            let message = tokio::select! {
                biased;
                () = shared.stop.cancelled() => None,
                message = outgoing.recv() => message,
            };
            let Some(message) = message else { break };
            if let Err(error) = sink.send(message).await {
                return broken(&error);
            }
        }
        let _ = tokio::time::timeout(CLOSING, sink.close()).await;
        Broken::Lost("it was closed".to_owned())
    };
    let cause = tokio::select! {
        biased;
        cause = read(source, &shared) => cause,
        cause = write => cause,
        () = unused(&shared, idle) => Broken::Lost("it was closed".to_owned()),
    };
    let open = {
        let mut lanes = shared.lanes();
        lanes.retired = true;
        std::mem::take(&mut lanes.open)
    };
    for lane in open.into_values() {
        let _ = lane.send(Piece::End(cause.clone())).await;
    }
}

/// Passes the messages of the server to the lanes until the connection ends.
async fn read(mut source: impl Stream<Item = Result<Message, Error>> + Unpin, shared: &Shared) -> Broken {
    let mut closed = None;
    while let Some(message) = source.next().await {
        match message {
            Ok(Message::Text(text)) => deliver(shared, text).await,
            Ok(Message::Ping(_) | Message::Pong(_)) => {
                for lane in shared.lanes().open.values() {
                    // A lane that is full has received something else.
                    let _ = lane.try_send(Piece::Alive);
                }
            }
            Ok(Message::Close(frame)) => {
                let frame = frame.map(|frame| (u16::from(frame.code), frame.reason.as_str().to_owned()));
                shared.lanes().retired = true;
                closed = Some(frame.unwrap_or((NO_CODE, String::new())));
            }
            Ok(Message::Binary(_)) => return Broken::Lost("the server sent a binary message".to_owned()),
            Ok(Message::Frame(_)) => {}
            Err(error) => match closed {
                Some((code, reason)) => return Broken::Closed(code, reason),
                None => return broken(&error),
            },
        }
    }
    match closed {
        Some((code, reason)) => Broken::Closed(code, reason),
        None => Broken::Lost("the server closed it".to_owned()),
    }
}

/// The member that names the lane of an event.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Address<'a> {
    #[serde(borrow)]
    stream_id: Text<'a>,
}

async fn deliver(shared: &Shared, text: Utf8Bytes) {
    let has_name = memchr::memmem::find(text.as_bytes(), b"\"stream_id\"").is_some();
    let address: Address<'_> =
        if has_name { serde_json::from_str(text.as_str()).unwrap_or_default() } else { Address::default() };
    let name = address.stream_id.as_str().to_owned();
    let lane = {
        let mut lanes = shared.lanes();
        match lanes.open.get(&name).cloned() {
            // A lane that is not read must not delay the others.
            Some(lane) if lanes.held.contains(&name) => {
                if lane.try_send(Piece::Text(text)).is_err() {
                    lanes.open.remove(&name);
                    lanes.held.remove(&name);
                    lanes.retired = true;
                }
                return;
            }
            lane => lane,
        }
    };
    match lane {
        Some(lane) => {
            // A lane that is dropped no longer needs the event.
            let _ = lane.send(Piece::Text(text)).await;
        }
        None => tracing::debug!(bytes = text.len(), "an event of no open reply"),
    }
}

/// Returns when the connection had no lane for `limit`.
async fn unused(shared: &Shared, limit: Duration) {
    let mut checks = 0;
    while checks < CHECKS {
        tokio::time::sleep(limit / CHECKS).await;
        let mut lanes = shared.lanes();
        let used = std::mem::take(&mut lanes.used) || lanes.is_read();
        checks = if used { 0 } else { checks + 1 };
        // No request may be sent over a connection that is about to be closed.
        lanes.retired |= checks >= CHECKS;
    }
    shared.stop.cancel();
    // The writer sends the closing message and ends the connection.
    std::future::pending::<()>().await;
}

fn broken(error: &Error) -> Broken {
    match error {
        Error::Capacity(_) => Broken::TooLong,
        other => Broken::Lost(other.to_string()),
    }
}
