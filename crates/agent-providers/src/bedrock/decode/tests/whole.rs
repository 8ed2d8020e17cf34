//! A reply that came as one JSON body (D35).

use super::*;

fn whole(request: &ModelRequest, body: Value) -> Read {
    let (mut events, mut log) = (vec![], ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.push(&event);
        events.push(Event::from(event));
    };
    let mut decoder = Decoder::new(request);
    let end = decoder.whole(&body.to_string(), &mut sink).and_then(|()| decoder.finish(&mut sink));
    Read { events, log, end }
}

#[test]
fn it_gives_the_same_blocks_as_a_stream() {
    let read = whole(
        &request(),
        json!({
            "output": {"message": {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
                {"reasoningContent": {"redactedContent": "QUFB"}},
                {"text": "Look:", "new": 1},
                {"toolUse": {"toolUseId": "s", "name": "calc", "type": "server_tool_use", "input": {"a": 1}}},
                {"toolResult": {"toolUseId": "s", "content": [{"text": "1"}]}},
                {"toolUse": {"toolUseId": "t", "name": "look", "input": {"at": 2.50}}}
            ]}},
            "stopReason": "tool_use",
            "usage": {"inputTokens": 4, "outputTokens": 5, "cacheReadInputTokenCount": 6, "cacheReadInputTokens": 6},
            "metrics": {"latencyMs": 3}
        }),
    );
    assert_eq!(read.end.unwrap().stop_reason, StopReason::ToolUse);
    let content = read.log.content();
    assert_eq!(content[0], Content::thinking("hm", Some("c2ln".into())));
    assert_eq!(content[1], Content::redacted_thinking("QUFB"));
    assert_eq!(content[2], Content::text("Look:"));
    assert!(matches!(&content[3], Content::Opaque(o) if o.data["toolUse"]["input"]["a"] == 1));
    assert!(matches!(&content[4], Content::Opaque(o) if o.kind == "toolResult"));
    assert_eq!(content[5].as_tool_call().unwrap().arguments.text(), "{\"at\":2.5}");
    assert_eq!((read.log.usage().input, read.log.usage().cache_read), (4, 6));
    let ends = read.events.iter().filter(|e| matches!(e, Event::BlockEnd { .. })).count();
    assert_eq!(ends, 6);
}

#[test]
fn a_cited_text_is_a_text_with_its_sources() {
    let cited = json!({"title": "T", "sourceContent": [{"text": "so"}], "location": {"documentChunk": {"documentIndex": 0, "start": 1, "end": 2}}});
    let read = whole(
        &request(),
        json!({"output": {"message": {"content": [
            {"text": "First."},
            {"citationsContent": {"content": [{"text": "It "}, {"text": "is so."}], "citations": [cited]}},
            {"text": "Last."},
        ]}}, "stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1}}),
    );
    let content = read.log.content();
    assert_eq!(
        content.iter().filter_map(Content::as_text).collect::<Vec<_>>(),
        ["First.", "It is so.", "Last."]
    );
    let Content::Text(text) = &content[1] else { panic!("{content:?}") };
    assert_eq!(text.citations.iter().map(|c| &c.data).collect::<Vec<_>>(), [&cited]);
}

#[test]
fn a_body_without_a_reply_is_an_error() {
    let error = |body: Value| whole(&request(), body).end.unwrap_err();
    assert!(error(json!({"output": {}})).is_retryable());
    assert!(error(json!({})).is_retryable());
    let said = error(json!({"message": "Input is too long for requested model."}));
    assert_eq!(said.kind(), ErrorKind::ContextOverflow);
    let named = error(json!({"__type": "com.amazon#ThrottlingException", "message": "slow"}));
    assert_eq!(named.kind(), ErrorKind::RateLimited);
}

#[test]
fn token_counts_that_are_no_numbers_do_not_fail_the_reply() {
    let reply = |usage: Value| {
        let message = json!({"role": "assistant", "content": [{"text": "a"}]});
        whole(&request(), json!({"output": {"message": message}, "stopReason": "end_turn", "usage": usage}))
    };
    for odd in [json!(true), json!([1]), json!({"n": 1}), json!("many"), json!(-1)] {
        let read = reply(json!({"inputTokens": odd, "outputTokens": 3}));
        let usage = read.log.usage();
        assert_eq!((usage.input, usage.output, read.log.unrecognised()), (0, 3, 1), "{odd}");
        assert!(read.end.is_ok());
    }
    for odd in [json!(true), json!("none"), json!([1])] {
        let read = reply(odd);
        assert_eq!((read.log.usage().total_tokens, read.log.unrecognised()), (0, 1));
        assert_eq!(read.log.snapshot().text(), "a");
    }
}
