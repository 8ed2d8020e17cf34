//! What events amount to.

#![allow(clippy::needless_pass_by_value, reason = "`json!` reads better by value")]

mod hostile;
mod items;
mod parts;
mod whole;

use agent_core::{
    AssistantMessage, Content, ErrorKind, History, ModelConfig, OwnedStreamEvent, ReplyLog, StopReason,
};
use serde_json::{Value, json};

use super::*;

pub(super) struct Read {
    events: Vec<OwnedStreamEvent>,
    log: ReplyLog,
    end: Result<AssistantMessage, ProviderError>,
}

impl Read {
    fn content(&self) -> Vec<Content> {
        self.log.content()
    }

    #[track_caller]
    fn kind(&self) -> ErrorKind {
        self.end.as_ref().unwrap_err().kind()
    }
}

fn decoder() -> Decoder {
    let model = ModelConfig::openai_responses("gpt-test", "GPT", "sk-test");
    Decoder::new(&ModelRequest::new(model, History::new()))
}

/// Feeds a decoder, gathers what it says, and asks for the end.
fn run(feed: impl FnOnce(&mut Decoder, &mut EventSink<'_>) -> Result<(), ProviderError>) -> Read {
    let mut decoder = decoder();
    let (mut events, mut log) = (Vec::new(), ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.push(&event);
        events.push(OwnedStreamEvent::from(event));
    };
    let fed = feed(&mut decoder, &mut sink);
    let end = fed.and_then(|()| decoder.finish(&mut sink));
    let end = end.map(|completion| log.finish("openai", "gpt-test", &completion));
    Read { events, log, end }
}

fn read_texts(frames: &[&str]) -> Read {
    run(|decoder, sink| {
        frames.iter().try_for_each(|data| decoder.push(Frame { event: None, data }, sink).map(|_| ()))
    })
}

fn read(frames: &[Value]) -> Read {
    let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
    read_texts(&frames.iter().map(String::as_str).collect::<Vec<_>>())
}

fn added(at: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": at, "item": item})
}

fn done(at: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": at, "item": item})
}

fn text_delta(at: u64, delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": at, "content_index": 0, "delta": delta})
}

fn arguments(at: u64, delta: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": at, "delta": delta})
}

fn call(id: &str, call_id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": call_id, "name": "look", "arguments": arguments})
}

fn message(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "role": "assistant",
        "content": [{"type": "output_text", "text": text}]})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": output,
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60},
            "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 120}}})
}

fn ended(name: &str, response: Value) -> Value {
    json!({"type": format!("response.{name}"), "response": response})
}
