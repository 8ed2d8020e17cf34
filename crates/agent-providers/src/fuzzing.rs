//! Functions for the fuzz targets in `fuzz/`. They exist only under `--cfg fuzzing` and are not part of the public API.
//!
//! An input consists of two bytes and a response: the first byte selects how the response is read, the second how it is
//! split. Each function asserts properties of every input: nothing panics, the events do not depend on the split, a block
//! emits nothing after its end, the events are not much larger than the response, and the reply survives serialization.
//! An error is a valid result too.
//!
//! ```
//! // Mode 0 is a stream, in one piece; the rest is the answer.
//! let input = b"\0\0data: {}\n\n";
//! # #[cfg(fuzzing)]
//! agent_providers::fuzzing::sse(input);
//! ```

use std::collections::BTreeSet;

use agent_core::{
    AssistantMessage, Completion, History, Message, ModelConfig, ModelRequest, OwnedStreamEvent,
    ProviderError, ReplyLog, ResponseFormat, StreamEvent, ToolDefinition,
};
use serde_json::json;

#[cfg(feature = "bedrock")]
use crate::eventstream::{FrameDecoder, FrameError};
use crate::lines::{Cut, LineDecoder};
use crate::protocol::{Decode, Flow, Frame, Framing, Protocol, Rejection};
use crate::sse::SseDecoder;
use crate::transport::Framer;

/// The maximum size of a frame. It is small, so that inputs reach it.
const LIMIT: usize = 1 << 16;

/// The maximum ratio of the size of the events to the size of the response. An invalid byte becomes three, and the
/// decoders add some names.
const GROWTH: usize = 16;
const MORE: usize = 8 << 10;

/// The HTTP statuses of error responses.
const STATUSES: [u16; 8] = [400, 401, 403, 404, 413, 429, 500, 529];

/// Splits the input into the mode, the split and the response.
fn parts(data: &[u8]) -> Option<(u8, u8, &[u8])> {
    let (mode, data) = data.split_first()?;
    let (cut, data) = data.split_first()?;
    Some((*mode, *cut, data))
}

