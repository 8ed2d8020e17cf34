//! Replies in one JSON body, and replies that a stream repeats in one piece.

use super::*;

fn whole(body: &serde_json::Value) -> Read {
    let mut decoder = decoder();
    let (mut events, mut log) = (Vec::new(), ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.push(&event);
        events.push(OwnedStreamEvent::from(event));
    };
    let read = decoder.whole(&body.to_string(), &mut sink);
    let end = read.and_then(|()| decoder.finish(&mut sink));
    let reason = end.as_ref().ok().map(|c| c.stop_reason);
    let end = end.map(|c| log.finish("p", "m", &c));
    Read { events, end, log, reason }
}

fn text(message: &AssistantMessage) -> String {
    message.content.iter().filter_map(Content::as_text).collect()
}

#[test]
fn the_message_of_a_whole_body_counts_beside_an_empty_delta() {
    let message = json!({"role": "assistant", "content": "Paris."});
    for delta in [json!({"role": "assistant", "content": ""}), json!({}), json!(null)] {
        let body =
            json!({"choices": [{"index": 0, "delta": delta, "message": message, "finish_reason": "stop"}]});
        assert_eq!(text(&whole(&body).end.unwrap()), "Paris.");
        let streamed = body.to_string();
        assert_eq!(text(&read(&[&streamed]).end.unwrap()), "Paris.");
    }
    let body = json!({"choices": [{"index": 0, "delta": message, "message": {}, "finish_reason": "stop"}]});
    assert_eq!(text(&whole(&body).end.unwrap()), "Paris.", "a delta counts where the message is empty");
}

#[test]
fn a_stream_that_repeats_its_text_in_a_message_says_it_once() {
    let chunk = |delta: &str, all: &str| {
        json!({"choices": [{"index": 0, "delta": {"content": delta}, "message": {"content": all}}]})
            .to_string()
    };
    let call = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]);
    let last = json!({"choices": [{"index": 0, "finish_reason": "stop",
        "message": {"content": "Paris.", "tool_calls": call}}]});
    let message = read(&[&chunk("Par", "Par"), &chunk("is.", "Paris."), &last.to_string()]).end.unwrap();
    assert_eq!(text(&message), "Paris.");
    assert_eq!(message.tool_calls().count(), 1, "no delta contained the call");
    // A server that streams under the name of whole bodies.
    let piece = |text: &str| json!({"choices": [{"index": 0, "message": {"content": text}}]}).to_string();
    let message = read(&[&piece("Par"), &piece("is."), &finish("stop")]).end.unwrap();
    assert_eq!(text(&message), "Paris.");
}

#[test]
fn choices_of_one_index_are_one_reply() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
    let choice =
        |message: serde_json::Value| json!({"index": 0, "finish_reason": "tool_calls", "message": message});
    let body = json!({"choices": [
        choice(json!({"role": "assistant", "content": "I will look."})),
        choice(json!({"role": "assistant", "tool_calls": [call]})),
    ], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    for read in [whole(&body), read(&[&body.to_string()])] {
        let message = read.end.unwrap();
        assert_eq!(text(&message), "I will look.");
        assert_eq!(message.tool_calls().next().unwrap().arguments.text(), "{\"x\":1}");
        assert_eq!((message.stop_reason, message.usage.output), (StopReason::ToolUse, 4));
    }
    let mut other = body;
    other["choices"][1]["index"] = json!(1);
    assert_eq!(whole(&other).end.unwrap().tool_calls().count(), 0, "another index is another reply");
}

#[test]
fn a_call_of_a_custom_tool_keeps_its_input() {
    let call = json!({"id": "a", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}});
    let body =
        json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [call]}}]});
    let message = whole(&body).end.unwrap();
    let found = message.tool_calls().next().unwrap();
    assert_eq!((found.name.as_str(), found.arguments.text()), ("sql", "SELECT 1"));
    assert_eq!(found.signature.as_deref(), Some(crate::openai_chat::calls::CUSTOM));
    let piece = |custom: serde_json::Value, id: &str| {
        delta(json!({"tool_calls": [{"index": 0, "id": id, "type": "custom", "custom": custom}]}))
    };
    let frames = [
        piece(json!({"name": "sql", "input": ""}), "a"),
        piece(json!({"input": "SELECT"}), ""),
        piece(json!({"input": " 1"}), ""),
        finish("tool_calls"),
    ];
    let message = read(&frames.each_ref().map(String::as_str)).end.unwrap();
    let found = message.tool_calls().next().unwrap();
    assert_eq!((found.name.as_str(), found.arguments.text()), ("sql", "SELECT 1"));
    assert_eq!(found.signature.as_deref(), Some(crate::openai_chat::calls::CUSTOM));
}

#[test]
fn a_call_in_the_old_form_is_a_call() {
    let body = json!({"choices": [{"index": 0, "finish_reason": "function_call", "message":
        {"content": null, "function_call": {"name": "f", "arguments": "{\"x\":1}"}}}]});
    let piece = |call: serde_json::Value| delta(json!({ "function_call": call }));
    let frames = [
        piece(json!({"name": "f", "arguments": ""})),
        piece(json!({"arguments": "{\"x\""})),
        piece(json!({"arguments": ":1}"})),
        finish("function_call"),
    ];
    for read in [whole(&body), read(&frames.each_ref().map(String::as_str))] {
        let message = read.end.unwrap();
        let calls: Vec<&agent_core::ToolCall> = message.tool_calls().collect();
        assert_eq!((calls.len(), calls[0].name.as_str(), calls[0].arguments.text()), (1, "f", "{\"x\":1}"));
        assert!(!calls[0].id.as_str().is_empty());
        assert_eq!(message.stop_reason, StopReason::ToolUse);
    }
}
