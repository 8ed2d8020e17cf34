//! What the vendor documents.

use super::*;

/// REQ-122, REQ-131.
#[test]
fn reasoning_text_and_calls_become_blocks_with_usage_from_after_the_end() {
    let frames = around(
        vec![
            delta(0, json!({"reasoningContent": {"text": "Let me "}})),
            delta(0, json!({"reasoningContent": {"text": "see."}})),
            delta(0, json!({"reasoningContent": {"signature": "c2ln"}})),
            end(0),
            delta(1, json!({"text": "I look"})),
            delta(1, json!({"text": " it up."})),
            end(1),
            begin(2, json!({"toolUse": {"toolUseId": "tooluse_1", "name": "look"}})),
            delta(2, json!({"toolUse": {"input": "{\"at\":"}})),
            delta(2, json!({"toolUse": {"input": " \"sea\"}"}})),
            end(2),
            begin(3, json!({"toolUse": {"toolUseId": "tooluse_2", "name": "clock"}})),
            end(3),
        ],
        "tool_use",
    );
    let read = read(&frames);
    let completion = read.end.unwrap();
    assert_eq!(completion.stop_reason, StopReason::ToolUse);
    assert_eq!(completion.vendor_reason.as_deref(), Some("tool_use"));
    let content = read.log.content();
    assert_eq!(content[0], Content::thinking("Let me see.", Some("c2ln".into())));
    assert_eq!(content[1], Content::text("I look it up."));
    let calls: Vec<_> = content.iter().filter_map(Content::as_tool_call).collect();
    assert_eq!((calls[0].id.as_str(), calls[0].arguments.text()), ("tooluse_1", "{\"at\": \"sea\"}"));
    assert_eq!((calls[1].name.as_str(), calls[1].arguments.is_object()), ("clock", true));
    let usage = read.log.usage();
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (11, 7, 3, 2));
    assert_eq!(read.log.unrecognised(), 0);
}

/// B-115.
#[test]
fn blocks_are_numbered_by_us_and_each_ends() {
    let frames = around(
        vec![delta(4, json!({"text": "a"})), end(4), delta(9, json!({"text": "b"})), end(9)],
        "end_turn",
    );
    let shown: Vec<Event> =
        read(&frames).events.into_iter().filter(|e| !matches!(e, Event::Usage { .. })).collect();
    let text = |index, delta: &str| {
        [
            Event::TextStart { index },
            Event::TextDelta { index, delta: delta.to_owned() },
            Event::BlockEnd { index },
        ]
    };
    assert_eq!(shown[1..], [text(0, "a"), text(1, "b")].concat());
}

/// B-129.
#[test]
fn reasoning_that_was_withheld_is_kept_as_it_came() {
    let frames = around(
        vec![
            delta(0, json!({"reasoningContent": {"redactedContent": "QUFB"}})),
            delta(0, json!({"reasoningContent": {"redactedContent": "QkJC"}})),
            end(0),
            delta(1, json!({"text": "Hi"})),
            end(1),
        ],
        "end_turn",
    );
    let read = read(&frames);
    assert_eq!(
        read.log.content(),
        [Content::redacted_thinking("QUFB"), Content::redacted_thinking("QkJC"), Content::text("Hi")]
    );
}

/// The known fault of the vendor's own decoders: one new member beside a known one, and the stream is lost.
#[test]
fn a_new_member_beside_a_known_one_does_no_harm() {
    let frames = around(
        vec![
            delta(0, json!({"text": "a", "ofNextYear": {"x": 1}})),
            delta(0, json!({"ofNextYear": [1], "text": "b"})),
            event("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": "c"}, "new": true})),
            delta(0, json!({"text": "d", "reasoningContent": null, "toolUse": null})),
            end(0),
            begin(1, json!({"toolUse": {"toolUseId": "t", "name": "n", "new": {}}, "ofNextYear": {"y": 2}})),
            delta(1, json!({"toolUse": {"input": "{}", "new": 1}, "ofNextYear": 7})),
            end(1),
        ],
        "tool_use",
    );
    let read = read(&frames);
    assert!(read.end.is_ok());
    assert_eq!(read.log.snapshot().text(), "abcd");
    assert_eq!(read.log.content().len(), 2);
}

#[test]
fn new_events_and_new_deltas_are_counted_and_the_reply_goes_on() {
    let frames = around(
        vec![
            event("ofNextYear", json!({"x": 1})),
            delta(0, json!({"text": "a"})),
            delta(0, json!({"citation": {"title": "t"}})),
            delta(0, json!({})),
            delta(5, json!({"toolUse": {"input": "{"}})),
            end(77),
            end(0),
        ],
        "end_turn",
    );
    let read = read(&frames);
    assert!(read.end.is_ok());
    assert_eq!((read.log.unrecognised(), read.log.snapshot().text().as_str()), (4, "a"));
}

