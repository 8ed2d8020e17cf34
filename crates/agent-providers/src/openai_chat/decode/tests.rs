//! What deltas amount to.

#![allow(clippy::needless_pass_by_value, reason = "`json!` reads better by value")]

mod usage;
mod whole;

use agent_core::{
    AssistantMessage, CitationSource, Content, History, ModelConfig, OwnedStreamEvent, ReplyLog,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::sse::SseDecoder;

struct Read {
    events: Vec<OwnedStreamEvent>,
    end: Result<AssistantMessage, ProviderError>,
    log: ReplyLog,
    reason: Option<StopReason>,
}

fn decoder() -> Decoder {
    Decoder::new(&ModelRequest::new(ModelConfig::local("http://h", "m", ""), History::new()))
}

/// Reads frames; `None` stands for the end of the stream without `[DONE]`.
fn read(frames: &[&str]) -> Read {
    let mut decoder = decoder();
    let (mut events, mut log) = (Vec::new(), ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.push(&event);
        events.push(OwnedStreamEvent::from(event));
    };
    let pushed =
        frames.iter().try_for_each(|data| decoder.push(Frame { event: None, data }, &mut sink).map(|_| ()));
    let end = pushed.and_then(|()| decoder.finish(&mut sink));
    let reason = end.as_ref().ok().map(|c| c.stop_reason);
    let end = end.map(|c| log.finish("p", "m", &c));
    Read { events, end, log, reason }
}

fn delta(delta: serde_json::Value) -> String {
    json!({"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta}]}).to_string()
}

fn finish(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

/// The limits are those of the log, so that no list of calls grows while a part of the body is decoded.
#[test]
fn calls_beyond_the_limit_of_a_reply_are_its_error() {
    let call =
        |n: usize| json!([{"index": n, "id": format!("c{n}"), "function": {"name": "f", "arguments": "{}"}}]);
    let frames: Vec<String> = (0..5_000).map(|n| delta(json!({ "tool_calls": call(n) }))).collect();
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let read = read(&frames);
    assert!(read.end.unwrap_err().to_string().contains("more than 1024 tool calls"));
    assert_eq!(read.log.open_calls().len(), 1_024);
}

/// The calls that these `tool_calls` deltas amount to, as `id name arguments`.
#[track_caller]
fn check_calls(pieces: &[serde_json::Value], expect: &[&str]) {
    let mut frames: Vec<String> = pieces.iter().map(|p| delta(json!({ "tool_calls": p }))).collect();
    frames.push(finish("tool_calls"));
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let read = read(&frames);
    let message = read.end.unwrap();
    let calls: Vec<String> =
        message.tool_calls().map(|c| format!("{} {} {}", c.id, c.name, c.arguments.text())).collect();
    assert_eq!(calls, expect, "{pieces:?}");
    assert_eq!(message.stop_reason, StopReason::ToolUse);
}

/// B-124, D18.
#[test]
fn pieces_of_calls_are_put_together_by_index_whatever_becomes_of_the_ids() {
    check_calls(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]),
            json!([{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{\"y\""}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\""}}]),
            json!([{"index": 1, "function": {"arguments": ":2}"}}, {"index": 0, "function": {"arguments": ":1}"}}]),
        ],
        &["a f {\"x\":1}", "b g {\"y\":2}"],
    );
    // The id comes late, the name with every piece.
    check_calls(
        &[
            json!([{"index": 0, "function": {"name": "f", "arguments": "{"}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}}]),
        ],
        &["a f {}"],
    );
    // The id changes with every piece.
    check_calls(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "id": "b", "function": {"name": "f", "arguments": ":1}"}}]),
        ],
        &["a f {\"x\":1}"],
    );
    // Whole calls, all under the index 0.
    check_calls(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]),
            json!([{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{\"x\":1}"}}]),
        ],
        &["a f {}", "b f {\"x\":1}"],
    );
}

