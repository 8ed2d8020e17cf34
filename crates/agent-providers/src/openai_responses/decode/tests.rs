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

#[test]
fn written_tokens_have_their_lifetime_and_a_miss_its_reason() {
    let response = |details: Value, diagnostics: Value| {
        ended(
            "completed",
            json!({"id": "resp_1", "status": "completed", "output": [], "prompt_cache_diagnostics": diagnostics,
                "usage": {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120, "input_tokens_details":
                    {"cached_tokens": 0, "cache_write_tokens": 80, "cache_write_tokens_details": details}}}),
        )
    };
    for (details, long) in [
        (json!({"ttl_30m_tokens": 30, "ttl_12h_tokens": 50}), 50),
        (json!({"ttl_12h_tokens": 5_000}), 80),
        (json!(null), 0),
        (json!("x"), 0),
    ] {
        let usage = read(&[response(details.clone(), json!(null))]).log.usage();
        assert_eq!(
            (usage.cache_write, usage.cache_write_long, usage.total_tokens),
            (80, long, 120),
            "{details}"
        );
    }
    let miss = |diagnostics: Value| {
        let mut decoder = decoder();
        let frame = response(json!(null), diagnostics).to_string();
        decoder.push(Frame { event: None, data: &frame }, &mut |_| {}).unwrap();
        decoder.finish(&mut |_| {}).unwrap().cache_miss
    };
    let reason = json!({"type": "cache_miss", "reason": "tools_changed", "cache_missed_tokens": 70});
    assert_eq!(miss(reason), Some(CacheMiss::new("tools_changed", Some(70))));
    let unknown = json!({"type": "comparison_response_not_found"});
    assert_eq!(miss(unknown), Some(CacheMiss::new("comparison_response_not_found", None)));
    for none in [json!({"type": "cache_hit"}), json!(null), json!([1]), json!("later")] {
        assert_eq!(miss(none.clone()), None, "{none}");
    }
}
