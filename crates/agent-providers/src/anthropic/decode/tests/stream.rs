use agent_core::{CitationSource, Content, StopReason};
use proptest::prelude::*;

use super::*;

#[test]
fn a_text_is_a_start_its_pieces_and_an_end() {
    let frames = around(
        &[
            begin(0, json!({"type": "text", "text": ""})),
            r#"{"type": "ping"}"#.to_owned(),
            delta(0, json!({"type": "text_delta", "text": "Hel"})),
            delta(0, json!({"type": "text_delta", "text": "lo \"you\""})),
            end(0),
        ],
        "end_turn",
    );
    let read = read(&refs(&frames));
    let text = |delta: &str| Event::TextDelta { index: 0, delta: delta.into() };
    assert_eq!(
        read.shown(),
        [
            &Event::Start { response_id: Some("msg_1".into()), model: None },
            &Event::TextStart { index: 0 },
            &text("Hel"),
            &text("lo \"you\""),
            &Event::BlockEnd { index: 0 },
        ]
    );
    let completion = read.end.unwrap();
    assert_eq!(completion.stop_reason, StopReason::Stop);
    assert_eq!(completion.vendor_reason.as_deref(), Some("end_turn"));
}

/// B-122, REQ-128.
#[test]
fn tokens_that_the_last_event_leaves_out_stay_as_the_first_said() {
    let last = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":null,"output_tokens":20,"output_tokens_details":{"thinking_tokens":5}}}"#;
    let usage = read(&[START, last, STOP]).log.usage();
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (10, 20, 4, 3));
    assert_eq!((usage.reasoning, usage.total_tokens), (5, 37));
}

/// REQ-160.
#[test]
fn a_call_in_five_fragments_has_one_complete_object_of_arguments() {
    let pieces = ["{\"ci", "ty\": \"Os", "lo\", \"da", "ys\": [1, ", "2]}"];
    let mut frames =
        vec![begin(0, json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}))];
    frames.push(delta(0, json!({"type": "input_json_delta", "partial_json": ""})));
    frames.extend(pieces.map(|p| delta(0, json!({"type": "input_json_delta", "partial_json": p}))));
    frames.push(end(0));
    let read = read(&refs(&around(&frames, "tool_use")));
    let content = read.log.content();
    let call = content[0].as_tool_call().unwrap();
    assert_eq!((call.id.as_str(), call.name.as_str()), ("toolu_1", "weather"));
    assert_eq!(call.arguments.text(), pieces.concat());
    assert_eq!(call.arguments.value().unwrap(), &json!({"city": "Oslo", "days": [1, 2]}));
    assert_eq!(read.end.unwrap().stop_reason, StopReason::ToolUse);
    let deltas = read.events.iter().filter(|e| matches!(e, Event::ToolCallDelta { .. })).count();
    assert_eq!(deltas, 5);
}