/// Servers that label every call with the index 0 and send no ids.
#[test]
fn calls_with_one_index_and_no_ids_are_told_apart() {
    let piece = |name: &str, arguments: &str| json!({"index": 0, "type": "function", "function": {"name": name, "arguments": arguments}});
    let more = |arguments: &str| json!([{"index": 0, "function": {"arguments": arguments}}]);
    let (a, b) = ("{\"path\":\"a\"}", "{\"path\":\"b\"}");
    let three = ["call_0_0 read {\"path\":\"a\"}", "call_0_1 list {}", "call_0_2 read {\"path\":\"b\"}"];
    check_calls(
        &[json!([piece("read", a)]), json!([piece("list", "{}")]), json!([piece("read", b)])],
        &three,
    );
    check_calls(&[json!([piece("read", a), piece("list", "{}"), piece("read", b)])], &three);
    check_calls(
        &[
            json!([piece("read", "")]),
            more("{\"path\":"),
            more("\"a\"}"),
            json!([piece("list", "{}"), piece("read", b)]),
        ],
        &three,
    );
    // A tool without arguments has nothing that is whole.
    check_calls(
        &[json!([piece("list", "")]), json!([piece("read", a)])],
        &["call_0_0 list ", "call_0_1 read {\"path\":\"a\"}"],
    );
    // The same tool twice.
    check_calls(
        &[json!([piece("read", a)]), json!([piece("read", b)])],
        &["call_0_0 read {\"path\":\"a\"}", "call_0_1 read {\"path\":\"b\"}"],
    );
    // The name with every piece, after an empty value, and the whole again: one call each.
    check_calls(&[json!([piece("read", "{\"path\":")]), json!([piece("read", "\"a\"}")])], &[three[0]]);
    check_calls(
        &[json!([piece("read", "{}")]), json!([piece("read", a)])],
        &["call_0_0 read {}{\"path\":\"a\"}"],
    );
    check_calls(
        &[json!([piece("read", a)]), json!([piece("read", a)])],
        &["call_0_0 read {\"path\":\"a\"}{\"path\":\"a\"}"],
    );
}

fn whole_call(index: usize) -> String {
    delta(
        json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": {"name": "f", "arguments": "{\"x\":1}"}}]}),
    )
}

/// The end of frames, and what it ends with in the vendor's words.
fn ending(frames: &[String]) -> Result<(StopReason, usize, usize), ErrorKind> {
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let read = read(&frames);
    let open = read.log.open_calls().len();
    read.end.map(|m| (m.stop_reason, m.tool_calls().count(), open)).map_err(|e| e.kind())
}

#[test]
fn whole_calls_decide_whatever_the_word_at_the_end() {
    for word in ["tool_call", "chickens", "stop", "tool_calls"] {
        let end = ending(&[whole_call(0), finish(word), DONE.to_owned()]);
        assert_eq!(end, Ok((StopReason::ToolUse, 1, 0)), "{word}");
    }
    for word in ["content_filter", "error"] {
        assert!(ending(&[whole_call(0), finish(word), DONE.to_owned()]).is_err(), "{word}");
    }
    assert_eq!(
        ending(&[delta(json!({"content": "x"})), finish("chickens"), DONE.to_owned()]),
        Err(ErrorKind::Api)
    );
    let half = delta(json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{\"x\""}}]}));
    assert_eq!(ending(&[half.clone(), finish("chickens"), DONE.to_owned()]), Err(ErrorKind::Api));
    // Without the end mark a call that is not whole shows that the reply is not.
    assert_eq!(ending(&[half.clone(), finish("tool_calls")]), Err(ErrorKind::Network));
    assert_eq!(
        ending(&[half.clone(), finish("tool_calls"), DONE.to_owned()]),
        Ok((StopReason::ToolUse, 1, 0))
    );
    assert_eq!(ending(&[whole_call(0), finish("tool_calls")]), Ok((StopReason::ToolUse, 1, 0)));
    // A limit cuts the last call, which has no end then.
    assert_eq!(
        ending(&[whole_call(1), half.clone(), finish("length"), DONE.to_owned()]),
        Ok((StopReason::Length, 2, 1))
    );
    assert_eq!(ending(&[half, finish("length")]), Ok((StopReason::Length, 1, 1)));
}

