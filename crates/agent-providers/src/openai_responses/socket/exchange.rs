//! Sends one request over a lane and decodes the events of its reply.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use agent_core::{
    CancellationToken, Completion, ErrorContext, ErrorKind, EventSink, MessageRef, ModelRequest,
    ProviderError, ReplyLog, StopReason, StreamEvent,
};
use http::HeaderMap;
use serde::Deserialize;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::chain::Chain;
use super::message::Body;
use super::pool::{Held, Key, Pool, Taken};
use super::steer::{self, Sent, Steering, Successor};
use crate::json::Text;
use crate::openai_responses::encode;
use crate::protocol::{Decode, Flow, Frame, Protocol, Rejection};
use crate::tap::{Answering, Tap};
use crate::transport::{Lane, is_content};

/// The code of an error about an earlier reply that the server does not have.
const NOT_FOUND: &str = "previous_response_not_found";

/// The code of an error about a connection that has been open for too long.
const TOO_OLD: &str = "websocket_connection_limit_reached";

/// A request that is ready to be sent.
pub(super) struct Asked<'r> {
    pub(super) protocol: &'r dyn Protocol,
    pub(super) request: &'r ModelRequest,
    pub(super) url: &'r reqwest::Url,
    pub(super) headers: &'r HeaderMap,
    pub(super) body: &'r Body,
    pub(super) key: &'r Key,
}

/// Why there is no complete reply.
pub(super) enum Ended {
    /// The server did not process the request. It can be sent again with the whole input.
    Again(ProviderError),
    /// The call failed.
    Failed(ProviderError),
}

/// An error event. Its status is that of the same error over HTTP.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    status: Option<u16>,
    #[serde(borrow)]
    error: Option<Code<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Code<'a> {
    #[serde(borrow)]
    code: Text<'a>,
    #[serde(borrow)]
    headers: Option<RetryHeaders<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RetryHeaders<'a> {
    #[serde(borrow, rename = "retry-after")]
    retry_after: Text<'a>,
}

/// Makes one call.
///
/// # Errors
/// Returns the same errors as a call over HTTP, and [`Ended::Again`] if nothing of a reply has arrived and the request can be
/// sent again.
pub(super) async fn exchange(
    pool: &Pool,
    asked: &Asked<'_>,
    taken: Taken,
    sink: &mut EventSink<'_>,
    cancel: &CancellationToken,
) -> Result<Completion, Ended> {
    let Taken { mut lane, socket, chain, steer } = taken;
    let items = chain.as_ref().and_then(|chain| chain.new_items(asked.body));
    let previous = chain.as_ref().zip(items).map(|(chain, items)| (chain.response_id.as_str(), items));
    let first = match &steer {
        Some(_) => begun(&mut lane, cancel).await?,
        None => None,
    };
    let mut tap;
    if first.is_some() {
        tap = shown(asked, steer.as_deref().unwrap_or_default());
    } else {
        let message = asked.body.message(lane.stream_id(), previous);
        tap = shown(asked, &message);
        if !lane.send(message).await {
            return Err(Ended::Again(closed()));
        }
    }
    let log = Mutex::new(ReplyLog::new());
    let (emitted, content) = (AtomicBool::new(false), AtomicBool::new(false));
    let sink: &mut EventSink<'_> = &mut |event: StreamEvent<'_>| {
        emitted.store(true, Ordering::Relaxed);
        if is_content(&event) {
            content.store(true, Ordering::Relaxed);
        }
        log.lock().unwrap_or_else(PoisonError::into_inner).push(&event);
        sink(event);
    };
    let mut decoder = asked.protocol.decoder(asked.request);
    let mut steering = Steering::default();
    let end = receive(
        asked,
        &mut lane,
        &mut *decoder,
        (sink, &content, &mut tap),
        (first, &log, &mut steering),
        cancel,
    )
    .await;
    let fresh = !emitted.load(Ordering::Relaxed);
    match end {
        Ok(completion) => {
            if let Some(tap) = &mut tap {
                tap.end(true);
            }
            let log = log.into_inner().unwrap_or_else(PoisonError::into_inner);
            let chain = continued(asked, &log, &completion);
            match (steering, chain) {
                (Steering::Sent(sent), Some(chain)) if completion.stop_reason != StopReason::ToolUse => {
                    lane.set_held(true);
                    let Sent { items, message } = sent;
                    pool.hold(asked.key, Held { lane, socket, chain, items, message });
                }
                // The server holds the message until it has the results of the calls, and would put it before them. Without
                // its connection it forgets the message.
                (Steering::Sent(_), _) => drop(lane),
                (Steering::None | Steering::Refused, chain) => {
                    lane.end();
                    if let Some(chain) = chain {
                        pool.replied(&socket, chain);
                    }
                }
            }
            Ok(completion)
        }
        Err(Stopped { error, reply_ended }) => {
            if reply_ended {
                lane.end();
            }
            // The server forgets a reply if a request that continues it fails, and older ones before that.
            if previous.is_some() {
                pool.forget(&socket);
            }
            match error.context().and_then(|context| context.code.as_deref()) {
                Some(NOT_FOUND) if fresh && previous.is_some() => Err(Ended::Again(error)),
                Some(TOO_OLD) if fresh => {
                    socket.retire();
                    Err(Ended::Again(error))
                }
                _ => Err(Ended::Failed(error)),
            }
        }
    }
}

/// Returns the error for a connection that ended before the request was sent.
pub(super) fn closed() -> ProviderError {
    let context = ErrorContext::new("the connection ended before the request was sent");
    ProviderError::new(ErrorKind::Network, context)
}

