//! The traits of a protocol over HTTP: a pure encoder, a decoder without I/O and a parser for error responses.
//!
//! The transport calls them: `encode`, then, after sending, either `rejected` with the body of an error response or a
//! decoder with each frame of the response and a final `finish`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::body_buffer;
use crate::tap::Tap;
use agent_core::{
    Completion, ErrorContext, ErrorKind, EventSink, History, Message, ModelConfig, ModelRequest,
    ProviderError, ToolSearchForm,
};
use futures_util::TryFutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// An encoded request.
pub(crate) struct HttpRequest {
    /// The URL of the endpoint.
    pub(crate) url: reqwest::Url,
    /// All headers except `content-length` and `host`. Credentials are marked as sensitive.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// How the body of a successful response is split into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `text/event-stream`.
    Sse,
    /// `text/event-stream` in which the server may report an error as JSON without `data:`.
    SseOrJson,
    /// One JSON value per line.
    Lines,
    /// `application/vnd.amazon.eventstream`.
    #[cfg(feature = "bedrock")]
    EventStream,
}

/// A frame of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The name of the event, if the framing has names and the frame has one.
    pub(crate) event: Option<&'a str>,
    /// The data of the event.
    pub(crate) data: &'a str,
}

/// An error response.
pub(crate) struct Rejection<'a> {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The part of the body that was read.
    pub(crate) body: &'a [u8],
    /// The kind of error that the header `x-amzn-errortype` names.
    pub(crate) error_type: Option<&'a str>,
}

/// Whether the decoder expects more frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More frames may follow.
    More,
    /// The terminal frame was decoded. Later frames are ignored.
    Done,
}

/// A future that sends an encoded request.
pub(crate) type Dispatched = Pin<Box<dyn Future<Output = Result<reqwest::Response, Undelivered>> + Send>>;

/// Why there is no response.
pub(crate) enum Undelivered {
    /// The connection failed.
    Sending(reqwest::Error),
    /// Nothing was sent, for example because credentials are unavailable.
    Refused(ProviderError),
}

/// Decodes the response to one request, without I/O and without a clock.
pub(crate) trait Decode: Send {
    /// Decodes one frame and emits its events.
    ///
    /// # Errors
    /// Returns an error if the frame is an error event or cannot be parsed.
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError>;

    /// Decodes a response that is one JSON body. Emits the same events as a stream of it would.
    ///
    /// # Errors
    /// Returns an error if the body is an error object or cannot be parsed.
    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError>;

    /// Converts a frame that reports a failure, in framings that have such frames, to an error. The frame's event is the name
    /// of the failure.
    fn failed(&mut self, frame: Frame<'_>) -> ProviderError {
        let name = frame.event.unwrap_or("an error without a name");
        let context = ErrorContext::new(format!("the stream reported {name}: {}", frame.data));
        ProviderError::new(ErrorKind::Network, context)
    }

    /// Returns whether the end mark was decoded, after which nothing of the reply follows. The transport then waits only
    /// briefly for the end of the body. A reason to stop is no end mark: usage or more of the reply may follow it.
    fn is_complete(&self) -> bool {
        false
    }

    /// Returns whether the protocol's end of the reply was decoded. A connection that is lost before it is an error, even if a
    /// reason to stop was decoded, because gateways send one with every piece.
    fn has_ended(&self) -> bool {
        self.is_complete()
    }

    /// Returns whether the end of the body is the only end mark. A body that does not end is then an error, even if a reason to
    /// stop was decoded and nothing more comes.
    fn ends_with_body(&self) -> bool {
        false
    }

    /// Ends the reply after the last frame. Ends the open blocks if the reply is complete.
    ///
    /// # Errors
    /// Returns an error if the terminal frame is missing (which can be retried), the reply was refused, or it stopped for an
    /// unknown reason.
    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError>;
}

/// A future that fetches a header before the request is sent, such as a token that expires after an hour.
pub(crate) type Fetching<'r> =
    Pin<Box<dyn Future<Output = Result<(HeaderName, HeaderValue), ProviderError>> + Send + 'r>>;

/// A protocol over HTTP.
pub(crate) trait Protocol: Send + Sync {
    /// Encodes a request. Equal requests give equal bytes.
    ///
    /// # Errors
    /// Returns an error if the protocol cannot express the request, or a credential or an address is missing.
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError>;

    /// Encodes a request without what its API would refuse for the number of parts.
    ///
    /// # Errors
    /// Returns the same errors as [`encode`](Self::encode).
    fn sendable(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        match crate::pictures::thin(request) {
            Some(history) => {
                let mut thinned = request.clone();
                thinned.history = history;
                self.encode(&thinned)
            }
            None => self.encode(request),
        }
    }

    /// Returns a future for a credential that must be fetched. The transport awaits it before it sends the request and drops
    /// it if the caller cancels.
    fn authorise<'r>(&'r self, _request: &'r ModelRequest) -> Option<Fetching<'r>> {
        None
    }

    /// Returns the framing of a successful response.
    fn framing(&self) -> Framing;

    /// Returns a decoder for the response to `request`.
    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode>;

    /// Checks whether the model's configuration is sufficient for a call. Sends nothing; by default encodes a small request.
    ///
    /// # Errors
    /// Returns an error that names the missing setting and how to supply it.
    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        let (history, _) = History::repaired([agent_core::AgentMessage::from(Message::user("?"))]);
        self.encode(&ModelRequest::new(model.clone(), history)).map(|_| ())
    }

    /// Sends a request over `client` and reports it to `tap`. By default it is sent without changes.
    fn dispatch(
        &self,
        _request: &ModelRequest,
        client: &reqwest::Client,
        ready: HttpRequest,
        tap: Option<Arc<Tap>>,
    ) -> Dispatched {
        let HttpRequest { url, mut headers, body } = ready;
        // The client would add the same header, but after the map is full, so that the map would have to grow.
        if url.scheme() == "http"
            && let Ok(host) = HeaderValue::from_str(url.authority())
        {
            headers.insert(header::HOST, host);
        }
        // The builder would insert each header again.
        let mut sent = reqwest::Request::new(reqwest::Method::POST, url);
        *sent.headers_mut() = headers;
        *sent.body_mut() = Some(body_buffer::sent(body).into());
        if let Some(tap) = tap {
            tap.sent(&sent);
        }
        Box::pin(client.execute(sent).map_err(Undelivered::Sending))
    }

    /// Returns how long the vendor keeps what this request caches, if that is known.
    fn cache_lifetime(&self, _request: &ModelRequest) -> Option<Duration> {
        None
    }

    /// Returns how this model finds deferred tools.
    fn tool_search(&self, _model: &ModelConfig) -> ToolSearchForm {
        ToolSearchForm::Listed
    }

    /// Parses an error response.
    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError;
}