/// B-124.
#[test]
fn calls_without_an_index_are_told_apart() {
    check_calls(
        &[json!([
            {"id": "a", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "function": {"name": "f", "arguments": "{}"}}
        ])],
        &["a f {}", "b f {}"],
    );
    check_calls(
        &[
            json!([{"id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"function": {"arguments": ":1}"}}]),
            json!([{"id": "b", "function": {"name": "g"}}]),
            json!([{"id": "b", "function": {"arguments": "{}"}}]),
        ],
        &["a f {\"x\":1}", "b g {}"],
    );
    check_calls(
        &[
            json!([{"function": {"name": "f", "arguments": "{}"}}]),
            json!([{"function": {"name": "f", "arguments": "{}"}}]),
        ],
        &["call_0_0 f {}", "call_0_1 f {}"],
    );
}

/// REQ-041.
#[test]
fn arguments_may_come_as_an_object_and_may_be_missing() {
    check_calls(
        &[json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": [1]}}}])],
        &["a f {\"x\":[1]}"],
    );
    check_calls(&[json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": null}}])], &["a f "]);
    check_calls(&[json!([{"index": 0, "id": "a", "function": {"name": "f"}}])], &["a f "]);
}

/// REQ-131.
#[test]
fn thinking_is_read_from_whichever_field_it_comes_in() {
    for (piece, signature) in [
        (json!({"reasoning_content": "hm"}), Some("reasoning_content")),
        (json!({"reasoning": "hm", "content": null}), Some("reasoning")),
        (json!({"reasoning_text": "hm", "content": ""}), Some("reasoning_text")),
        (json!({"reasoning_content": "hm", "reasoning": "hm"}), Some("reasoning_content")),
        (json!({"reasoning_content": "", "reasoning": "hm"}), Some("reasoning")),
        (json!({"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]}), None),
        (json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}), None),
        (json!({"content": [{"type": "thinking", "thinking": "hm"}]}), None),
    ] {
        let frames = [delta(piece.clone()), delta(json!({"content": "yes"})), finish("stop")];
        let message = read(&frames.each_ref().map(String::as_str)).end.unwrap();
        let expect = [Content::thinking("hm", signature.map(str::to_owned)), Content::text("yes")];
        assert_eq!(message.content, expect, "{piece}");
    }
}

/// B-115.
#[test]
fn blocks_end_in_order_and_nothing_follows() {
    let frames = [
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "a"})),
        delta(json!({"content": "b"})),
        delta(json!({"content": "c"})),
        delta(json!({"tool_calls": [{"index": 0, "id": "i", "function": {"name": "f", "arguments": "{}"}}]})),
        finish("tool_calls"),
    ];
    let read = read(&frames.each_ref().map(String::as_str));
    let names: Vec<String> = read
        .events
        .iter()
        .map(|e| {
            let json = serde_json::to_value(e).unwrap();
            format!(
                "{}{}",
                json["type"].as_str().unwrap(),
                json.get("index").map(ToString::to_string).unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            "start",
            "thinking_start0",
            "thinking_signature0",
            "thinking_delta0",
            "block_end0",
            "text_start1",
            "text_delta1",
            "text_delta1",
            "block_end1",
            "tool_call_start2",
            "tool_call_delta2",
            "block_end2"
        ]
    );
}

#[track_caller]
fn check_usage(usage: serde_json::Value, expect: (u64, u64, u64, u64, u64)) {
    let frames = [finish("stop"), json!({"choices": [], "usage": usage}).to_string()];
    let got = read(&frames.each_ref().map(String::as_str)).end.unwrap().usage;
    assert_eq!((got.input, got.output, got.cache_read, got.cache_write, got.reasoning), expect, "{usage}");
    assert_eq!(got.total_tokens, got.input + got.output + got.cache_read + got.cache_write);
}

/// B-151.
#[test]
fn usage_is_split_into_disjoint_buckets() {
    check_usage(json!({"prompt_tokens": 10, "completion_tokens": 5}), (10, 5, 0, 0, 0));
    check_usage(
        json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 4}}),
        (1, 5, 6, 3, 4),
    );
    check_usage(
        json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 6}),
        (4, 5, 6, 0, 0),
    );
    check_usage(json!({"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 6}), (4, 5, 6, 0, 0));
    // Reasoning beside the completion, as the total shows.
    check_usage(
        json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 22,
            "completion_tokens_details": {"reasoning_tokens": 7}}),
        (10, 12, 0, 0, 7),
    );
    // A part that is larger than its whole stands beside it.
    check_usage(json!({"prompt_tokens": 2, "completion_tokens": null, "cached_tokens": 9}), (2, 0, 9, 0, 0));
}

