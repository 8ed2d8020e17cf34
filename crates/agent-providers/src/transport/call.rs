//! Performs one call: encodes the request, sends it once, detects the kind of response and decodes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_core::{
    CancellationToken, Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, Redactor,
    Secret, StreamEvent, TextEnd,
};
use http::{HeaderName, HeaderValue, StatusCode};

use super::body::{Body, Limits, Next};
use super::body_kind::{BodyKind, kind_of};
use super::send::{Answered, Head, answered, send};
use super::{ERROR_TIMEOUT, Inner, MAX_BYTES_WITHOUT_CONTENT, failure, retry_after};
#[cfg(feature = "bedrock")]
use crate::eventstream::FrameDecoder;
use crate::lines::{Cut, LineDecoder};
use crate::protocol::{Decode, Fetching, Flow, Frame, Framing, Protocol, Rejection};
use crate::server_tools;
use crate::sse::SseDecoder;
use crate::tap::Tap;

/// The idle timeout for the body of an error response, whose kind its status already shows.
const ERROR_SILENCE: Duration = Duration::from_secs(10);

/// The time to wait for the end of the body after the end mark of a reply.
const AFTER_END: Duration = Duration::from_millis(250);

/// Custom header values shorter than this are not searched for in error texts.
const MIN_REDACTED: usize = 8;

pub(super) async fn call(
    inner: &Inner,
    protocol: &dyn Protocol,
    request: &ModelRequest,
    sink: &mut EventSink<'_>,
    cancel: &CancellationToken,
) -> Result<Completion, ProviderError> {
    let mut head = Head::default();
    let end = exchange(inner, protocol, request, sink, cancel, &mut head).await;
    end.map_err(|error| dress(error, request, &head))
}

async fn exchange(
    inner: &Inner,
    protocol: &dyn Protocol,
    request: &ModelRequest,
    sink: &mut EventSink<'_>,
    cancel: &CancellationToken,
    head: &mut Head,
) -> Result<Completion, ProviderError> {
    if cancel.is_cancelled() {
        return Err(ProviderError::Cancelled);
    }
    let fetched = match protocol.authorise(request) {
        Some(fetching) => Some(fetched(fetching, cancel, head).await?),
        None => None,
    };
    let tap = Tap::of(request);
    let sent = send(inner, protocol, request, fetched, tap.clone())?;
    let answered = Box::pin(answered(inner, sent, cancel, head, tap)).await?;
    let Started { status, limits, mut body, declared } = Started::of(answered, inner);
    tracing::debug!(status = status.as_u16(), model = %request.model.id, "answer");
    if !status.is_success() {
        let error_type = head.error_type.as_deref();
        return Err(Box::pin(refused(inner, protocol, request, &mut body, (status, error_type))).await);
    }
    let first = body.first().await.arrived(limits)?.unwrap_or_default();
    let kind = kind_of(status.as_u16(), declared.as_deref(), &first, protocol.framing())?;
    let mut decoder = protocol.decoder(request);
    match kind {
        BodyKind::Whole => Box::pin(whole(inner, limits, &mut *decoder, &first, &mut body, sink)).await,
        BodyKind::Frames(framing) => {
            let mut framer = Framer::new(framing, inner.config.max_frame_bytes);
            let counted = AtomicBool::new(false);
            let sink: &mut EventSink<'_> = &mut |event: StreamEvent<'_>| {
                if let StreamEvent::Usage(_) = event {
                    counted.store(true, Ordering::Relaxed);
                }
                sink(event);
            };
            let completion = match frames(limits, &mut framer, &mut *decoder, first, &mut body, sink).await? {
                Some(completion) => completion,
                None => {
                    body.settle().await;
                    decoder.finish(sink)?
                }
            };
            if !counted.load(Ordering::Relaxed) {
                let model = &request.model.id;
                tracing::warn!(%model, "the server sent no token counts; the usage of the reply is unknown");
            }
            Ok(completion)
        }
    }
}

/// A response whose body is about to be read.
struct Started<'c> {
    status: StatusCode,
    limits: Limits,
    body: Body<'c>,
    /// The content type.
    declared: Option<Box<str>>,
}

impl<'c> Started<'c> {
    fn of(answered: Answered<'c>, inner: &Inner) -> Self {
        let Answered { response, guard, declared, tap } = answered;
        let status = response.status();
        let mut limits = Limits { idle: inner.config.idle_timeout, content: inner.config.content_timeout };
        if !status.is_success() {
            limits =
                Limits { idle: limits.idle.min(ERROR_SILENCE), content: limits.content.min(ERROR_TIMEOUT) };
        }
        Self { status, limits, body: Body::new(response, limits, guard).shown_to(tap), declared }
    }
}

