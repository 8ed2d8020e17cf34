//! From frames to the decoder of a protocol: what a frame's headers say that it is.

use agent_core::{ErrorContext, ErrorKind, EventSink, ProviderError, StreamEvent};

use super::{FrameDecoder, FrameError, HeaderValue, Message};
use crate::lines;
use crate::protocol::{Decode, Flow, Frame};

/// Takes a piece of the stream.
pub(crate) fn read(
    frames: &mut FrameDecoder,
    mut piece: &[u8],
    decoder: &mut dyn Decode,
    sink: &mut EventSink<'_>,
) -> Result<Flow, ProviderError> {
    while let Some(message) = frames.next(&mut piece).map_err(corrupt)? {
        if take(&message, decoder, sink)? == Flow::Done {
            return Ok(Flow::Done);
        }
    }
    Ok(Flow::More)
}

fn take(
    message: &Message,
    decoder: &mut dyn Decode,
    sink: &mut EventSink<'_>,
) -> Result<Flow, ProviderError> {
    let payload = lines::text(message.payload());
    match header(message, ":message-type").unwrap_or("event") {
        "event" => decoder.push(Frame { event: header(message, ":event-type"), data: &payload }, sink),
        "exception" => {
            Err(decoder.failed(Frame { event: header(message, ":exception-type"), data: &payload }))
        }
        "error" => {
            let said = header(message, ":error-message").unwrap_or(&payload);
            Err(decoder.failed(Frame { event: header(message, ":error-code"), data: said }))
        }
        name => {
            sink(StreamEvent::Unrecognised { name });
            Ok(Flow::More)
        }
    }
}

/// The text of a header.
fn header<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    let found = message.headers().iter().find(|h| h.name().as_str() == name)?;
    match found.value() {
        HeaderValue::String(text) => Some(text.as_str()),
        _ => None,
    }
}

/// Bytes were changed or lost on the way, which another attempt may mend; a frame that is too long stays too long.
fn corrupt(error: FrameError) -> ProviderError {
    let kind = match &error {
        FrameError::TooLong { .. } => ErrorKind::Other,
        _ => ErrorKind::Network,
    };
    let mut context = ErrorContext::new(error.to_string());
    if kind == ErrorKind::Other {
        context.advice = Some("a larger max_frame_bytes in TransportConfig accepts it".to_owned());
    }
    ProviderError::new(kind, context.with_source(error))
}
