#![allow(clippy::needless_pass_by_value, reason = "expectations are written where they are used")]

mod hostile;
mod start;
mod stream;
mod usage;
mod whole;

use agent_core::{
    Completion, ErrorKind, History, ModelConfig, ModelRequest, OwnedStreamEvent as Event, ProviderError,
    ReplyLog, ResponseFormat,
};
use serde_json::{Value, json};

use super::*;

fn request() -> ModelRequest {
    ModelRequest::new(ModelConfig::anthropic("claude-test", "Claude", "key"), History::new())
}

/// What came of a stream.
struct Read {
    events: Vec<Event>,
    log: ReplyLog,
    end: Result<Completion, ProviderError>,
}

impl Read {
    /// The events without the tokens.
    fn shown(&self) -> Vec<&Event> {
        self.events.iter().filter(|e| !matches!(e, Event::Usage { .. })).collect()
    }
}

/// Pushes frames as the transport does: until one says that it is the last, or fails.
fn read_as(request: &ModelRequest, frames: &[&str]) -> Read {
    let (mut events, mut log) = (vec![], ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.push(&event);
        events.push(Event::from(event));
    };
    let mut decoder = Decoder::new(request);
    let mut end = Ok(());
    for data in frames {
        match decoder.push(Frame { event: None, data }, &mut sink) {
            Ok(Flow::More) => {}
            Ok(Flow::Done) => break,
            Err(error) => {
                end = Err(error);
                break;
            }
        }
    }
    let end = end.and_then(|()| decoder.finish(&mut sink));
    Read { events, log, end }
}

fn read(frames: &[&str]) -> Read {
    read_as(&request(), frames)
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","model":"claude-test","usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":3,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn begin(index: u32, block: Value) -> String {
    json!({"type": "content_block_start", "index": index, "content_block": block}).to_string()
}

fn delta(index: u32, delta: Value) -> String {
    json!({"type": "content_block_delta", "index": index, "delta": delta}).to_string()
}

fn end(index: u32) -> String {
    json!({"type": "content_block_stop", "index": index}).to_string()
}

fn stop(reason: &str) -> String {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
        .to_string()
}

/// A whole stream around these frames.
fn around(frames: &[String], reason: &str) -> Vec<String> {
    let mut all = vec![START.to_owned()];
    all.extend_from_slice(frames);
    all.extend([stop(reason), STOP.to_owned()]);
    all
}

fn refs(frames: &[String]) -> Vec<&str> {
    frames.iter().map(String::as_str).collect()
}