/// A tool that the vendor runs, and what it gave.
#[test]
fn blocks_that_are_not_understood_are_gathered_and_carried() {
    let frames = around(
        vec![
            begin(0, json!({"toolUse": {"toolUseId": "s1", "name": "calc", "type": "server_tool_use"}})),
            delta(0, json!({"toolUse": {"input": "{\"of\":"}})),
            delta(0, json!({"toolUse": {"input": " [2, 3]}"}})),
            end(0),
            begin(1, json!({"toolResult": {"toolUseId": "s1", "type": "calc_result", "status": "success"}})),
            delta(1, json!({"toolResult": [{"json": {"sum": 5}}]})),
            delta(1, json!({"toolResult": [{"text": "five"}]})),
            end(1),
            begin(2, json!({"image": {"format": "png"}})),
            delta(2, json!({"image": {"source": {"bytes": "QUJD"}}})),
            end(2),
            delta(3, json!({"text": "Five."})),
            end(3),
        ],
        "end_turn",
    );
    let read = read(&frames);
    assert_eq!(
        read.log.content(),
        [
            Content::opaque(
                "toolUse",
                json!({"toolUse": {"toolUseId": "s1", "name": "calc", "type": "server_tool_use", "input": {"of": [2, 3]}}})
            ),
            Content::opaque(
                "toolResult",
                json!({"toolResult": {"toolUseId": "s1", "type": "calc_result", "status": "success",
                    "content": [{"json": {"sum": 5}}, {"text": "five"}]}})
            ),
            Content::opaque("image", json!({"image": {"format": "png", "source": {"bytes": "QUJD"}}})),
            Content::text("Five."),
        ]
    );
    assert_eq!(read.log.unrecognised(), 0);
}

#[test]
fn a_tool_that_carries_the_answer_is_shown_as_text() {
    let mut asked = request();
    asked.options.response_format = ResponseFormat::JsonObject;
    let frames = around(
        vec![
            begin(0, json!({"toolUse": {"toolUseId": "t", "name": "respond_json"}})),
            delta(0, json!({"toolUse": {"input": "{\"a\":"}})),
            delta(0, json!({"toolUse": {"input": "1}"}})),
            end(0),
        ],
        "tool_use",
    );
    let read = read_as(&asked, &frames);
    assert_eq!(read.log.snapshot().text(), "{\"a\":1}");
    let message = read.log.finish("p", "m", &read.end.unwrap());
    assert_eq!((message.tool_calls().count(), message.stop_reason), (0, StopReason::Stop));
}

#[track_caller]
fn check_stop(reason: &str, expect: Result<StopReason, ErrorKind>) {
    let read = read(&around(vec![delta(0, json!({"text": "a"})), end(0)], reason));
    let found = read.end.map(|c| c.stop_reason).map_err(|e| e.kind());
    assert_eq!(found, expect, "{reason}");
    assert_eq!(read.log.snapshot().text(), "a");
}

/// REQ-043, B-127, B-128.
#[test]
fn stop_reasons_become_ours() {
    check_stop("end_turn", Ok(StopReason::Stop));
    check_stop("stop_sequence", Ok(StopReason::Stop));
    check_stop("max_tokens", Ok(StopReason::Length));
    check_stop("model_context_window_exceeded", Ok(StopReason::Length));
    check_stop("guardrail_intervened", Err(ErrorKind::Api));
    check_stop("content_filtered", Err(ErrorKind::Api));
    check_stop("malformed_model_output", Err(ErrorKind::Network));
    check_stop("malformed_tool_use", Err(ErrorKind::Network));
    check_stop("of_next_year", Err(ErrorKind::Api));
    check_stop("", Err(ErrorKind::Network));
}

#[test]
fn a_window_that_was_full_before_the_reply_is_an_overflow() {
    let error = read(&around(vec![], "model_context_window_exceeded")).end.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContextOverflow);
}

#[test]
fn a_guardrail_says_why() {
    let mut frames = around(vec![delta(0, json!({"text": "Blocked."}))], "guardrail_intervened");
    frames.pop();
    frames.push(event("metadata", json!({"trace": {"guardrail": {"actionReason": "Guardrail blocked."}}})));
    let error = read(&frames).end.unwrap_err();
    assert!(error.to_string().contains("(guardrail_intervened): Guardrail blocked."), "{error}");
}

#[test]
fn the_stop_sequence_that_was_hit_is_named_where_the_model_says_it() {
    let fields =
        json!({"stopReason": "stop_sequence", "additionalModelResponseFields": {"stop_sequence": "END"}});
    let frames = vec![delta(0, json!({"text": "a"})), event("messageStop", fields), tokens()];
    assert_eq!(read(&frames).end.unwrap().stop_sequence.as_deref(), Some("END"));
}

/// B-120.
#[test]
fn a_stream_without_its_end_is_a_retryable_error_and_keeps_what_came() {
    let read = read(&vec![delta(0, json!({"text": "half"})), end(0)]);
    let error = read.end.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("messageStop"), "{error}");
    assert_eq!(read.log.snapshot().text(), "half");
}

/// B-117.
#[test]
fn after_the_end_only_the_tokens_count() {
    let mut frames =
        vec![delta(0, json!({"text": "a"})), stop("end_turn"), delta(0, json!({"text": "late"}))];
    let bare = read(&frames);
    assert_eq!((bare.log.snapshot().text().as_str(), bare.log.usage().input), ("a", 0));
    assert!(bare.end.is_ok());
    frames.extend([tokens(), stop("max_tokens")]);
    let read = read(&frames);
    assert_eq!((read.log.usage().input, read.end.unwrap().stop_reason), (11, StopReason::Stop));
}

#[test]
fn half_an_emoji_waits_for_its_other_half() {
    let raw = |text: &str| {
        let data = format!("{{\"contentBlockIndex\":0,\"delta\":{{\"text\":\"{text}\"}}}}");
        (Some("contentBlockDelta"), data)
    };
    let frames = around(vec![raw("a\\ud83c"), raw("\\udf89b"), end(0)], "end_turn");
    assert_eq!(read(&frames).log.snapshot().text(), "a🎉b");
}