/// Waits for the fetched credential. Its value is stored, so that it can be removed from errors.
async fn fetched(
    fetching: Fetching<'_>,
    cancel: &CancellationToken,
    head: &mut Head,
) -> Result<(HeaderName, HeaderValue), ProviderError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ProviderError::Cancelled),
        fetched = fetching => {
            let (name, mut value) = fetched?;
            value.set_sensitive(true);
            head.fetched = Some(value.clone());
            Ok((name, value))
        }
    }
}

/// Reads an error response, as far as it arrives.
async fn refused(
    inner: &Inner,
    protocol: &dyn Protocol,
    request: &ModelRequest,
    body: &mut Body<'_>,
    (status, error_type): (StatusCode, Option<&str>),
) -> ProviderError {
    let (bytes, end) = body.collect(&[], inner.config.max_error_bytes).await;
    if let Next::Cancelled = end {
        return ProviderError::Cancelled;
    }
    protocol.rejected(request, &Rejection { status: status.as_u16(), body: &bytes, error_type })
}

/// Splits a response into frames and passes them to its decoder.
pub(crate) enum Framer {
    Sse(SseDecoder),
    Lines(LineDecoder),
    #[cfg(feature = "bedrock")]
    EventStream(FrameDecoder),
}

impl Framer {
    pub(crate) fn new(framing: Framing, limit: usize) -> Self {
        match framing {
            Framing::Sse => Self::Sse(SseDecoder::new(limit)),
            Framing::SseOrJson => Self::Sse(SseDecoder::new(limit).with_bare_json()),
            Framing::Lines => Self::Lines(LineDecoder::new(limit)),
            #[cfg(feature = "bedrock")]
            Framing::EventStream => Self::EventStream(FrameDecoder::new(limit)),
        }
    }

    pub(crate) fn feed(
        &mut self,
        piece: &[u8],
        decoder: &mut dyn Decode,
        sink: &mut EventSink<'_>,
    ) -> Result<Flow, ProviderError> {
        let reader = &mut |frame: Frame<'_>| decoder.push(frame, sink);
        match self {
            Self::Sse(frames) => frames.feed(piece, reader).map_err(plain),
            Self::Lines(frames) => frames.feed(piece, reader).map_err(plain),
            #[cfg(feature = "bedrock")]
            Self::EventStream(frames) => crate::eventstream::read(frames, piece, decoder, sink),
        }
    }

    pub(crate) fn end(
        &mut self,
        decoder: &mut dyn Decode,
        sink: &mut EventSink<'_>,
    ) -> Result<Flow, ProviderError> {
        let reader = &mut |frame: Frame<'_>| decoder.push(frame, sink);
        match self {
            Self::Sse(frames) => frames.end(reader).map_err(plain),
            Self::Lines(frames) => frames.end(reader).map_err(plain),
            // An incomplete frame is ignored.
            #[cfg(feature = "bedrock")]
            Self::EventStream(_) => Ok(Flow::More),
        }
    }
}

fn plain(cut: Cut<ProviderError>) -> ProviderError {
    match cut {
        Cut::TooLong(too_long) => failure::too_long(too_long.limit),
        Cut::Reader(error) => error,
    }
}

/// Decodes the frames of a reply. Returns `None` at the end of the reply if the body has not ended: the caller then reads the
/// rest of the body.
async fn frames(
    limits: Limits,
    framer: &mut Framer,
    decoder: &mut dyn Decode,
    first: bytes::Bytes,
    body: &mut Body<'_>,
    sink: &mut EventSink<'_>,
) -> Result<Option<Completion>, ProviderError> {
    // Atomic only because a sink must be `Send`.
    let has_content = AtomicBool::new(false);
    let sink: &mut EventSink<'_> = &mut |event: StreamEvent<'_>| {
        if is_content(&event) {
            has_content.store(true, Ordering::Relaxed);
        }
        sink(event);
    };
    let begun = framer.feed(&first, decoder, sink)?;
    // If a piece is still referenced at the next read, the connection must allocate a new buffer.
    drop(first);
    if begun == Flow::Done {
        return Ok(None);
    }
    loop {
        let next = if decoder.is_complete() {
            match body.next_soon(AFTER_END).await {
                Some(next) => next,
                None => return Ok(None),
            }
        } else {
            body.next().await
        };
        let mut is_lost = matches!(next, Next::Failed(_));
        let mut broken = match next {
            Next::Piece(piece) => {
                let flow = framer.feed(&piece, decoder, sink)?;
                drop(piece);
                if has_content.swap(false, Ordering::Relaxed) {
                    body.had_content();
                }
                if flow == Flow::Done {
                    return Ok(None);
                }
                continue;
            }
            Next::Cancelled if !decoder.is_complete() => return Err(ProviderError::Cancelled),
            Next::End | Next::Cancelled => None,
            Next::Failed(error) => Some(failure::broken(error)),
            Next::Silent => Some(failure::silent(limits.idle)),
            Next::Empty => Some(failure::empty(limits.content)),
            Next::Flood => Some(failure::flood(MAX_BYTES_WITHOUT_CONTENT)),
        };
        // A body that ends within a frame broke off, even if the connection was closed as it should be.
        if let Err(error) = framer.end(decoder, sink) {
            if !is_cut_short(&error) {
                return Err(error);
            }
            is_lost = true;
            broken = broken.or_else(|| Some(failure::torn(error)));
        }
        let is_partial = !decoder.has_ended() && (is_lost || decoder.ends_with_body());
        return match (decoder.finish(sink), broken) {
            (Ok(_), Some(broken)) if is_partial => Err(broken),
            // A reply whose end was seen is complete, even if the connection failed afterwards. So is one with a reason to
            // stop after which the server only says nothing.
            (Ok(completion), Some(_)) => {
                tracing::warn!("the response did not end after the end of the reply");
                Ok(Some(completion))
            }
            (Err(error), Some(broken)) if error.kind() == ErrorKind::Network => Err(broken),
            (end, _) => end.map(Some),
        };
    }
}

