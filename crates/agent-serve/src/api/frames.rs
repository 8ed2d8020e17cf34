//! Streams of the compatible routes: server-sent events whose client is left if it does not read.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::error::ApiError;
use crate::service::Service;

/// The number of events between a run and the connection.
pub(super) const PIECES: usize = 16;

/// Sends events to a client. Each method returns `None` when the client has gone or does not read.
#[derive(Debug)]
pub(super) struct Sender {
    tx: mpsc::Sender<Event>,
    write_time: Duration,
}

impl Sender {
    pub(super) fn new(service: &Service, tx: mpsc::Sender<Event>) -> Self {
        Self { tx, write_time: service.inner.shared.limits.write_time }
    }

    async fn send(&self, event: Event) -> Option<()> {
        timeout(self.write_time, self.tx.send(event)).await.ok()?.ok()
    }

    /// Sends a value without a name.
    pub(super) async fn data(&self, value: &Value) -> Option<()> {
        self.send(Event::default().data(value.to_string())).await
    }

    /// Sends a value whose `type` is the name of the event.
    pub(super) async fn named(&self, value: &Value) -> Option<()> {
        let name = value.get("type").and_then(Value::as_str).unwrap_or("message");
        self.send(Event::default().event(name).data(value.to_string())).await
    }

    /// Sends an error in the form of the routes.
    pub(super) async fn error(&self, error: &ApiError) -> Option<()> {
        self.data(&serde_json::to_value(error.body()).ok()?).await
    }

    /// Sends the end of a stream of chat completions.
    pub(super) async fn done(&self) -> Option<()> {
        self.send(Event::default().data("[DONE]")).await
    }

    /// Completes when the client has gone.
    pub(super) async fn closed(&self) {
        self.tx.closed().await;
    }
}

/// Returns the response with the events of the channel.
pub(super) fn response(service: &Service, mut rx: mpsc::Receiver<Event>) -> Response {
    let events =
        futures_util::stream::poll_fn(move |cx| rx.poll_recv(cx).map(|event| event.map(Ok::<_, Infallible>)));
    let keep_alive = KeepAlive::new().interval(service.inner.shared.limits.keep_alive);
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    response.headers_mut().insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    response
}
