//! Passes the frames of a stream to the decoder of a protocol, by the kind that their headers name.

use agent_core::{ErrorContext, ErrorKind, EventSink, ProviderError, StreamEvent};

use super::{FrameDecoder, FrameError, HeaderValue, PRELUDE, message};
use crate::lines;
use crate::protocol::{Decode, Flow, Frame};

/// The maximum number of headers of a frame that is read without copying. Bedrock sends three.
const MAX_BORROWED: usize = 4;

/// Names and values of headers. Unused places have empty names.
pub(super) type Headers<'f> = [(&'f str, &'f str); MAX_BORROWED];

/// The type of a header that holds a string.
const STRING: u8 = 7;

/// Passes the frames of a piece of the stream to the decoder.
pub(crate) fn read(
    frames: &mut FrameDecoder,
    mut piece: &[u8],
    decoder: &mut dyn Decode,
    sink: &mut EventSink<'_>,
) -> Result<Flow, ProviderError> {
    while let Some(frame) = frames.cut(&mut piece).map_err(corrupt)? {
        let flow = match borrowed(&frame) {
            Some((headers, payload)) => take(&headers, payload, decoder, sink)?,
            None => {
                let message = message(&frame).map_err(corrupt)?;
                let strings = message.headers().iter().filter_map(|header| match header.value() {
                    HeaderValue::String(text) => Some((header.name().as_str(), text.as_str())),
                    _ => None,
                });
                take(&strings.collect::<Vec<_>>(), message.payload(), decoder, sink)?
            }
        };
        if flow == Flow::Done {
            return Ok(Flow::Done);
        }
    }
    Ok(Flow::More)
}

/// Returns the headers and the payload of a valid frame with few headers that are all strings. Returns `None` for any other
/// frame, which [`message`] reads or rejects.
pub(super) fn borrowed(frame: &[u8]) -> Option<(Headers<'_>, &[u8])> {
    let (checked, sum) = frame.split_last_chunk()?;
    if crc32fast::hash(checked) != u32::from_be_bytes(*sum) {
        return None;
    }
    let (prelude, rest) = checked.split_first_chunk::<PRELUDE>()?;
    let [_, _, _, _, h0, h1, h2, h3, ..] = *prelude;
    let length = usize::try_from(u32::from_be_bytes([h0, h1, h2, h3])).ok()?;
    let (mut bytes, payload) = rest.split_at_checked(length)?;
    let mut headers = [("", ""); MAX_BORROWED];
    let mut count = 0;
    while let Some((length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let ([STRING, v0, v1], rest) = rest.split_first_chunk()? else { return None };
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*v0, *v1])))?;
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
        if headers.iter().any(|(known, _)| *known == name) {
            return None;
        }
        *headers.get_mut(count)? = (name, std::str::from_utf8(value).ok()?);
        (bytes, count) = (rest, count + 1);
    }
    Some((headers, payload))
}

fn take(
    headers: &[(&str, &str)],
    payload: &[u8],
    decoder: &mut dyn Decode,
    sink: &mut EventSink<'_>,
) -> Result<Flow, ProviderError> {
    let header = |wanted: &str| headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    let payload = lines::text(payload);
    match header(":message-type").unwrap_or("event") {
        "event" => decoder.push(Frame { event: header(":event-type"), data: &payload }, sink),
        "exception" => Err(decoder.failed(Frame { event: header(":exception-type"), data: &payload })),
        "error" => {
            let said = header(":error-message").unwrap_or(&payload);
            Err(decoder.failed(Frame { event: header(":error-code"), data: said }))
        }
        name => {
            sink(StreamEvent::Unrecognised { name });
            Ok(Flow::More)
        }
    }
}

/// Converts a frame error. Corrupt bytes can be retried, a frame that is too long cannot.
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