#[test]
fn usage_is_read_from_any_chunk() {
    let with = |mut chunk: serde_json::Value, at: &str| {
        *chunk.pointer_mut(at).unwrap() = json!({"prompt_tokens": 3, "completion_tokens": 2});
        chunk.to_string()
    };
    let chunk = json!({"usage": null, "choices": [{"index": 0, "delta": {}, "usage": null, "finish_reason": "stop"}]});
    for at in ["/usage", "/choices/0/usage"] {
        let frame = with(chunk.clone(), at);
        assert_eq!(read(&[&frame]).end.unwrap().usage.input, 3, "{at}");
    }
}

#[track_caller]
fn check_end(reason: &str, expect: Result<StopReason, ErrorKind>) {
    let frames = [delta(json!({"content": "x"})), finish(reason), DONE.to_owned()];
    let read = read(&frames.each_ref().map(String::as_str));
    match (read.end, expect) {
        (Ok(message), Ok(stop)) => assert_eq!(message.stop_reason, stop, "{reason}"),
        (Err(error), Err(kind)) => {
            assert_eq!(error.kind(), kind, "{reason}");
            let context = error.context().unwrap();
            assert!(format!("{} {:?}", context.message, context.code).contains(reason), "{error}");
        }
        (got, expect) => panic!("{reason}: {got:?}, expected {expect:?}"),
    }
}

/// REQ-043, B-127.
#[test]
fn each_reason_means_one_thing_and_an_unknown_one_is_an_error_that_names_it() {
    check_end("stop", Ok(StopReason::Stop));
    check_end("eos", Ok(StopReason::Stop));
    check_end("length", Ok(StopReason::Length));
    check_end("content_filter", Err(ErrorKind::Api));
    check_end("insufficient_system_resource", Err(ErrorKind::Network));
    // A server that gave the request up.
    check_end("abort", Err(ErrorKind::Network));
    // Gemini behind its own endpoint of this protocol and behind gateways.
    check_end("MALFORMED_FUNCTION_CALL", Err(ErrorKind::Network));
    check_end("malformed_function_call", Err(ErrorKind::Network));
    check_end("function_call_filter: MALFORMED_FUNCTION_CALL", Err(ErrorKind::Network));
    check_end("MALFORMED_RESPONSE", Err(ErrorKind::Network));
    check_end("prohibited_content", Err(ErrorKind::Api));
    check_end("content_filter: PROHIBITED_CONTENT", Err(ErrorKind::Api));
    check_end("chickens", Err(ErrorKind::Api));
}

/// B-120, B-126, D18.
#[test]
fn a_stream_is_complete_with_a_reason_or_the_done_mark_and_not_without() {
    let call =
        delta(json!({"tool_calls": [{"index": 0, "id": "i", "function": {"name": "f", "arguments": "{}"}}]}));
    assert_eq!(read(&[&delta(json!({"content": "x"})), &finish("stop")]).reason, Some(StopReason::Stop));
    assert_eq!(read(&[&delta(json!({"content": "x"})), DONE]).reason, Some(StopReason::Stop));
    assert_eq!(read(&[&call, &finish("stop")]).reason, Some(StopReason::ToolUse));
    let cut = read(&[&call]);
    assert_eq!(cut.end.unwrap_err().kind(), ErrorKind::Network);
    assert_eq!(cut.log.open_calls().len(), 1);
}

/// B-128.
#[test]
fn a_refusal_is_an_error_with_the_explanation() {
    let frames =
        [delta(json!({"refusal": "I can't "})), delta(json!({"refusal": "do that."})), finish("stop")];
    let error = read(&frames.each_ref().map(String::as_str)).end.unwrap_err();
    let context = error.context().unwrap();
    assert_eq!(
        (error.kind(), context.message.as_str(), context.code.as_deref()),
        (ErrorKind::Api, "I can't do that.", Some("refusal"))
    );
}

