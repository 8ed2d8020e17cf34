//! An HTTP client that says when the server's own messages can come in.
//!
//! Over HTTP a server sends them on a stream that the client opens after the greeting. What it sends before is lost with
//! many servers, a question to the user among it; so nothing is called before.

use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use tokio::sync::watch;

/// Whether the stream is open, or refused.
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
        self.inner.post_message(uri, message, session_id, auth_header, custom_headers).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Outcome<StreamableHttpPostResponse, C> {
        let sent = self.inner.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            max_sse_event_size,
        );
        sent.await
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
        let stream = self.inner.get_stream(uri, session_id, last_event_id, auth_header, custom_headers).await;
        self.opened.send_replace(true);
        stream
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Outcome<BoxedSseResponse, C> {
        let stream = self.inner.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            max_sse_event_size,
        );
        let stream = stream.await;
        self.opened.send_replace(true);
        stream
    }
}
