//! One JSON value a line, from gateways that say so (D15).

use super::*;

fn line(value: Value) -> (Option<&'static str>, String) {
    (None, value.to_string())
}

/// REQ-122.
#[test]
fn events_may_stand_in_lines_under_their_names_or_bare() {
    let named = vec![
        line(json!({"messageStart": {"role": "assistant"}})),
        line(json!({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi"}}})),
        line(json!({"contentBlockStop": {"contentBlockIndex": 0}})),
        line(
            json!({"contentBlockStart": {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t", "name": "n"}}}}),
        ),
        line(json!({"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{}"}}}})),
        line(json!({"contentBlockStop": {"contentBlockIndex": 1}})),
        line(json!({"messageStop": {"stopReason": "tool_use"}})),
        line(json!({"metadata": {"usage": {"inputTokens": 2, "outputTokens": 3}}})),
    ];
    let bare = named
        .iter()
        .map(|(_, data)| {
            let value: Value = serde_json::from_str(data).unwrap();
            line(value.as_object().unwrap().values().next().unwrap().clone())
        })
        .collect::<Frames>();
    let typed = named
        .iter()
        .map(|(_, data)| {
            let value: Value = serde_json::from_str(data).unwrap();
            let (name, inner) = value.as_object().unwrap().iter().next().unwrap();
            let mut inner = inner.clone();
            inner["type"] = json!(name);
            line(inner)
        })
        .collect::<Frames>();
    let wanted = read(&named);
    assert_eq!(wanted.end.as_ref().unwrap().stop_reason, StopReason::ToolUse);
    assert_eq!((wanted.log.snapshot().text().as_str(), wanted.log.usage().output), ("Hi", 3));
    for frames in [bare, typed] {
        assert_eq!(read(&frames).log.content(), wanted.log.content());
    }
    let body: String = named.iter().map(|(_, data)| format!("{data}\n\n")).collect();
    let (mut log, mut decoder) = (ReplyLog::new(), Decoder::new(&request()));
    decoder.whole(&body, &mut |event| log.push(&event)).unwrap();
    assert!(decoder.finish(&mut |event| log.push(&event)).is_ok());
    assert_eq!(log.content(), wanted.log.content());
}

#[test]
fn an_exception_in_a_line_is_an_error() {
    let kind = |value| read(&vec![line(value)]).end.unwrap_err().kind();
    assert_eq!(kind(json!({"throttlingException": {"message": "slow down"}})), ErrorKind::RateLimited);
    assert_eq!(kind(json!({"validationException": {"message": "bad"}})), ErrorKind::Api);
    assert_eq!(kind(json!({"message": "The model broke"})), ErrorKind::Network);
    assert_eq!(kind(json!({"code": 503, "message": "The model broke"})), ErrorKind::Network);
    assert_eq!(kind(json!({"Message": "slow", "__type": "a#ThrottlingException"})), ErrorKind::RateLimited);
    assert_eq!(kind(json!({"error": {"message": "The model broke"}})), ErrorKind::Network);
}

#[test]
fn a_line_that_says_nothing_known_is_counted() {
    let read = read(&vec![line(json!({"ofNextYear": {}})), line(json!({}))]);
    assert_eq!(read.log.unrecognised(), 2);
}