/// D18.
#[test]
fn an_error_object_in_the_stream_is_an_error_and_a_null_one_is_none() {
    let frame =
        json!({"error": {"message": "overloaded", "type": "server_error"}, "choices": []}).to_string();
    assert_eq!(read(&[&frame]).end.unwrap_err().kind(), ErrorKind::Network);
    let frame =
        json!({"error": null, "choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}).to_string();
    assert_eq!(read(&[&frame]).end.unwrap().text(), "x");
    let mut decoder = decoder();
    let frame = Frame { event: Some("error"), data: "gone" };
    let error = decoder.push(frame, &mut |_| {}).unwrap_err();
    assert_eq!(error.context().unwrap().message, "gone");
}

/// D18. Gateways send the members of the error as the chunk, also behind a finish reason.
#[test]
fn an_error_without_a_wrapper_is_an_error_wherever_it_stands() {
    for (error, kind, says) in [
        (json!({"code": 503, "message": "Service Unavailable"}), ErrorKind::Network, "Service Unavailable"),
        (
            json!({"object": "error", "message": "slow down", "code": 429}),
            ErrorKind::RateLimited,
            "slow down",
        ),
        (json!({"detail": "prompt is too long", "choices": []}), ErrorKind::ContextOverflow, "too long"),
        (json!({"error": {"code": 503}}), ErrorKind::Network, "503"),
        (json!({"error": {"odd": true}, "choices": []}), ErrorKind::Network, "odd"),
    ] {
        let half = delta(json!({"content": "half"}));
        for before in [vec![half.clone()], vec![half, finish("stop")]] {
            let frames: Vec<String> = before.into_iter().chain([error.to_string()]).collect();
            let frames: Vec<&str> = frames.iter().map(String::as_str).chain([DONE]).collect();
            let read = read(&frames);
            let failed = read.end.unwrap_err();
            assert_eq!(failed.kind(), kind, "{error}");
            assert!(failed.to_string().contains(says), "{failed}");
            assert_eq!(read.log.snapshot().text(), "half");
        }
    }
}

#[test]
fn a_chunk_of_no_known_form_is_counted() {
    let known = [
        json!({"choices": [], "prompt_filter_results": []}),
        json!({"usage": {"prompt_tokens": 1}}),
        json!({"error": null, "choices": [{"delta": {"content": "x"}}]}),
    ];
    for (chunk, count) in known.into_iter().map(|c| (c, 0)).chain([
        (json!({}), 1),
        (json!({"x_provider": {"queue": 3}}), 1),
        (json!({"choices": null, "message": ""}), 1),
    ]) {
        let read = read(&[&chunk.to_string(), &finish("stop")]);
        assert_eq!(read.log.unrecognised(), count, "{chunk}");
        assert!(read.end.is_ok(), "{chunk}");
    }
}

/// B-146.
#[test]
fn an_emoji_cut_in_two_is_joined() {
    let frames = [
        r#"{"choices":[{"delta":{"content":"a\ud83c"}}]}"#,
        r#"{"choices":[{"delta":{"content":"\udf89"}}]}"#,
        DONE,
    ];
    assert_eq!(read(&frames).end.unwrap().text(), "a🎉");
}

#[test]
fn only_the_first_of_several_choices_is_read() {
    let frame = json!({"choices": [
        {"index": 1, "delta": {"content": "other"}, "finish_reason": "length"},
        {"index": 0, "delta": {"content": "mine"}, "finish_reason": "stop"}]});
    assert_eq!(read(&[&frame.to_string()]).end.unwrap().text(), "mine");
}

#[test]
fn signed_reasoning_details_are_kept_whole_for_the_same_model() {
    let frames = [
        delta(
            json!({"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0, "signature": null}]}),
        ),
        delta(
            json!({"reasoning_details": [{"type": "reasoning.text", "text": "b", "index": 0, "signature": "s"}]}),
        ),
        delta(json!({"content": "x"})),
        finish("stop"),
    ];
    let message = read(&frames.each_ref().map(String::as_str)).end.unwrap();
    let expect = json!([{"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s"}]);
    assert_eq!(message.content.last(), Some(&Content::opaque("reasoning_details", expect)));
}

#[test]
fn a_signature_of_a_call_is_kept() {
    let call = json!([{"index": 0, "id": "i", "function": {"name": "f", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "sig"}}}]);
    let frames = [delta(json!({"tool_calls": call})), finish("tool_calls")];
    let message = read(&frames.each_ref().map(String::as_str)).end.unwrap();
    assert_eq!(message.tool_calls().next().unwrap().signature.as_deref(), Some("sig"));
}

fn recorded() -> String {
    let frames = [
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning": "thinking — über"})),
        delta(json!({"content": "Grüße 🎉"})),
        r#"{"choices":[{"delta":{"content":"\ud83c"}}]}"#.to_owned(),
        r#"{"choices":[{"delta":{"content":"\udf89"}}]}"#.to_owned(),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "i", "function": {"name": "f", "arguments": "{\"a\":"}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"é\"}"}}]})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}).to_string(),
    ];
    let mut out: String = frames.iter().map(|f| format!("data: {f}\r\n\r\n")).collect();
    out.push_str("data: [DONE]\n\n");
    out
}

fn stream(pieces: &[&[u8]]) -> (Vec<OwnedStreamEvent>, Result<Completion, String>) {
    let (mut framer, mut decoder, mut events) = (SseDecoder::new(1 << 20), decoder(), Vec::new());
    let mut sink = |event: StreamEvent<'_>| events.push(OwnedStreamEvent::from(event));
    let mut reader = |frame: Frame<'_>| decoder.push(frame, &mut sink);
    for piece in pieces {
        if framer.feed(piece, &mut reader).is_err() {
            return (events, Err("refused".into()));
        }
    }
    let _ = framer.end(&mut reader);
    let end = decoder.finish(&mut sink).map_err(|e| e.to_string());
    (events, end)
}

proptest! {
    /// B-121.
    #[test]
    fn any_split_gives_the_same_events(cuts in prop::collection::vec(0.0_f64..1.0, 0..12)) {
        let recorded = recorded();
        let bytes = recorded.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|c| (c * bytes.len() as f64) as usize).collect();
        at.sort_unstable();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for to in at.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[from..to]);
            from = to;
        }
        let whole = stream(&[bytes]);
        prop_assert!(whole.1.is_ok());
        prop_assert_eq!(stream(&pieces), whole);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), json in "[\\[\\]{}\":,a-z0-9\\\\u]{0,60}") {
        let _ = stream(&[&bytes]);
        let _ = stream(&[format!("data: {{\"choices\":{json}\n\n").as_bytes(), &bytes]);
    }

    #[test]
    fn a_stream_changed_in_one_byte_is_survived(at in 0.0_f64..1.0, byte: u8) {
        let mut bytes = recorded().into_bytes();
        let at = (at * bytes.len() as f64) as usize;
        bytes[at] = byte;
        let _ = stream(&[&bytes]);
    }
}