/// B-123. Each fragment is passed on once and as it came, so the work of the decoder is linear in the fragments; that of
/// the log is counted where the log is tested.
#[test]
fn ten_thousand_fragments_of_arguments_are_each_passed_on_once() {
    let fragments: Vec<String> = (0..10_000).map(|n| format!("{n},")).collect();
    let whole = format!("{{\"list\": [{}0]}}", fragments.concat());
    let opening = delta(0, json!({"type": "input_json_delta", "partial_json": "{\"list\": ["}));
    let closing = delta(0, json!({"type": "input_json_delta", "partial_json": "0]}"}));
    let mut frames =
        vec![begin(0, json!({"type": "tool_use", "id": "t", "name": "n", "input": {}})), opening];
    frames.extend(fragments.iter().map(|f| delta(0, json!({"type": "input_json_delta", "partial_json": f}))));
    frames.extend([closing, end(0)]);
    let read = read(&refs(&around(&frames, "tool_use")));
    let passed: Vec<&str> = read
        .events
        .iter()
        .filter_map(|e| match e {
            Event::ToolCallDelta { delta, .. } => Some(delta.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(passed.len(), fragments.len() + 2);
    assert_eq!(passed.concat(), whole, "no fragment is passed on with those before it");
    let content = read.log.content();
    let call = content[0].as_tool_call().unwrap();
    assert_eq!(call.arguments.value().unwrap()["list"].as_array().unwrap().len(), 10_001);
}

#[test]
fn arguments_that_come_with_the_start_count_unless_pieces_follow() {
    let start = |input: Value| begin(0, json!({"type": "tool_use", "id": "t", "name": "n", "input": input}));
    let at_once = read(&refs(&around(&[start(json!({"a": 1})), end(0)], "tool_use")));
    assert_eq!(at_once.log.content()[0].as_tool_call().unwrap().arguments.text(), r#"{"a":1}"#);
    let piece = delta(0, json!({"type": "input_json_delta", "partial_json": "{\"a\":2}"}));
    let both = read(&refs(&around(&[start(json!({"a": 1})), piece, end(0)], "tool_use")));
    assert_eq!(both.log.content()[0].as_tool_call().unwrap().arguments.text(), r#"{"a":2}"#);
    let none = read(&refs(&around(&[start(json!({})), end(0)], "tool_use")));
    assert_eq!(none.log.content()[0].as_tool_call().unwrap().arguments.value().unwrap(), &json!({}));
}

/// REQ-131, B-129.
#[test]
fn thinking_and_its_signature_and_what_was_withheld_are_kept() {
    let frames = around(
        &[
            begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm, "})),
            delta(0, json!({"type": "thinking_delta", "thinking": "yes"})),
            delta(0, json!({"type": "signature_delta", "signature": "sig"})),
            end(0),
            begin(1, json!({"type": "redacted_thinking", "data": "cipher=="})),
            end(1),
            begin(2, json!({"type": "thinking", "thinking": "", "signature": "only"})),
            end(2),
        ],
        "end_turn",
    );
    let read = read(&refs(&frames));
    assert_eq!(
        read.log.content(),
        [
            Content::thinking("hm, yes", Some("sig".into())),
            Content::redacted_thinking("cipher=="),
            Content::thinking("", Some("only".into())),
        ]
    );
}

#[test]
fn a_block_that_nobody_knows_is_gathered_whole_and_in_its_order() {
    let frames = around(
        &[
            begin(0, json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})),
            delta(0, json!({"type": "input_json_delta", "partial_json": "{\"z\": 1, "})),
            delta(0, json!({"type": "input_json_delta", "partial_json": "\"a\": 2.5}"})),
            end(0),
            begin(
                1,
                json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}),
            ),
            end(1),
            begin(2, json!({"type": "compaction", "content": null})),
            delta(2, json!({"type": "compaction_delta", "content": "So ", "encrypted_content": "e"})),
            delta(2, json!({"type": "compaction_delta", "content": "far", "encrypted_content": null})),
            end(2),
            begin(3, json!({"type": "of_next_year", "text": "a", "citations": []})),
            delta(3, json!({"type": "text_delta", "text": "b"})),
            delta(3, json!({"type": "citations_delta", "citation": {"n": 1}})),
            end(3),
        ],
        "end_turn",
    );
    let read = read(&refs(&frames));
    let blocks: Vec<String> = read
        .log
        .content()
        .iter()
        .map(|c| match c {
            Content::Opaque(o) => {
                assert_eq!(o.data["type"], o.kind);
                o.data.to_string()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        blocks,
        [
            r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{"z":1,"a":2.5}}"#,
            r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"url":"u"}]}"#,
            r#"{"type":"compaction","content":"So far","encrypted_content":"e"}"#,
            r#"{"type":"of_next_year","text":"ab","citations":[{"n":1}]}"#,
        ]
    );
}