struct Stopped {
    error: ProviderError,
    /// Whether no further event of the reply follows.
    reply_ended: bool,
}

impl From<ProviderError> for Stopped {
    fn from(error: ProviderError) -> Self {
        Self { error, reply_ended: false }
    }
}

/// Waits for the beginning of a reply that follows a steered one; `None` if the request has to be sent.
async fn begun(lane: &mut Lane, cancel: &CancellationToken) -> Result<Option<Utf8Bytes>, Ended> {
    match steer::successor(lane, cancel).await {
        Ok(Successor::Begun(text)) => Ok(Some(text)),
        Ok(Successor::Refused) => Ok(None),
        Ok(Successor::Waiting) => Err(Ended::Again(closed())),
        Err(ProviderError::Cancelled) => Err(Ended::Failed(ProviderError::Cancelled)),
        Err(error) => Err(Ended::Again(error)),
    }
}

/// Decodes the events of a reply until it ends, and sends a message with which the user steers it. `first` is an event that has
/// arrived.
async fn receive(
    asked: &Asked<'_>,
    lane: &mut Lane,
    decoder: &mut dyn Decode,
    (sink, content, tap): (&mut EventSink<'_>, &AtomicBool, &mut Option<Answering>),
    (mut first, log, steering): (Option<Utf8Bytes>, &Mutex<ReplyLog>, &mut Steering),
    cancel: &CancellationToken,
) -> Result<Completion, Stopped> {
    let feed = steer::feed(asked.request);
    let mut steered = pin!(async {
        match &feed {
            Some(feed) => feed.first().await,
            None => std::future::pending().await,
        }
    });
    let mut listens = feed.is_some();
    let mut waiting: Option<MessageRef> = None;
    loop {
        if let Some(message) = waiting.take() {
            let id = log.lock().unwrap_or_else(PoisonError::into_inner).response_id();
            match id.filter(|id| !id.is_empty() && asked.body.continues) {
                Some(id) => {
                    if let Some(sent) = Sent::new(asked.request, &id, &message)
                        && lane.send(sent.message.clone()).await
                    {
                        *steering = Steering::Sent(sent);
                    }
                }
                // The reply has no id yet.
                None => waiting = Some(message),
            }
        }
        let received = match first.take() {
            Some(text) => Ok(text),
            None => tokio::select! {
                biased;
                message = &mut steered, if listens => {
                    listens = false;
                    waiting = Some(message);
                    continue;
                }
                received = lane.receive(cancel) => received,
            },
        };
        let text = match received {
            Ok(text) => text,
            Err(ProviderError::Cancelled) => return Err(ProviderError::Cancelled.into()),
            Err(error) => {
                // The received part of the reply is preserved.
                let _ = decoder.finish(sink);
                return Err(error.into());
            }
        };
        if let Some(tap) = tap {
            tap.piece(text.as_bytes());
            tap.piece(b"\n");
        }
        let text = text.as_str();
        if steering.read(text) {
            continue;
        }
        let refused = rejection(asked, text);
        let flow = decoder.push(Frame { event: None, data: text }, sink);
        if content.swap(false, Ordering::Relaxed) {
            lane.had_content();
        }
        match (flow, refused) {
            (Ok(Flow::More), _) => {}
            (Ok(Flow::Done), _) => {
                return decoder.finish(sink).map_err(|error| Stopped { error, reply_ended: true });
            }
            (Err(_), Some(error)) => return Err(Stopped { error, reply_ended: true }),
            (Err(error), None) => return Err(error.into()),
        }
    }
}

/// Returns the error of an error event. With a status it is that of a response with this status.
fn rejection(asked: &Asked<'_>, text: &str) -> Option<ProviderError> {
    memchr::memmem::find(text.as_bytes(), b"\"error\"")?;
    let event: ErrorEvent<'_> =
        serde_json::from_str(text).ok().filter(|e: &ErrorEvent<'_>| e.kind.as_str() == "error")?;
    let Some(status) = event.status.filter(|status| (400..600).contains(status)) else {
        return Some(crate::openai_responses::error::event(text));
    };
    let error = asked
        .protocol
        .rejected(asked.request, &Rejection { status, body: text.as_bytes(), error_type: None });
    let code = event.error.as_ref().and_then(|error| error.code.filled()).map(str::to_owned);
    let headers = event.error.as_ref().and_then(|error| error.headers.as_ref());
    let wait = headers.and_then(|headers| headers.retry_after.as_str().parse().ok());
    Some(error.map_context(|context| {
        context.code = context.code.take().or(code);
        context.retry_after = context.retry_after.or(wait.map(std::time::Duration::from_secs));
    }))
}

/// Returns what the server has after a complete reply.
fn continued(asked: &Asked<'_>, log: &ReplyLog, completion: &Completion) -> Option<Chain> {
    let model = &asked.request.model;
    let id = log.response_id().filter(|id| !id.is_empty() && asked.body.continues)?;
    let mut reply = log.finish(&model.provider, &model.id, completion);
    reply.api = Some(model.api);
    let items = encode::reply(asked.request, &reply)?;
    Chain::after(asked.body, id, &items)
}

/// Reports a request to the wire hooks. The returned value reports the events.
fn shown(asked: &Asked<'_>, message: &str) -> Option<Answering> {
    let tap = Tap::of(asked.request)?;
    let mut sent = reqwest::Request::new(reqwest::Method::GET, asked.url.clone());
    *sent.headers_mut() = asked.headers.clone();
    *sent.body_mut() = Some(message.to_owned().into());
    tap.sent(&sent);
    tap.answered(http::StatusCode::SWITCHING_PROTOCOLS.as_u16(), &HeaderMap::new())
}