/// A reasoning detail as OpenRouter sends it. Its signature makes the details a block of the reply.
fn detail(index: i32, text: &str) -> serde_json::Value {
    json!({"type": "reasoning.text", "text": text, "signature": "s", "index": index})
}

/// Deltas of every usual kind, with text that needs escapes and text that does not.
fn any_delta() -> impl Strategy<Value = serde_json::Value> {
    let text = r#"[a-z"\\\n é🎉]{0,6}"#;
    prop_oneof![
        4 => text.prop_map(|t| json!({ "content": t })),
        2 => text.prop_map(|t| json!({ "content": null, "reasoning_content": t })),
        1 => text.prop_map(|t| json!({ "reasoning": t })),
        1 => (text, text).prop_map(|(a, b)| json!({ "content": a, "reasoning": b })),
        1 => text.prop_map(|t| json!({ "refusal": "", "content": t })),
        1 => (0..2, text).prop_map(|(i, t)| json!({"tool_calls": [{"index": i, "id": format!("c{i}"), "function": {"name": "f", "arguments": t}}]})),
        4 => (0..2, text).prop_map(|(i, t)| json!({"tool_calls": [{"index": i, "function": {"arguments": t}}]})),
        1 => text.prop_map(|t| json!({ "content": t, "text": t })),
        1 => (text, text).prop_map(|(a, b)| json!({ "content": a, "text": b })),
        4 => (0..2, text).prop_map(|(i, t)| json!({ "reasoning": t, "reasoning_details": [detail(i, &t)] })),
        1 => (0..2, text, text).prop_map(|(i, a, b)| json!({ "reasoning": a, "reasoning_details": [detail(i, &b)] })),
        1 => (0..2, text).prop_map(|(i, t)| json!({"reasoning_details": [detail(i, &t), {"type": "e", "data": "x"}]})),
    ]
}

