//! Performs one call: encodes the request, sends it once, detects the kind of response and decodes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_core::{
    CancellationToken, Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, Redactor,
    Secret, StreamEvent, TextEnd,
};
use http::{HeaderName, HeaderValue, StatusCode};

use super::body::{Body, Limits, Next};
use super::send::{Answered, Head, answered, send};
use super::{ERROR_TIMEOUT, Inner, MAX_BYTES_WITHOUT_CONTENT, failure};
#[cfg(feature = "bedrock")]
use crate::eventstream::FrameDecoder;
use crate::lines::{Cut, LineDecoder};
use crate::protocol::{Decode, Fetching, Flow, Frame, Framing, Protocol, Rejection};
use crate::rejection::is_html;
use crate::sse::SseDecoder;
use crate::tap::Tap;

/// The idle timeout for the body of an error response, whose kind its status already shows.
const ERROR_SILENCE: Duration = Duration::from_secs(10);

/// The time to wait for frames after the terminal one, in protocols that send some.
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
    let Answered { response, guard, declared, tap } =
        Box::pin(answered(inner, sent, cancel, head, tap)).await?;
    let status = response.status();
    tracing::debug!(status = status.as_u16(), model = %request.model.id, "answer");
    let mut limits = Limits { idle: inner.config.idle_timeout, content: inner.config.content_timeout };
    if !status.is_success() {
        limits = Limits { idle: limits.idle.min(ERROR_SILENCE), content: limits.content.min(ERROR_TIMEOUT) };
    }
    let mut body = Body::new(response, limits, guard).shown_to(tap);
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
            frames(limits, &mut framer, &mut *decoder, first, body, sink).await
        }
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

/// The format of a successful response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyKind {
    Frames(Framing),
    /// One JSON body with the whole response.
    Whole,
}

/// Detects the format by the content type and by the first byte, because some gateways send a wrong content type.
fn kind_of(
    status: u16,
    declared: Option<&str>,
    first: &[u8],
    usual: Framing,
) -> Result<BodyKind, ProviderError> {
    let media = declared.map_or("", |t| t.split_once(';').map_or(t, |(media, _)| media)).trim_ascii();
    let framing = declared_framing(media, usual);
    let is_json = media.eq_ignore_ascii_case("application/json") || ends_with_json(media);
    let start = first.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(first).trim_ascii_start();
    Ok(match start.first() {
        None => BodyKind::Frames(usual),
        Some(b'<') if is_html(start) => return Err(failure::web_page(status)),
        Some(b'{' | b'[') => match framing {
            Some(Framing::Lines) => BodyKind::Frames(Framing::Lines),
            None if !is_json && usual == Framing::Lines => BodyKind::Frames(Framing::Lines),
            // Text instead of frames is accepted only if the response declares JSON.
            _ if !is_json && is_binary(usual) => return Err(failure::wrong_type(status, declared)),
            _ => BodyKind::Whole,
        },
        Some(byte) => match framing {
            Some(framing) => BodyKind::Frames(framing),
            // `data:`, `event:`, `id:`, `retry:` or a comment.
            None if usual != Framing::Lines
                && !is_binary(usual)
                && b"deir:".contains(byte)
                && start.contains(&b':') =>
            {
                BodyKind::Frames(usual)
            }
            // The highest byte of the length of the first frame, which is far below 16 MiB.
            None if is_binary(usual) && *byte == 0 => BodyKind::Frames(usual),
            None => return Err(failure::wrong_type(status, declared)),
        },
    })
}

/// The content types with one JSON value per line.
const LINES: &[&str] =
    &["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];

/// Returns the framing that a content type names.
fn declared_framing(media: &str, usual: Framing) -> Option<Framing> {
    let is = |name: &str| media.eq_ignore_ascii_case(name);
    if is("text/event-stream") {
        return Some(if usual == Framing::SseOrJson { usual } else { Framing::Sse });
    }
    #[cfg(feature = "bedrock")]
    if is("application/vnd.amazon.eventstream") {
        return Some(Framing::EventStream);
    }
    LINES.iter().any(|name| is(name)).then_some(Framing::Lines)
}

/// Returns whether a content type is a form of JSON, such as `application/problem+json`.
fn ends_with_json(media: &str) -> bool {
    const SUFFIX: &[u8] = b"+json";
    media.as_bytes().last_chunk::<{ SUFFIX.len() }>().is_some_and(|end| end.eq_ignore_ascii_case(SUFFIX))
}

fn is_binary(framing: Framing) -> bool {
    match framing {
        Framing::Sse | Framing::SseOrJson | Framing::Lines => false,
        #[cfg(feature = "bedrock")]
        Framing::EventStream => true,
    }
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

async fn frames(
    limits: Limits,
    framer: &mut Framer,
    decoder: &mut dyn Decode,
    first: bytes::Bytes,
    mut body: Body<'_>,
    sink: &mut EventSink<'_>,
) -> Result<Completion, ProviderError> {
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
        body.settle().await;
        return decoder.finish(sink);
    }
    loop {
        let next = if decoder.is_complete() {
            match body.next_soon(AFTER_END).await {
                Some(next) => next,
                None => {
                    body.settle().await;
                    return decoder.finish(sink);
                }
            }
        } else {
            body.next().await
        };
        let broken = match next {
            Next::Piece(piece) => {
                let flow = framer.feed(&piece, decoder, sink)?;
                drop(piece);
                if has_content.swap(false, Ordering::Relaxed) {
                    body.had_content();
                }
                if flow == Flow::Done {
                    body.settle().await;
                    return decoder.finish(sink);
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
        if let Err(error) = framer.end(decoder, sink)
            && !is_cut_short(&error)
        {
            return Err(error);
        }
        // A reply with a terminal event is complete, even if the connection failed afterwards.
        return decoder.finish(sink).map_err(|error| match broken {
            Some(broken) if error.kind() == ErrorKind::Network => broken,
            _ => error,
        });
    }
}

/// Returns whether an event adds to the reply. The start of a block, an empty piece and a count of tokens do not, and a
/// server could send them for ever.
fn is_content(event: &StreamEvent<'_>) -> bool {
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
fn dress(error: ProviderError, request: &ModelRequest, head: &Head) -> ProviderError {
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
    error.map_context(|context| {
        context.provider.get_or_insert_with(|| model.provider.clone());
        context.model.get_or_insert_with(|| model.id.clone());
        if context.request_id.is_none() {
            context.request_id = head.request_id.as_deref().map(str::to_owned);
        }
        if context.retry_after.is_none() {
            context.retry_after = head.retry_after;
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
    let secrets = keys.into_iter().flatten().cloned().chain(values.map(Secret::from));
    // A long message was cut, perhaps in the middle of a key.
    let end = if context.message.ends_with('…') { TextEnd::Cut } else { TextEnd::Whole };
    let redactor = Redactor::new(secrets);
    context.message = match end {
        TextEnd::Cut => format!("{}…", redactor.redact_until(context.message.trim_end_matches('…'), end)),
        _ => redactor.redact(&context.message),
    };
}
