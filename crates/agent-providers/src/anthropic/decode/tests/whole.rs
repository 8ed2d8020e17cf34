//! An answer that came as one JSON body (D35).

use agent_core::{Content, StopReason};

use super::*;

fn whole(body: &str) -> Read {
    let (mut events, mut log) = (vec![], ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.push(&event);
        events.push(Event::from(event));
    };
    let mut decoder = Decoder::new(&request());
    let end = decoder.whole(body, &mut sink).and_then(|()| decoder.finish(&mut sink));
    Read { events, log, end }
}

#[test]
fn a_whole_body_gives_what_a_stream_of_it_would_give() {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "Hello", "citations": null},
            {"type": "server_tool_use", "id": "s", "name": "x", "input": {"b": 1, "a": 2}},
            {"type": "tool_use", "id": "t", "name": "n", "input": {"b": 1, "a": 2}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": null},
    });
    let read = whole(&body.to_string());
    let content = read.log.content();
    assert_eq!(content[0], Content::thinking("hm", Some("sig".into())));
    assert_eq!(content[1].as_text(), Some("Hello"));
    assert!(matches!(&content[2], Content::Opaque(o) if o.data == body["content"][2]));
    assert_eq!(content[3].as_tool_call().unwrap().arguments.text(), r#"{"b":1,"a":2}"#);
    assert_eq!(read.events.iter().filter(|e| matches!(e, Event::BlockEnd { .. })).count(), 4);
    assert_eq!((read.log.usage().input, read.log.usage().output), (3, 4));
    assert_eq!(read.end.unwrap().stop_reason, StopReason::ToolUse);
}

#[test]
fn a_whole_body_that_is_an_error_or_no_reply_is_an_error() {
    let error = whole(
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_9"}"#,
    );
    let error = error.end.unwrap_err();
    assert_eq!((error.kind(), error.request_id()), (ErrorKind::Network, Some("req_9")));
    assert!(whole("{}").end.is_err());
    assert!(whole("[1]").end.is_err());
    assert!(whole("not JSON").end.is_err());
}

/// B-146.
#[test]
fn half_an_emoji_in_a_whole_body_is_replaced() {
    let body = r#"{"id":"m","content":[{"type":"text","text":"a\ud83cb"}],"stop_reason":"end_turn"}"#;
    assert_eq!(whole(body).log.snapshot().text(), "a\u{FFFD}b");
}