/// Returns whether an event adds to the reply. The start of a block, an empty piece and a count of tokens do not, and a
/// server could send them for ever.
pub(crate) fn is_content(event: &StreamEvent<'_>) -> bool {
    match event {
        StreamEvent::TextDelta { delta, .. }
        | StreamEvent::ThinkingDelta { delta, .. }
        | StreamEvent::ToolCallDelta { delta, .. }
        | StreamEvent::TextSignature { delta, .. }
        | StreamEvent::ThinkingSignature { delta, .. }
        | StreamEvent::ToolCallSignature { delta, .. } => !delta.is_empty(),
        StreamEvent::RedactedThinking { .. } | StreamEvent::Opaque { .. } => true,
        _ => false,
    }
}

/// Returns whether a frame could not be parsed because it is truncated, as at the end of an interrupted stream.
fn is_cut_short(error: &ProviderError) -> bool {
    let source = error.context().and_then(|c| c.source.as_deref());
    source.and_then(|s| s.downcast_ref::<serde_json::Error>()).is_some_and(serde_json::Error::is_eof)
}

async fn whole(
    inner: &Inner,
    limits: Limits,
    decoder: &mut dyn Decode,
    first: &[u8],
    body: &mut Body<'_>,
    sink: &mut EventSink<'_>,
) -> Result<Completion, ProviderError> {
    let (bytes, end) = body.collect(first, inner.config.max_frame_bytes).await;
    if end.arrived(limits)?.is_some() {
        return Err(failure::too_long(inner.config.max_frame_bytes));
    }
    decoder.whole(&crate::lines::text(&bytes), sink)?;
    decoder.finish(sink)
}

/// Adds the provider, the request id and the wait to an error, removes every credential from its texts, and applies
/// `x-should-retry`.
pub(super) fn dress(error: ProviderError, request: &ModelRequest, head: &Head) -> ProviderError {
    let model = &request.model;
    let error = match (head.retry, error) {
        (Some(true), ProviderError::Api(context) | ProviderError::Other(context)) => {
            ProviderError::Network(context)
        }
        (Some(false), ProviderError::Network(context) | ProviderError::RateLimited(context)) => {
            ProviderError::Api(context)
        }
        (_, error) => error,
    };
    let is_limited = matches!(error, ProviderError::RateLimited(_));
    error.map_context(|context| {
        context.provider.get_or_insert_with(|| model.provider.clone());
        context.model.get_or_insert_with(|| model.id.clone());
        if context.request_id.is_none() {
            context.request_id = head.request_id.as_deref().map(str::to_owned);
        }
        context.retry_after = context.retry_after.filter(|wait| !wait.is_zero()).or(head.retry_after);
        if context.retry_after.is_none() && is_limited {
            context.retry_after = retry_after::in_text(&context.message);
        }
        redact(context, request, head);
    })
}

/// Removes the keys, the values of headers and the fetched credential, in every encoding in which a server can return
/// them.
fn redact(context: &mut ErrorContext, request: &ModelRequest, head: &Head) {
    let keys = [request.api_key.as_ref(), request.model.api_key.as_ref()];
    let headers = request.options.headers.values().chain(request.model.headers.values()).flatten();
    let fetched = head.fetched.as_ref().and_then(|value| value.to_str().ok());
    let token = fetched.and_then(|fetched| fetched.rsplit(' ').next());
    let values = headers.map(String::as_str).chain(token).filter(|value| value.len() >= MIN_REDACTED);
    let keys = keys.into_iter().flatten().chain(server_tools::secrets(request));
    let secrets = keys.cloned().chain(values.map(Secret::from));
    // A long message was cut, perhaps in the middle of a key.
    let end = if context.message.ends_with('…') { TextEnd::Cut } else { TextEnd::Whole };
    let redactor = Redactor::new(secrets);
    context.message = match end {
        TextEnd::Cut => format!("{}…", redactor.redact_until(context.message.trim_end_matches('…'), end)),
        _ => redactor.redact(&context.message),
    };
}