/// Returns the pieces of a response. Their sizes depend on `cut`; 0 gives one piece.
fn pieces(cut: u8, data: &[u8]) -> Vec<&[u8]> {
    let mut seed = u32::from(cut);
    let mut rest = data;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = if cut == 0 { rest.len() } else { (seed >> 24) as usize % (usize::from(cut) % 40 + 2) };
        let (piece, after) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The frames of a response, and whether it ended without an error.
type Frames = (Vec<(Option<String>, String)>, bool);

fn framed(
    mut feed: impl FnMut(&mut dyn FnMut(Frame<'_>) -> Result<Flow, ()>) -> Result<Flow, Cut<()>>,
) -> Frames {
    let mut frames = Vec::new();
    let end = feed(&mut |frame| {
        frames.push((frame.event.map(str::to_owned), frame.data.to_owned()));
        Ok(Flow::More)
    });
    (frames, end.is_ok())
}

/// Fuzzes the framing of server-sent events.
pub fn sse(data: &[u8]) {
    let Some((mode, cut, body)) = parts(data) else { return };
    let read = |cut| {
        framed(|on| {
            let mut decoder = SseDecoder::new(LIMIT);
            if mode % 2 == 1 {
                decoder = decoder.with_bare_json();
            }
            for piece in pieces(cut, body) {
                decoder.feed(piece, on)?;
            }
            decoder.end(on)
        })
    };
    let whole = read(0);
    assert_eq!(whole, read(cut));
    assert!(whole.0.iter().all(|(_, data)| data.len() <= 3 * LIMIT));
}

/// Fuzzes the framing of JSON values per line.
pub fn lines(data: &[u8]) {
    let Some((_, cut, body)) = parts(data) else { return };
    let read = |cut| {
        framed(|on| {
            let mut decoder = LineDecoder::new(LIMIT);
            for piece in pieces(cut, body) {
                decoder.feed(piece, on)?;
            }
            decoder.end(on)
        })
    };
    assert_eq!(read(0), read(cut));
}

/// Fuzzes the framing of AWS event streams. With an odd mode, valid lengths and checksums are inserted, so that the
/// content is parsed.
#[cfg(feature = "bedrock")]
pub fn frames(data: &[u8]) {
    let Some((mode, cut, body)) = parts(data) else { return };
    let sealed = if mode % 2 == 1 { seal_all(body) } else { body.to_vec() };
    let read = |cut| {
        let mut decoder = FrameDecoder::new(LIMIT);
        let mut messages = Vec::new();
        for mut piece in pieces(cut, &sealed) {
            loop {
                match decoder.next(&mut piece) {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(FrameError::TooLong { .. }) => return (messages, "too long".to_owned()),
                    Err(error) => return (messages, error.to_string()),
                }
            }
            assert!(decoder.pending() <= LIMIT);
        }
        (messages, String::new())
    };
    assert_eq!(read(0), read(cut));
}

/// Converts lines to frames. The bytes before the first `|` are the headers, the others the payload.
#[cfg(feature = "bedrock")]
fn seal_all(body: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::new();
    for line in body.split(|b| *b == b'\n') {
        let at = line.iter().position(|b| *b == b'|').unwrap_or(0);
        let (headers, payload) = line.split_at(at);
        seal(headers, payload.strip_prefix(b"|").unwrap_or(payload), &mut sealed);
    }
    sealed
}

/// Appends a frame with these encoded headers and this payload.
#[cfg(feature = "bedrock")]
fn seal(headers: &[u8], payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let length = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes();
    out.extend(length(16 + headers.len() + payload.len()));
    out.extend(length(headers.len()));
    let so_far = |out: &[u8]| crc32fast::hash(out.get(start..).unwrap_or_default()).to_be_bytes();
    out.extend(so_far(out));
    out.extend(headers);
    out.extend(payload);
    out.extend(so_far(out));
}

/// Fuzzes the decoder of Anthropic Messages.
pub fn anthropic(data: &[u8]) {
    answer(&crate::anthropic::Anthropic, ModelConfig::anthropic("m", "m", "k"), data);
}

/// Fuzzes the decoder of Chat Completions.
pub fn openai_chat(data: &[u8]) {
    answer(&crate::openai_chat::OpenAiChat, ModelConfig::openai("m", "m", "k"), data);
}

/// Fuzzes the decoder of OpenAI Responses.
pub fn openai_responses(data: &[u8]) {
    answer(&crate::openai_responses::OpenAiResponses, ModelConfig::openai_responses("m", "m", "k"), data);
}

/// Fuzzes the decoder of Gemini.
pub fn google(data: &[u8]) {
    answer(&crate::google::Google, ModelConfig::google("m", "m", "k"), data);
}

/// Fuzzes the decoder of Ollama.
pub fn ollama(data: &[u8]) {
    answer(&crate::ollama::Ollama, ModelConfig::ollama("m"), data);
}

/// Fuzzes the decoder of Bedrock ConverseStream. Each line consists of the name of an event, `|` and its JSON and is
/// converted to a frame. A name that begins with `!` is an exception.
#[cfg(feature = "bedrock")]
pub fn bedrock(data: &[u8]) {
    let Some((mode, cut, body)) = parts(data) else { return };
    let mut framed = vec![mode, cut];
    if mode & KIND == WHOLE || mode & KIND == REJECTED {
        framed.extend(body);
    } else {
        for line in body.split(|b| *b == b'\n') {
            let at = line.iter().position(|b| *b == b'|').unwrap_or(line.len());
            let (name, payload) = line.split_at(at);
            let (kind, key, name) = match name.strip_prefix(b"!") {
                Some(name) => ("exception", ":exception-type", name),
                None => ("event", ":event-type", name),
            };
            let mut headers = Vec::new();
            for (key, value) in [(":message-type", kind.as_bytes()), (key, name)] {
                headers.push(u8::try_from(key.len()).unwrap_or(0));
                headers.extend(key.as_bytes());
                headers.push(7);
                headers.extend(u16::try_from(value.len()).unwrap_or(0).to_be_bytes());
                headers.extend(value);
            }
            seal(&headers, payload.strip_prefix(b"|").unwrap_or(payload), &mut framed);
        }
    }
    answer(&crate::bedrock::Bedrock::default(), ModelConfig::bedrock("r", "m"), &framed);
}

/// The two low bits of the mode select a stream, a whole body or an error response.
const KIND: u8 = 0b11;
const WHOLE: u8 = 0b01;
const REJECTED: u8 = 0b10;

/// The next bit selects a request with tools and a response format.
const FORM: u8 = 0b100;

fn answer(protocol: &dyn Protocol, model: ModelConfig, data: &[u8]) {
    let Some((mode, cut, body)) = parts(data) else { return };
    let request = request(model, mode & FORM != 0);
    match mode & KIND {
        REJECTED => {
            let status = STATUSES.iter().copied().cycle().nth(usize::from(cut)).unwrap_or(500);
            let error = protocol.rejected(&request, &Rejection { status, body, error_type: None });
            let said = error.to_string();
            assert!(said.len() <= GROWTH * body.len() + MORE, "{} bytes", said.len());
            assert!(!format!("{error:?}").is_empty());
        }
        WHOLE => {
            let heard = hear(protocol, &request, &mut |decoder, _, sink| {
                decoder.whole(&crate::lines::text(body), sink)
            });
            heard.check(body.len());
        }
        _ => {
            let read = |cut| {
                hear(protocol, &request, &mut |decoder, framing, sink| {
                    let mut framer = Framer::new(framing, LIMIT);
                    for piece in pieces(cut, body) {
                        if framer.feed(piece, decoder, sink)? == Flow::Done {
                            return Ok(());
                        }
                    }
                    framer.end(decoder, sink).map(drop)
                })
            };
            let whole = read(0);
            whole.check(body.len());
            assert_eq!(whole.same(), read(cut).same());
        }
    }
}

fn request(model: ModelConfig, form: bool) -> ModelRequest {
    let (history, _) = History::repaired([agent_core::AgentMessage::from(Message::user("?"))]);
    let mut request = ModelRequest::new(model, history);
    if form {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        request.tools = [ToolDefinition::new("get_weather", "?", schema.clone())].into_iter().collect();
        request.response_format = ResponseFormat::JsonSchema { name: "f".to_owned(), schema, strict: false };
    }
    request
}

type Sink<'s> = agent_core::EventSink<'s>;

/// The output of a decoder.
struct Heard {
    events: Vec<OwnedStreamEvent>,
    log: ReplyLog,
    end: Result<Completion, ProviderError>,
}

fn hear(
    protocol: &dyn Protocol,
    request: &ModelRequest,
    feed: &mut dyn FnMut(&mut dyn Decode, Framing, &mut Sink<'_>) -> Result<(), ProviderError>,
) -> Heard {
    let mut decoder = protocol.decoder(request);
    let (mut events, mut log) = (Vec::new(), ReplyLog::new());
    let sink = &mut |event: StreamEvent<'_>| {
        log.push(&event);
        events.push(event.into());
    };
    let fed = feed(&mut *decoder, protocol.framing(), sink);
    // A later error does not affect a complete reply.
    let end = match fed {
        Err(error) if !decoder.is_complete() => Err(error),
        _ => decoder.finish(sink),
    };
    Heard { events, log, end }
}

impl Heard {
    /// Returns the output that must not depend on the split.
    fn same(&self) -> (&[OwnedStreamEvent], Result<String, String>) {
        let end = self.end.as_ref().map(|c| format!("{c:?}")).map_err(ToString::to_string);
        (&self.events, end)
    }

    fn check(&self, length: usize) {
        let mut ended = BTreeSet::new();
        let mut size = 0;
        for event in &self.events {
            let shown = serde_json::to_value(event).unwrap_or_default();
            size += shown.to_string().len();
            let Some(index) = shown.get("index").and_then(serde_json::Value::as_u64) else { continue };
            assert!(!ended.contains(&index), "{event:?} comes after the end of its block");
            if matches!(event, OwnedStreamEvent::BlockEnd { .. }) {
                ended.insert(index);
            }
        }
        // Each event has members in addition to its content.
        assert!(size <= GROWTH * length + MORE, "{length} bytes became {size}");
        let _ = (self.log.snapshot(), self.log.partial_content(), self.log.open_calls(), self.log.usage());
        if let Ok(completion) = &self.end {
            let message = self.log.finish("p", "m", completion);
            let written = serde_json::to_string(&message).unwrap_or_default();
            let read = serde_json::from_str::<AssistantMessage>(&written);
            let gist = |m: &AssistantMessage| (m.text(), m.tool_calls().count(), m.stop_reason);
            assert_eq!(read.as_ref().map(gist).ok(), Some(gist(&message)), "{read:?}");
        }
    }
}
