#![allow(clippy::needless_pass_by_value, reason = "expectations are written where they are used")]

mod hostile;
mod lines;
mod stream;
mod whole;

use agent_core::{
    Completion, Content, ErrorKind, History, ModelConfig, ModelRequest, OwnedStreamEvent as Event,
    ProviderError, ReplyLog, ResponseFormat, StopReason,
};
use serde_json::{Value, json};

use super::*;

fn request() -> ModelRequest {
    let model = ModelConfig::bedrock("eu-west-1", "vendor.model-1").with_api_key("some-api-key");
    ModelRequest::new(model, History::new())
}

/// What came of a stream.
struct Read {
    events: Vec<Event>,
    log: ReplyLog,
    end: Result<Completion, ProviderError>,
}

/// Pushes events as the transport does: until one says that it is the last, or fails.
fn read_as(request: &ModelRequest, frames: &[(Option<&str>, String)]) -> Read {
    let (mut events, mut log) = (vec![], ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.push(&event);
        events.push(Event::from(event));
    };
    let mut decoder = Decoder::new(request);
    let mut end = Ok(());
    for (event, data) in frames {
        match decoder.push(Frame { event: *event, data }, &mut sink) {
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

type Frames = Vec<(Option<&'static str>, String)>;

fn read(frames: &Frames) -> Read {
    read_as(&request(), frames)
}

fn event(name: &'static str, payload: Value) -> (Option<&'static str>, String) {
    (Some(name), payload.to_string())
}

fn begin(at: u32, start: Value) -> (Option<&'static str>, String) {
    event("contentBlockStart", json!({"contentBlockIndex": at, "start": start}))
}

fn delta(at: u32, delta: Value) -> (Option<&'static str>, String) {
    event("contentBlockDelta", json!({"contentBlockIndex": at, "delta": delta, "p": "abcdefgh"}))
}

fn end(at: u32) -> (Option<&'static str>, String) {
    event("contentBlockStop", json!({"contentBlockIndex": at, "p": "abc"}))
}

fn stop(reason: &str) -> (Option<&'static str>, String) {
    event("messageStop", json!({"stopReason": reason, "p": "ab"}))
}

fn tokens() -> (Option<&'static str>, String) {
    event(
        "metadata",
        json!({"usage": {"inputTokens": 11, "outputTokens": 7, "totalTokens": 23, "cacheReadInputTokens": 3,
            "cacheWriteInputTokens": 2}, "metrics": {"latencyMs": 5}}),
    )
}

/// A whole stream around these frames.
fn around(frames: Frames, reason: &str) -> Frames {
    let mut all = vec![event("messageStart", json!({"role": "assistant", "p": "abcd"}))];
    all.extend(frames);
    all.extend([stop(reason), tokens()]);
    all
}
