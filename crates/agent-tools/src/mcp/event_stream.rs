//! An HTTP client that reports when the server can send its own messages, and limits the values of a message.
//!
//! Over HTTP a server sends them on a stream that the client opens after the initialization. Many servers lose what
//! they send before, including questions to the user, so no request is sent until the stream is open.

use std::sync::Arc;

use futures_util::StreamExt as _;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use tokio::sync::watch;

use super::MAX_MESSAGE_BYTES;
use super::limits::has_too_many_values;
use super::pipe::too_many_values;

/// Whether the stream was opened or refused.
pub(super) type Opened = watch::Receiver<bool>;

#[derive(Clone)]
pub(super) struct WithEventStream<C> {
    inner: C,
    opened: Arc<watch::Sender<bool>>,
}

impl<C> WithEventStream<C> {
    pub(super) fn new(inner: C) -> (Self, Opened) {
        let (sender, opened) = watch::channel(false);
        (Self { inner, opened: Arc::new(sender) }, opened)
    }
}

#[expect(
    clippy::disallowed_types,
    reason = "the SDK passes headers in this map; the order of headers does not matter"
)]
type Headers<K, V> = std::collections::HashMap<K, V>;

type Outcome<T, C> = Result<T, StreamableHttpError<<C as StreamableHttpClient>::Error>>;

/// The trait's methods with a size limit delegate to these, which apply the limit of the transport's configuration.
impl<C: StreamableHttpClient + Sync> StreamableHttpClient for WithEventStream<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers<HeaderName, HeaderValue>,
    ) -> Outcome<StreamableHttpPostResponse, C> {
        let (inner, limit) = (&self.inner, MAX_MESSAGE_BYTES);
        let response = inner
            .post_message_with_max_sse_event_size(
                uri,
                message,
                session_id,
                auth_header,
                custom_headers,
                limit,
            )
            .await?;
        Ok(match response {
            StreamableHttpPostResponse::Sse(stream, session) => {
                StreamableHttpPostResponse::Sse(limited(stream), session)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers<HeaderName, HeaderValue>,
    ) -> Outcome<(), C> {
        self.inner.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers<HeaderName, HeaderValue>,
    ) -> Outcome<BoxedSseResponse, C> {
        let (inner, limit) = (&self.inner, MAX_MESSAGE_BYTES);
        let stream = inner
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                limit,
            )
            .await;
        self.opened.send_replace(true);
        stream.map(limited)
    }
}

/// Replaces events with too many values, which would take much memory to parse, by the response of an error.
fn limited(stream: BoxedSseResponse) -> BoxedSseResponse {
    let checked = stream.map(|event| {
        event.map(|mut event| {
            if let Some(data) = event.data.take_if(|data| has_too_many_values(data.as_bytes())) {
                let replacement = too_many_values(data.as_bytes());
                event.data = replacement.and_then(|message| serde_json::to_string(&message).ok());
            }
            event
        })
    });
    checked.boxed()
}
