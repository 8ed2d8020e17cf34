//! What every protocol over HTTP is: a pure encoder, a sans-I/O decoder, and a reading of refusals.
//!
//! The transport drives it: `encode`, send, then either `rejected` with the whole body of an error answer, or a
//! decoder that is fed frame by frame and asked at the end what the reply amounts to.

use std::pin::Pin;
use std::sync::Arc;

use crate::body_buffer;
use crate::transport::tap::Tap;
use agent_core::{
    Completion, ErrorContext, ErrorKind, EventSink, History, Message, ModelConfig, ProviderError,
    StreamConfig,
};
use futures_util::TryFutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// A request, ready to be sent as it is.
pub(crate) struct HttpRequest {
    /// The address.
    pub(crate) url: reqwest::Url,
    /// Every header but `content-length` and `host`; credentials are marked sensitive.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// How the body of a good answer is cut into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `text/event-stream`.
    Sse,
    /// The same; in its middle the server may turn to JSON that no `data:` stands before, to report an error.
    SseOrJson,
    /// One JSON value a line.
    Lines,
    /// `application/vnd.amazon.eventstream`.
    #[cfg(feature = "bedrock")]
    EventStream,
}

/// A frame of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The event's name, for SSE that gives one.
    pub(crate) event: Option<&'a str>,
    /// The data.
    pub(crate) data: &'a str,
}

/// An error answer.
pub(crate) struct Rejection<'a> {
    /// The HTTP status.
    pub(crate) status: u16,
    /// Its body, as far as it was read.
    pub(crate) body: &'a [u8],
}

/// Whether more frames are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More may come.
    More,
    /// The terminal frame has been seen; what follows is not read.
    Done,
}

/// Sending a request whose body and headers are ready.
pub(crate) type Dispatched = Pin<Box<dyn Future<Output = Result<reqwest::Response, Undelivered>> + Send>>;

/// Why there is no head of an answer.
pub(crate) enum Undelivered {
    /// The connection failed.
    Sending(reqwest::Error),
    /// Nothing was sent: no credential could be had, for example.
    Refused(ProviderError),
}

/// Reads the answer. No I/O, no clock.
pub(crate) trait Decode: Send {
    /// Takes one frame.
    ///
    /// # Errors
    /// When the frame is an error event or cannot be read.
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError>;

    /// Decodes a response that is one JSON body. Emits the same events as a stream of it would.
    ///
    /// # Errors
    /// When it is an error body or cannot be read.
    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError>;

    /// Reads a frame that is no event but says that the answer failed, in framings that have such frames. The frame's
    /// event is the name of the failure.
    fn failed(&mut self, frame: Frame<'_>) -> ProviderError {
        let name = frame.event.unwrap_or("an error without a name");
        let context = ErrorContext::new(format!("the stream reported {name}: {}", frame.data));
        ProviderError::new(ErrorKind::Network, context)
    }

    /// Whether the terminal frame has been seen although more frames are taken: the transport then waits only a moment
    /// for them.
    fn is_complete(&self) -> bool {
        false
    }

    /// Ends the reply after the last frame. Ends the open blocks if the reply is complete.
    ///
    /// # Errors
    /// Returns an error if the terminal frame is missing (which can be retried), the reply was refused, or it stopped for an
    /// unknown reason.
    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError>;
}

/// A header that must be fetched before a request can be sent: a token that lives for an hour.
pub(crate) type Fetching<'r> =
    Pin<Box<dyn Future<Output = Result<(HeaderName, HeaderValue), ProviderError>> + Send + 'r>>;

/// One protocol.
pub(crate) trait Protocol: Send + Sync {
    /// Writes the request. Pure: the same request gives the same bytes.
    ///
    /// # Errors
    /// When the request cannot be said in this protocol, or a credential or address is missing; nothing was sent.
    fn encode(&self, request: &StreamConfig) -> Result<HttpRequest, ProviderError>;

    /// What says who calls, where that has to be asked for. The transport waits for it before it sends the request, and
    /// drops it when the caller cancels.
    fn authorise<'r>(&'r self, _request: &'r StreamConfig) -> Option<Fetching<'r>> {
        None
    }

    /// How a good answer is framed.
    fn framing(&self) -> Framing;

    /// A decoder for the answer to `request`.
    fn decoder(&self, request: &StreamConfig) -> Box<dyn Decode>;

    /// Whether a call with this model could be made. Sends nothing: the usual way is to write a small request.
    ///
    /// # Errors
    /// What is missing and how to supply it.
    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        let (history, _) = History::repaired([agent_core::AgentMessage::from(Message::user("?"))]);
        self.encode(&StreamConfig::new(model.clone(), history)).map(|_| ())
    }

    /// Sends a request over `client`, and shows it to `tap` as it goes out. The usual way is to send it as it is.
    fn dispatch(
        &self,
        _request: &StreamConfig,
        client: &reqwest::Client,
        ready: HttpRequest,
        tap: Option<Arc<Tap>>,
    ) -> Dispatched {
        let HttpRequest { url, mut headers, body } = ready;
        // The client would write the same. Its map is full by then and would have to grow.
        if url.scheme() == "http"
            && let Ok(host) = HeaderValue::from_str(url.authority())
        {
            headers.insert(header::HOST, host);
        }
        // Not by the builder, which puts each header in again.
        let mut sent = reqwest::Request::new(reqwest::Method::POST, url);
        *sent.headers_mut() = headers;
        *sent.body_mut() = Some(body_buffer::sent(body).into());
        if let Some(tap) = tap {
            tap.sent(&sent);
        }
        Box::pin(client.execute(sent).map_err(Undelivered::Sending))
    }

    /// Reads an error answer whose head names the kind of error, where a protocol knows such a header.
    fn rejected_as(
        &self,
        request: &StreamConfig,
        rejection: &Rejection<'_>,
        _error_type: Option<&str>,
    ) -> ProviderError {
        self.rejected(request, rejection)
    }

    /// Reads an error answer.
    fn rejected(&self, request: &StreamConfig, rejection: &Rejection<'_>) -> ProviderError;
}
