use agent_core::{ErrorKind, StopReason, ToolArguments, ToolCall, Usage};
use serde_json::json;

use super::*;
use crate::conformance::compare::first_difference;
use crate::conformance::manifest::Expected;
use crate::conformance::play::{Found, FoundEnd};

fn found() -> Found {
    Found {
        text: "Hi 🌊".to_owned(),
        thinking: "hm".to_owned(),
        calls: vec![ToolCall::new("call_1", "f", ToolArguments::from_text("{\"a\": 1}"))],
        partial_calls: vec![ToolCall::new("call_2", "g", ToolArguments::from_text("{\"b"))],
        signatures: vec!["s".to_owned()],
        all_signatures: vec!["over-a/text".to_owned(), "s".to_owned()],
        redacted: vec!["r".to_owned()],
        server_items: vec!["executableCode".to_owned()],
        citations: 0,
        usage: Usage::new(1, 2, 3, 4),
        end: FoundEnd::Complete(StopReason::ToolUse, None),
    }
}

fn expected() -> serde_json::Value {
    json!({
        "text": "Hi 🌊",
        "thinking": "hm",
        "tool_calls": [{"id": "call_1", "name": "f", "arguments": {"a": 1}, "arguments_raw": "{\"a\": 1}"}],
        "partial_tool_calls": [{"id": "call_2", "name": "g", "arguments": null, "arguments_raw": "{\"b"}],
        "thinking_signatures": ["s"],
        "redacted_thinking": ["r"],
        "server_items": ["executable_code"],
        "stop_reason": "tool_use",
        "usage": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4, "reasoning": 0},
        "complete": true,
    })
}

#[track_caller]
fn check(expected: serde_json::Value, found: &Found, field: Option<&str>) {
    let expected: Expected = serde_json::from_value(expected).unwrap();
    let wanted = rules::wanted("anthropic", &expected).0;
    assert_eq!(first_difference(&wanted, found).map(|d| d.field).as_deref(), field);
}

#[test]
fn what_is_alike_has_no_difference() {
    check(expected(), &found(), None);
}

#[test]
fn every_field_that_differs_is_seen() {
    let cases = [
        ("/text", json!("Hi"), "text from character 2"),
        ("/thinking", json!("ho"), "thinking from character 1"),
        ("/tool_calls", json!([]), "tool_calls"),
        ("/tool_calls/0/id", json!("call_9"), "tool_calls[0].id"),
        ("/tool_calls/0/name", json!("h"), "tool_calls[0].name"),
        ("/tool_calls/0/arguments_raw", json!("{\"a\":1}"), "tool_calls[0].arguments_raw from character 5"),
        ("/partial_tool_calls", json!([]), "partial_tool_calls"),
        (
            "/partial_tool_calls/0/arguments_raw",
            json!("{"),
            "partial_tool_calls[0].arguments_raw from character 1",
        ),
        ("/thinking_signatures", json!(["x"]), "thinking_signatures"),
        ("/redacted_thinking", json!([]), "redacted_thinking"),
        ("/server_items", json!(["inline_data"]), "server_items"),
        ("/server_items", json!(["executable_code", "executable_code"]), "server_items"),
        ("/stop_reason", json!("max_tokens"), "stop"),
        ("/stop_sequence", json!("END"), "stop_sequence"),
        ("/usage/input", json!(9), "usage.input"),
        ("/usage/output", json!(9), "usage.output"),
        ("/usage/cache_read", json!(9), "usage.cache_read"),
        ("/usage/cache_write", json!(9), "usage.cache_write"),
        ("/usage/reasoning", json!(9), "usage.reasoning"),
        ("/error", json!({"status": 500}), "end"),
    ];
    for (pointer, value, field) in cases {
        let mut changed = expected();
        match changed.pointer_mut(pointer) {
            Some(slot) => *slot = value,
            None => changed[pointer.trim_start_matches('/')] = value,
        }
        let reason =
            if pointer == "/tool_calls" { FoundEnd::Complete(StopReason::Stop, None) } else { found().end };
        check(changed, &Found { end: reason, ..found() }, Some(field));
    }
}

#[test]
fn an_absent_id_accepts_any_and_arguments_without_a_text_are_compared_as_values() {
    let mut changed = expected();
    changed["tool_calls"] = json!([{"id": null, "name": "f", "arguments": {"a": 1}, "arguments_raw": null}]);
    check(changed.clone(), &found(), None);
    changed["tool_calls"][0]["arguments"] = json!({"a": 2});
    check(changed, &found(), Some("tool_calls[0].arguments"));
}

#[test]
fn an_error_is_compared_by_kind_and_a_reply_is_no_error() {
    let failed = |kind| Found { end: FoundEnd::Failed(kind, "it said no".to_owned()), ..found() };
    let mut changed = expected();
    changed["error"] = json!({"status": 529});
    check(changed.clone(), &failed(ErrorKind::Network), None);
    check(changed.clone(), &failed(ErrorKind::Api), Some("error kind"));
    check(changed, &found(), Some("end"));
    check(expected(), &failed(ErrorKind::Network), Some("end"));
    let mut refused = expected();
    refused["refusal"] = json!("said no");
    check(refused.clone(), &failed(ErrorKind::Api), None);
    refused["refusal"] = json!("said yes");
    check(refused, &failed(ErrorKind::Api), Some("error text"));
}

#[test]
fn a_panic_or_a_hang_is_a_difference_whatever_was_expected() {
    let broken = || Found { end: FoundEnd::Broken("no end within 60 s".to_owned()), ..found() };
    check(expected(), &broken(), Some("end"));
    let mut cut = expected();
    cut["complete"] = json!(false);
    check(cut.clone(), &found(), None);
    cut["server_items"] = json!(["had not ended"]);
    check(cut.clone(), &found(), None);
    check(cut.clone(), &Found { end: FoundEnd::Failed(ErrorKind::Network, String::new()), ..found() }, None);
    check(cut, &broken(), Some("end"));
}

#[test]
fn gemini_signs_every_kind_of_block_and_both_alphabets_of_base64_are_alike() {
    let mut value = expected();
    value["thinking_signatures"] = json!(["over+a_text=", "s"]);
    let differs = |protocol: &str, value: &serde_json::Value| {
        let expected: Expected = serde_json::from_value(value.clone()).unwrap();
        let wanted = rules::wanted(protocol, &expected).0;
        first_difference(&wanted, &found()).map(|d| d.field)
    };
    assert_eq!(differs("anthropic", &value).as_deref(), Some("thinking_signatures"));
    value["stop_reason"] = json!("STOP");
    value["usage"]["input"] = json!(8);
    assert_eq!(differs("gemini", &value), None, "the cached 7 of 8 are no input");
    value["thinking_signatures"] = json!(["over+a_text"]);
    assert_eq!(differs("vertex", &value).as_deref(), Some("thinking_signatures"));
}
