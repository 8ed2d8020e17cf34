//! The start and the end of a reply within one body.

use agent_core::{ErrorKind, StopReason};

use super::*;

const SECOND: &str =
    r#"{"type":"message_start","message":{"id":"msg_2","model":"claude-test","usage":{"input_tokens":99}}}"#;

fn text(index: u32, text: &str) -> String {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn stopped(reason: &str, input: u32) -> String {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"input_tokens": input}})
        .to_string()
}

/// The frames of a complete reply with a text and a call.
fn reply() -> Vec<String> {
    vec![
        START.to_owned(),
        begin(0, json!({"type": "text", "text": ""})),
        text(0, "one"),
        end(0),
        begin(1, json!({"type": "tool_use", "id": "toolu_1", "name": "a", "input": {}})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{\"x\":1}"})),
        end(1),
        stopped("tool_use", 11),
        STOP.to_owned(),
    ]
}

#[test]
fn a_second_reply_in_the_same_body_is_an_error_and_the_content_of_the_first_remains() {
    let whole = reply();
    // The second reply begins at any place of the first one, also after its end.
    for place in 1..=whole.len() {
        let mut frames = whole[..place].to_vec();
        frames.push(SECOND.to_owned());
        frames.push(begin(0, json!({"type": "tool_use", "id": "toolu_2", "name": "b", "input": {}})));
        let read = read(&refs(&frames));
        let error = read.end.expect_err("two replies");
        assert_eq!(error.kind(), ErrorKind::Network, "at {place}");
        assert!(error.to_string().contains("a second message_start"), "at {place}: {error}");
        assert_eq!(read.log.response_id().as_deref(), Some("msg_1"), "at {place}");
        assert_eq!(read.log.usage().input, if place > 7 { 11 } else { 10 }, "at {place}");
        let said = if place > 2 { "one" } else { "" };
        assert_eq!(read.log.snapshot().text(), said, "at {place}");
        assert!(read.log.open_calls().iter().all(|c| c.id.as_str() == "toolu_1"), "at {place}");
    }
}

#[test]
fn a_message_start_with_complete_blocks_and_a_stop_reason_is_a_whole_reply() {
    let start = json!({"type": "message_start", "message": {
        "id": "msg_9", "model": "claude-test", "role": "assistant", "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": "rolling"},
            {"type": "tool_use", "id": "toolu_9", "name": "roll", "input": {"player": "two"}},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }});
    let read = read(&[&start.to_string(), STOP]);
    assert_eq!(read.log.snapshot().text(), "rolling");
    let content = read.log.content();
    let calls = content.iter().filter_map(agent_core::Content::as_tool_call);
    let calls: Vec<_> = calls.map(|c| (c.id.to_string(), c.arguments.text().to_owned())).collect();
    assert_eq!(calls, [("toolu_9".to_owned(), r#"{"player":"two"}"#.to_owned())]);
    assert_eq!(read.end.unwrap().stop_reason, StopReason::ToolUse);
}

/// B-117.
#[test]
fn what_comes_after_the_terminal_event_and_is_no_reply_changes_nothing() {
    let frames = [
        START.to_owned(),
        begin(0, json!({"type": "text", "text": ""})),
        text(0, "done"),
        end(0),
        stopped("end_turn", 1),
        STOP.to_owned(),
        text(0, " and more"),
        "[DONE]".to_owned(),
        json!({"type": "error", "error": {"type": "api_error", "message": "late"}}).to_string(),
    ];
    let read = read(&refs(&frames));
    assert_eq!(read.log.snapshot().text(), "done");
    assert_eq!(read.end.unwrap().stop_reason, StopReason::Stop);
}