/// B-115.
#[test]
fn open_blocks_do_not_mix_and_are_numbered_in_the_order_of_their_starts() {
    let frames = around(
        &[
            begin(5, json!({"type": "text", "text": "a"})),
            begin(2, json!({"type": "tool_use", "id": "t", "name": "n", "input": {}})),
            delta(5, json!({"type": "text_delta", "text": "b"})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{}"})),
            end(2),
            delta(5, json!({"type": "text_delta", "text": "c"})),
        ],
        "tool_use",
    );
    let read = read(&refs(&frames));
    let content = read.log.content();
    assert_eq!(content[0].as_text(), Some("abc"));
    assert_eq!(content[1].as_tool_call().unwrap().arguments.text(), "{}");
    assert_eq!(read.events.last(), Some(&Event::BlockEnd { index: 0 }), "what is open at the end is ended");
}

#[test]
fn the_model_is_named_when_another_one_answers() {
    let start = r#"{"type":"message_start","message":{"id":"m","model":"claude-other"}}"#;
    let read = read(&[start, &stop("end_turn"), STOP]);
    assert_eq!(
        read.events[0],
        Event::Start { response_id: Some("m".into()), model: Some("claude-other".into()) }
    );
}

#[track_caller]
fn check_stop(reason: &str, frames: &[String], expect: Result<StopReason, ErrorKind>) {
    let read = read(&refs(&around(frames, reason)));
    let found = read.end.map(|c| c.stop_reason).map_err(|e| {
        assert!(
            e.to_string().contains(reason) || e.context().unwrap().code.as_deref() == Some(reason),
            "{e}"
        );
        e.kind()
    });
    assert_eq!(found, expect, "{reason}");
}

/// REQ-043, B-127.
#[test]
fn every_stop_reason_means_one_thing_and_an_unknown_one_is_named() {
    let text = [begin(0, json!({"type": "text", "text": "a"})), end(0)];
    for reason in ["end_turn", "stop_sequence", "compaction"] {
        check_stop(reason, &text, Ok(StopReason::Stop));
    }
    check_stop("pause_turn", &text, Ok(StopReason::Paused));
    check_stop("max_tokens", &text, Ok(StopReason::Length));
    check_stop("tool_use", &text, Ok(StopReason::ToolUse));
    check_stop("model_context_window_exceeded", &text, Ok(StopReason::Length));
    check_stop("model_context_window_exceeded", &[], Err(ErrorKind::ContextOverflow));
    check_stop("of_next_year", &text, Err(ErrorKind::Api));
    let silent = read(&[START, STOP]);
    assert_eq!(silent.end.unwrap_err().kind(), ErrorKind::Network);
}

#[test]
fn the_sequence_that_stopped_the_model_is_told() {
    let last = r#"{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"END"}}"#;
    assert_eq!(read(&[START, last, STOP]).end.unwrap().stop_sequence.as_deref(), Some("END"));
}

/// B-128.
#[test]
fn a_refusal_is_an_error_with_the_vendors_explanation() {
    let last = r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"category":"cyber","explanation":"Not that."}}}"#;
    let error = read(&[START, last, STOP]).end.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Api);
    assert!(error.to_string().contains("refused to answer (cyber): Not that."), "{error}");
    assert_eq!(error.context().unwrap().code.as_deref(), Some("refusal"));
}

/// B-120.
#[test]
fn a_stream_that_ends_before_message_stop_is_an_error_that_may_be_retried() {
    let frames = around(&[begin(0, json!({"type": "text", "text": "half"}))], "end_turn");
    for cut in 0..frames.len() {
        let read = read(&refs(&frames[..cut]));
        let error = read.end.unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("message_stop"), "{cut}: {error}");
    }
    assert!(read(&refs(&frames)).end.is_ok());
}

