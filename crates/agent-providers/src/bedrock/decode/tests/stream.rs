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
            delta(0, json!({"film": {"title": "t"}})),
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
    // A complete reply whose reason is missing.
    check_stop("", Ok(StopReason::Stop));
    assert_eq!(read(&around(vec![], "")).end.unwrap_err().kind(), ErrorKind::Network, "nothing was said");
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

/// The service copies what the model's own API sent, which may be anything.
#[test]
fn additional_fields_and_traces_of_any_form_do_not_lose_the_reply() {
    for (fields, sequence) in [
        (json!({"stop_sequence": "END"}), Some("END")),
        (json!("{\"stop_sequence\":\"END\"}"), Some("END")),
        (json!("END"), None),
        (json!(["x"]), None),
        (json!(3), None),
        (json!(true), None),
        (json!({"stop_sequence": {"odd": 1}}), None),
        (json!(null), None),
    ] {
        let stop = json!({"stopReason": "stop_sequence", "additionalModelResponseFields": fields});
        let tokens = json!({"usage": {"inputTokens": 1, "outputTokens": 2}, "trace": fields});
        let read = read(&vec![
            delta(0, json!({"text": "x"})),
            event("messageStop", stop.clone()),
            event("metadata", tokens),
        ]);
        let end = read.end.unwrap();
        assert_eq!((end.stop_reason, end.stop_sequence.as_deref()), (StopReason::Stop, sequence), "{fields}");
        assert_eq!(read.log.usage().output, 2, "{fields}");
        let mut whole = stop;
        whole["output"] = json!({"message": {"content": [{"text": "x"}]}});
        whole["trace"] = json!("none");
        let (mut log, mut decoder) = (ReplyLog::new(), Decoder::new(&request()));
        decoder.whole(&whole.to_string(), &mut |event| log.push(&event)).unwrap();
        let end = decoder.finish(&mut |event| log.push(&event)).unwrap();
        assert_eq!(end.stop_sequence.as_deref(), sequence, "{fields}");
        assert_eq!(log.snapshot().text(), "x");
    }
}

/// The tokens are the last event, in whichever order it and the stop reason come.
#[test]
fn a_stream_is_done_with_its_stop_reason_and_its_tokens_and_not_with_one_of_them() {
    let stop = event("messageStop", json!({"stopReason": "end_turn"}));
    let tokens = event("metadata", json!({"usage": {"inputTokens": 1, "outputTokens": 2}}));
    let performance = event("metadata", json!({"metrics": {"latencyMs": 3}}));
    for frames in [[&stop, &tokens], [&tokens, &stop]] {
        let mut decoder = Decoder::new(&request());
        let flows =
            frames.map(|(name, data)| decoder.push(Frame { event: *name, data }, &mut |_| {}).unwrap());
        assert_eq!(flows, [Flow::More, Flow::Done]);
        assert!(!decoder.is_complete());
    }
    let mut decoder = Decoder::new(&request());
    let flows = [&stop, &performance, &tokens]
        .map(|(name, data)| decoder.push(Frame { event: *name, data }, &mut |_| {}).unwrap());
    assert_eq!(flows, [Flow::More, Flow::More, Flow::Done], "metadata without tokens is not the last");
}

#[test]
fn citations_belong_to_the_text_of_their_block() {
    let cited = json!({"title": "T", "sourceContent": [{"text": "so"}], "location": {"documentPage": {"documentIndex": 0, "start": 1, "end": 2}}});
    let frames = around(
        vec![
            delta(0, json!({"text": "First. "})),
            end(0),
            delta(1, json!({"text": "It "})),
            delta(1, json!({"text": "is so."})),
            delta(1, json!({"citation": cited})),
            end(1),
            delta(2, json!({"citation": cited})),
            delta(2, json!({"text": "More."})),
            end(2),
        ],
        "end_turn",
    );
    let read = read(&frames);
    let content = read.log.content();
    let texts: Vec<_> =
        content.iter().filter_map(|c| if let Content::Text(t) = c { Some(t) } else { None }).collect();
    assert_eq!(texts.iter().map(|t| t.citations.len()).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(texts[1].text, "It is so.");
    assert_eq!(texts[2].text, "More.");
    assert_eq!(texts[1].citations[0].data, cited);
    assert_eq!(texts[1].citations[0].cited_text.as_deref(), Some("so"));
    assert_eq!(read.log.unrecognised(), 0);
}

#[test]
fn written_tokens_are_counted_by_their_lifetime() {
    let usage = |details: Value| {
        let usage = json!({"inputTokens": 5, "outputTokens": 7, "cacheWriteInputTokens": 100, "cacheDetails": details});
        let frames = vec![
            event("messageStart", json!({"role": "assistant"})),
            delta(0, json!({"text": "x"})),
            end(0),
            stop("end_turn"),
            event("metadata", json!({"usage": usage})),
        ];
        let read = read(&frames);
        let usage = read.log.usage();
        assert_eq!((usage.cache_write, usage.total_tokens), (100, 112));
        (usage.cache_write_long, read.log.unrecognised())
    };
    let detail = |ttl: &str, tokens: Value| json!({"ttl": ttl, "inputTokens": tokens});
    assert_eq!(usage(json!([detail("1h", json!(60)), detail("5m", json!(40))])), (60, 0));
    assert_eq!(usage(json!([detail("5m", json!(100))])), (0, 0));
    assert_eq!(usage(json!([detail("1h", json!(5_000))])), (100, 0));
    assert_eq!(usage(json!([])), (0, 0));
    assert_eq!(usage(json!(null)), (0, 0));
    assert_eq!(usage(json!("many")), (0, 1));
}

#[test]
fn a_call_that_a_limit_cut_has_no_end_and_whole_calls_decide() {
    let half = || {
        vec![
            begin(0, json!({"toolUse": {"toolUseId": "t", "name": "f"}})),
            delta(0, json!({"toolUse": {"input": "{\"a"}})),
        ]
    };
    let cut = read(&around(half(), "max_tokens"));
    assert_eq!((cut.log.open_calls().len(), cut.end.unwrap().stop_reason), (1, StopReason::Length));
    let whole = |reason: &str| read(&around([half(), vec![end(0)]].concat(), reason)).end;
    assert_eq!(whole("chickens").unwrap().stop_reason, StopReason::ToolUse);
    assert_eq!(whole("guardrail_intervened").unwrap_err().kind(), ErrorKind::Api);
    assert_eq!(read(&around(half(), "chickens")).end.unwrap_err().kind(), ErrorKind::Api);
}
