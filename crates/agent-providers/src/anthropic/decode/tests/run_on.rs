//! Several replies in one body.

use agent_core::StopReason;

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

#[test]
fn later_replies_are_read_as_the_vendors_sdk_reads_them() {
    let frames = [
        START.to_owned(),
        begin(0, json!({"type": "text", "text": ""})),
        text(0, "one"),
        end(0),
        begin(1, json!({"type": "tool_use", "id": "toolu_1", "name": "a", "input": {}})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{\"x\":1}"})),
        end(1),
        stopped("tool_use", 11),
        STOP.to_owned(),
        SECOND.to_owned(),
        // At this place of the whole list stands a text, so the delta is taken.
        begin(0, json!({"type": "text", "text": ""})),
        text(0, ", two"),
        end(0),
        // And here a call, so a text is passed over.
        begin(1, json!({"type": "text", "text": ""})),
        text(1, ", three"),
        end(1),
        begin(2, json!({"type": "tool_use", "id": "toolu_2", "name": "b", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{}"})),
        end(2),
        stopped("end_turn", 22),
        STOP.to_owned(),
    ];
    let read = read(&refs(&frames));
    let said: String = read.log.content().iter().filter_map(agent_core::Content::as_text).collect();
    assert_eq!(said, "one, two");
    assert_eq!(read.log.response_id().as_deref(), Some("msg_1"));
    assert_eq!(read.log.usage().input, 22);
    assert_eq!(read.log.unrecognised(), 2, "what is passed over is counted");
    let open: Vec<String> = read.log.open_calls().iter().map(|c| c.id.to_string()).collect();
    assert_eq!(open, ["toolu_2"], "a call whose arguments went elsewhere does not end");
    assert_eq!(read.end.unwrap().vendor_reason.as_deref(), Some("end_turn"));
}

#[test]
fn a_reply_is_complete_although_the_one_behind_it_breaks_off() {
    let frames = [START.to_owned(), stopped("end_turn", 1), STOP.to_owned(), SECOND.to_owned()];
    assert_eq!(read(&refs(&frames)).end.unwrap().stop_reason, StopReason::Stop);
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