/// B-117.
#[test]
fn nothing_after_message_stop_is_read() {
    let mut frames = around(&[begin(0, json!({"type": "text", "text": "all"})), end(0)], "end_turn");
    frames.push(r#"{"type":"error","error":{"type":"api_error","message":"late"}}"#.into());
    frames.push("[DONE]".into());
    let read = read(&refs(&frames));
    assert!(read.end.is_ok());
    assert_eq!(read.log.snapshot().text(), "all");
}

#[track_caller]
fn check_error_event(kind: &str, message: &str, expect: ErrorKind) {
    let event = json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
        .to_string();
    let error = read(&[START, &event]).end.unwrap_err();
    assert_eq!(error.kind(), expect, "{kind}");
    assert_eq!(error.context().unwrap().code.as_deref(), Some(kind));
    assert_eq!(error.request_id(), Some("req_1"));
    assert!(error.to_string().contains(message));
}

#[test]
fn an_error_event_is_read_by_the_vendors_type() {
    check_error_event("overloaded_error", "Overloaded", ErrorKind::Network);
    check_error_event("api_error", "Internal server error", ErrorKind::Network);
    check_error_event("timeout_error", "took too long", ErrorKind::Network);
    check_error_event("rate_limit_error", "slow down", ErrorKind::RateLimited);
    check_error_event("invalid_request_error", "bad", ErrorKind::Api);
    check_error_event("invalid_request_error", "prompt is too long: 9 tokens", ErrorKind::ContextOverflow);
    check_error_event("authentication_error", "no", ErrorKind::Auth);
    check_error_event("of_next_year", "what", ErrorKind::Api);
}

/// B-146.
#[test]
fn an_emoji_cut_in_two_is_joined_again_and_a_lone_half_is_replaced() {
    let text = |t: &str| {
        format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{t}"}}}}"#)
    };
    let frames = around(
        &[begin(0, json!({"type": "text", "text": ""})), text("a\\ud83c"), text("\\udf89b"), text("\\udf89")],
        "end_turn",
    );
    let read = read(&refs(&frames));
    assert!(read.end.is_ok());
    assert_eq!(read.log.snapshot().text(), "a\u{1F389}b\u{FFFD}");
}

#[test]
fn the_answer_that_came_through_a_tool_is_shown_as_text() {
    let mut asked = request();
    asked.options.response_format = ResponseFormat::JsonObject;
    let call = |name: &str| begin(0, json!({"type": "tool_use", "id": "t", "name": name, "input": {}}));
    let piece = |p: &str| delta(0, json!({"type": "input_json_delta", "partial_json": p}));
    let frames = around(&[call("respond_json"), piece("{\"a\":"), piece("1}"), end(0)], "tool_use");
    let read = read_as(&asked, &refs(&frames));
    assert_eq!(read.log.content(), [Content::text(r#"{"a":1}"#)]);
    let message = read.log.finish("anthropic", "claude-test", &read.end.unwrap());
    assert_eq!(message.stop_reason, StopReason::Stop);
    let other = around(&[call("read"), piece("{}"), end(0)], "tool_use");
    assert!(read_as(&asked, &refs(&other)).log.content()[0].as_tool_call().is_some());
}

proptest! {
    /// Deltas that differ in one string only are read by their shape; with a number in each, none has the shape of
    /// another.
    #[test]
    fn a_delta_is_read_the_same_whether_it_is_like_the_one_before_or_not(
        kind in 0..4_usize,
        pieces in prop::collection::vec((0..5_usize, r#"[a-z"\\\n é🎉]{0,6}"#), 0..24),
    ) {
        let block = [
            json!({"type": "text", "text": ""}),
            json!({"type": "thinking", "thinking": ""}),
            json!({"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}),
            json!({"type": "server_tool_use", "id": "a", "name": "f", "input": {}}),
        ];
        let deltas = [
            ("text_delta", "text"),
            ("thinking_delta", "thinking"),
            ("input_json_delta", "partial_json"),
            ("signature_delta", "signature"),
            ("citations_delta", "citation"),
        ];
        let events = |make: fn(usize) -> usize| {
            let mut frames = vec![begin(0, block[kind].clone())];
            frames.extend(pieces.iter().enumerate().map(|(n, (which, text))| {
                let (name, member) = deltas[*which];
                let delta = json!({"type": name, member: text});
                json!({"n": make(n), "type": "content_block_delta", "index": 0, "delta": delta}).to_string()
            }));
            frames.push(end(0));
            read(&refs(&around(&frames, "end_turn"))).events
        };
        prop_assert_eq!(events(|_| 0), events(|n| n));
    }
}

/// A server may leave the reason out. What was said is complete, because the end mark came.
#[test]
fn a_complete_reply_without_a_stop_reason_stopped() {
    let text = [
        begin(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "a"})),
        end(0),
    ];
    let frames = [vec![START.to_owned()], text.to_vec(), vec![STOP.to_owned()]].concat();
    let completion = read(&refs(&frames)).end.unwrap();
    assert_eq!((completion.stop_reason, completion.vendor_reason), (StopReason::Stop, None));
    let call = begin(0, json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}));
    let read_call = read(&[START, &call, &end(0), STOP]);
    let message = read_call.log.finish("p", "m", &read_call.end.unwrap());
    assert_eq!(message.stop_reason, StopReason::ToolUse);
    assert!(read(&[START, STOP]).end.unwrap_err().is_retryable(), "nothing was said");
    assert!(
        read(&refs(&frames[..frames.len() - 1])).end.unwrap_err().is_retryable(),
        "the end mark is missing"
    );
}

#[test]
fn an_error_without_a_wrapper_is_an_error() {
    let bare = r#"{"code":429,"message":"slow down"}"#;
    let error = read(&[START, bare, STOP]).end.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RateLimited);
    assert!(error.to_string().contains("slow down"), "{error}");
    let typed = read(&[START, r#"{"type":"error","message":"It broke."}"#]).end.unwrap_err();
    assert!(typed.is_retryable() && typed.to_string().contains("It broke."), "{typed}");
}

#[test]
fn citations_belong_to_their_text_streamed_and_whole() {
    let place = json!({"type": "char_location", "cited_text": "a", "document_index": 0, "document_title": "T",
        "start_char_index": 0, "end_char_index": 1});
    let page = json!({"type": "web_search_result_location", "cited_text": "b", "encrypted_index": "x",
        "url": "https://a", "title": null});
    let frames = around(
        &[
            begin(0, json!({"type": "text", "text": "", "citations": []})),
            delta(0, json!({"type": "citations_delta", "citation": place})),
            delta(0, json!({"type": "text_delta", "text": "So it is."})),
            delta(0, json!({"type": "citations_delta", "citation": page})),
            end(0),
        ],
        "end_turn",
    );
    let streamed = read(&refs(&frames));
    assert_eq!(streamed.log.unrecognised(), 0);
    let [Content::Text(text)] = &streamed.log.content()[..] else { panic!() };
    let data: Vec<_> = text.citations.iter().map(|citation| citation.data.clone()).collect();
    assert_eq!((text.text.as_str(), data), ("So it is.", vec![place.clone(), page.clone()]));
    assert_eq!(text.citations[1].source, CitationSource::Url { url: "https://a".into() });

    let block = json!({"type": "text", "text": "So it is.", "citations": [place, page]});
    let whole = around(&[begin(0, block), end(0)], "end_turn");
    assert_eq!(read(&refs(&whole)).log.content(), streamed.log.content());
}

/// The calls of a stream that ends for this reason: how many, and how many of them without an end.
fn calls_of(frames: &[String], reason: &str) -> Result<(agent_core::StopReason, usize, usize), ErrorKind> {
    let frames = around(frames, reason);
    let read = read(&refs(&frames));
    let open = read.log.open_calls().len();
    let end = read.end.map_err(|error| error.kind())?;
    assert_eq!(end.vendor_reason.as_deref(), Some(reason));
    Ok((end.stop_reason, read.log.content().len(), open))
}

#[test]
fn a_call_that_a_limit_cut_is_not_announced_as_ended() {
    let half = [
        begin(0, json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}})),
        delta(0, json!({"type": "input_json_delta", "partial_json": "{\"a"})),
    ];
    use agent_core::StopReason as S;
    for reason in ["max_tokens", "model_context_window_exceeded"] {
        assert_eq!(calls_of(&half, reason), Ok((S::Length, 1, 1)), "{reason}");
    }
    // A relay that leaves out the ends of blocks.
    assert_eq!(calls_of(&half, "tool_use"), Ok((S::ToolUse, 1, 0)));
    // Whole calls decide about an unknown word, and calls without an end do not.
    let whole = [half.as_slice(), &[end(0)]].concat();
    assert_eq!(calls_of(&whole, "chickens"), Ok((S::ToolUse, 1, 0)));
    assert_eq!(calls_of(&half, "chickens"), Err(ErrorKind::Api));
    assert_eq!(calls_of(&whole, "refusal"), Err(ErrorKind::Api));
}