/// The events of a reply whose chunks hold these deltas; `around` writes chunk `n` around its choice.
fn events_of(deltas: &[serde_json::Value], around: impl Fn(usize, serde_json::Value) -> String) -> Read {
    let choice = |delta: &serde_json::Value| json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    let mut frames: Vec<String> =
        deltas.iter().enumerate().map(|(n, delta)| around(n, choice(delta))).collect();
    frames.push(finish("stop"));
    read(&frames.iter().map(String::as_str).collect::<Vec<_>>())
}

proptest! {
    /// A number that this crate does not know and that differs in every chunk keeps any chunk from fitting the shape of
    /// an earlier one, so all of them are read by serde.
    #[test]
    fn a_chunk_is_read_the_same_whether_it_is_like_the_one_before_or_not(
        deltas in prop::collection::vec(any_delta(), 0..24),
    ) {
        let by_serde = events_of(&deltas, |n, c| json!({"id": "r", "n": n, "choices": c}).to_string());
        let alike = [
            events_of(&deltas, |_, c| json!({"id": "r", "choices": c}).to_string()),
            events_of(&deltas, |n, c| json!({"id": "r", "created": n, "choices": c}).to_string()),
            events_of(&deltas, |n, c| format!(r#"{{"choices":{c},"id":"r","created": {n}.5{:n$}}}"#, "")),
            events_of(&deltas, |n, c| {
                let list = vec![json!({"bytes": vec![n; n % 3]}); n % 4];
                json!({"id": "r", "choices": c, "logprobs": list, "obfuscation": "x".repeat(n)}).to_string()
            }),
        ];
        for read in alike {
            prop_assert_eq!(&read.events, &by_serde.events);
        }
    }
}

#[test]
fn a_reply_ends_for_its_own_reason_and_not_for_that_of_an_earlier_one() {
    let ends = |id: &str, reason: &str| {
        let said =
            json!({"id": id, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": null}]});
        let last = json!({"id": id, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        read(&[&said.to_string(), &last.to_string()]).reason
    };
    for _ in 0..3 {
        assert_eq!(ends("1", "stop"), Some(StopReason::Stop));
        assert_eq!(ends("2", "length"), Some(StopReason::Length));
        assert_eq!(ends("3", "content_filter"), None, "it is withheld");
        assert_eq!(ends("4", ""), None, "no reason is given");
        assert_eq!(ends("5", "some other"), None, "it is not known");
    }
}

#[test]
fn sources_belong_to_the_last_text() {
    let said = |frames: &[Value]| {
        let frames: Vec<String> = frames.iter().map(Value::to_string).collect();
        read(&frames.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let page = json!({"type": "url_citation", "url_citation": {"url": "https://a", "title": "A", "start_index": 0, "end_index": 2}});
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let annotated = said(&[
        delta(json!({"content": "So", "annotations": [page]})),
        delta(json!({"content": " it is.", "annotations": [page]})),
        end.clone(),
    ]);
    let sources = |read: &Read| match &read.log.content()[..] {
        [Content::Text(text)] => text.citations.clone(),
        other => panic!("{other:?}"),
    };
    let found = sources(&annotated);
    assert_eq!(found.len(), 1, "a repeated one is one");
    assert_eq!(found[0].data, page);
    assert_eq!(found[0].cited_part("So it is."), Some("So"));

    // Perplexity repeats the pages in each chunk.
    let searched = |text: &str| {
        json!({"choices": [{"index": 0, "delta": {"content": text}}], "citations": ["https://a", "https://b"],
            "search_results": [{"title": "A", "url": "https://a", "date": "2026-01-01"}]})
    };
    let found = sources(&said(&[searched("So"), searched(" it is."), end.clone()]));
    assert_eq!((found.len(), found[0].title.as_deref()), (1, Some("A")));
    let mut bare = searched("So");
    bare.as_object_mut().unwrap().remove("search_results");
    let found = sources(&said(&[bare, end]));
    assert_eq!(found[1].source, CitationSource::Url { url: "https://b".into() });
}
