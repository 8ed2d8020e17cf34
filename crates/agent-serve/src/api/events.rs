//! The events of a conversation as server-sent events that can be resumed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use agent_core::SessionId;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::Stream;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

use super::error::ApiError;
use super::extract::{Caller, InPath, Params};
use crate::conversation::Reader;
use crate::conversation::events::{Cursor, Found, Frame};
use crate::conversation::replay;
use crate::keys::Account;
use crate::limits::Limits;
use crate::service::Service;

/// The number of events between a reader and its connection.
const PIECES: usize = 16;

/// The size of a page of events that is read from the session, in bytes. A single larger event is a page.
const PAGE_BYTES: usize = 1 << 20;

/// How often a reader looks into the session for an event that was delivered before it was stored: for half a minute, with
/// longer and longer pauses.
const MAX_LOOKS: u32 = 40;

/// The first pause between two looks, and the amount by which it grows.
const PAUSE: Duration = Duration::from_millis(20);

/// The place from which events are read.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EventQuery {
    /// The number of the last event that the reader has; 0 for all. Default: only new events. The header `Last-Event-ID` takes
    /// precedence
    after: Option<u64>,
}

pub(super) async fn events(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
    Params(query): Params<EventQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = match headers.get("last-event-id") {
        None => query.after,
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
            let wrong = || ApiError::bad_request("Last-Event-ID is the number of an event");
            Some(number.ok_or_else(wrong)?)
        }
    };
    let conversation = service.open(&account, &SessionId::from(id)).await?;
    let last = conversation.events.last();
    let after = after.unwrap_or(last);
    if after > last {
        let text = format!("the last event has the number {last}, so there is none after {after}");
        return Err(ApiError::new(StatusCode::CONFLICT, "unknown_event", text).at("after"));
    }
    let streams = &account.bounds.streams;
    let Some(place) = streams.take() else {
        let text =
            format!("the key reads {} streams of events, and more are not allowed; end one", streams.most);
        return Err(ApiError::over_bound("too_many_streams", text));
    };
    let Some(reader) = conversation.reader() else {
        let text = format!(
            "{} clients read the events of this conversation, and more are not allowed; end a stream",
            service.inner.shared.limits.readers
        );
        return Err(ApiError::over_bound("too_many_readers", text));
    };
    drop(conversation);
    let keep_alive = KeepAlive::new().interval(service.inner.shared.limits.keep_alive);
    let events = stream(service, account, (reader, place), Cursor::after(after));
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    // Proxies such as nginx buffer responses otherwise.
    response.headers_mut().insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    Ok(response)
}

/// Reads in a task, which ends when the client has gone or does not read.
fn stream(
    service: Service,
    account: Arc<Account>,
    (reader, place): (Reader, OwnedSemaphorePermit),
    cursor: Cursor,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let (tx, mut rx) = mpsc::channel(PIECES);
    let shared = Arc::clone(&service.inner.shared);
    shared.spawn(async move {
        let Limits { write_time, stream_time, .. } = service.inner.shared.limits;
        let end = Instant::now() + stream_time;
        let mut reading = Reading { service, account, reader, cursor, tx, looks: 0, end };
        if reading.run().await == Err(Gone::DoesNotRead) {
            reading.service.inner.shared.metrics.cut_readers.inc();
            tracing::debug!(seconds = write_time.as_secs(), "a reader of events did not read");
        }
        drop(place);
    });
    futures_util::stream::poll_fn(move |cx| rx.poll_recv(cx).map(|event| event.map(Ok)))
}

/// Why a reader is left.
#[derive(Debug, PartialEq, Eq)]
enum Gone {
    /// The connection has ended.
    Away,
    /// The client did not read in time.
    DoesNotRead,
}

struct Reading {
    service: Service,
    account: Arc<Account>,
    reader: Reader,
    cursor: Cursor,
    tx: mpsc::Sender<Event>,
    /// The looks into the session since the last one that found an event.
    looks: u32,
    /// When the stream ends.
    end: Instant,
}

impl Reading {
    async fn run(&mut self) -> Result<(), Gone> {
        let mut changed = self.reader.conversation().events.watch();
        loop {
            if Instant::now() >= self.end {
                return self.released().await;
            }
            changed.borrow_and_update();
            let found = self.reader.conversation().events.next(&mut self.cursor);
            match found {
                Found::Events(frames, missed) => {
                    if missed > 0 {
                        self.note("service.skipped", json!({"live_events": missed})).await?;
                    }
                    for frame in frames {
                        self.send(event_of(&frame)).await?;
                    }
                }
                Found::InSession => self.replay().await?,
                Found::Nothing => {
                    let closed = self.tx.closed();
                    tokio::select! {
                        () = closed => return Err(Gone::Away),
                        () = sleep_until(self.end) => {}
                        changed = changed.changed() => {
                            if changed.is_err() {
                                return Ok(());
                            }
                        }
                    }
                }
                Found::Closed => return self.released().await,
                Found::Ahead { last } => {
                    let text = json!({"code": "unknown_event", "last": last});
                    return self.note("service.error", text).await;
                }
            }
        }
    }

    /// Sends a page of events from the session.
    async fn replay(&mut self) -> Result<(), Gone> {
        let id = self.reader.conversation().of.id.clone();
        let frames = match self.service.session(&self.account, &id).await {
            // The session is dropped before the page is sent, because the client may be slow.
            Ok(session) => replay::page(&session, self.cursor.number, PAGE_BYTES),
            Err(error) => {
                let body = serde_json::to_value(error.body()).unwrap_or_default();
                self.note("service.error", body).await?;
                return Err(Gone::Away);
            }
        };
        let Some(last) = frames.iter().rev().find_map(|frame| frame.number) else {
            // The store does not have yet what was delivered.
            self.looks += 1;
            if self.looks > MAX_LOOKS {
                let error = ApiError::internal(&"the session lacks an event that was delivered");
                let body = serde_json::to_value(error.body()).unwrap_or_default();
                self.note("service.error", body).await?;
                return Err(Gone::Away);
            }
            tokio::select! {
                () = self.tx.closed() => return Err(Gone::Away),
                () = tokio::time::sleep(PAUSE * self.looks) => return Ok(()),
            }
        };
        self.looks = 0;
        for frame in &frames {
            self.send(event_of(frame)).await?;
        }
        self.cursor = Cursor::after(last);
        Ok(())
    }

    /// Ends the stream. The client connects again.
    async fn released(&self) -> Result<(), Gone> {
        self.note("service.released", json!({"after": self.cursor.number})).await
    }

    async fn note(&self, kind: &str, data: serde_json::Value) -> Result<(), Gone> {
        self.send(Event::default().event(kind).data(data.to_string())).await
    }

    async fn send(&self, event: Event) -> Result<(), Gone> {
        match timeout(self.service.inner.shared.limits.write_time, self.tx.send(event)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Gone::Away),
            Err(_) => Err(Gone::DoesNotRead),
        }
    }
}

fn event_of(frame: &Frame) -> Event {
    // JSON has its line ends escaped.
    let text = String::from_utf8_lossy(&frame.json);
    let event = Event::default().event(&frame.kind).data(text);
    match frame.number {
        Some(number) => event.id(number.to_string()),
        None => event,
    }
}
