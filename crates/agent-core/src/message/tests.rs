//! Shapes of messages.

use serde_json::{Value, json};

use super::{
    AgentMessage, AssistantMessage, Content, CostConfig, CostTier, LlmMessage, Message, StopReason,
    ToolArguments, ToolCall, ToolResultMessage, Usage, UserMessage,
};
use crate::identity::{LoopId, Timestamp, TurnId};

/// The value has this JSON, and the JSON this value.
#[track_caller]
fn check<T>(value: &T, expect: Value)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    assert_eq!(serde_json::to_value(value).unwrap(), expect);
    assert_eq!(&serde_json::from_value::<T>(expect).unwrap(), value);
}

/// A message, alone and in an agent's history: the same bytes, and the turn behind them.
#[track_caller]
fn said(message: Message, expect: &Value) {
    check(&message, expect.clone());
    let text = serde_json::to_string(&message).unwrap();
    let entered = LlmMessage::new(message);
    assert_eq!(serde_json::to_string(&AgentMessage::from(entered.clone())).unwrap(), text);
    let entered = AgentMessage::from(entered.in_turn(TurnId { loop_id: "s.a.1".into(), turn_index: 3 }));
    let (all_but_end, turn) = (&text[..text.len() - 1], r#","turnId":{"loopId":"s.a.1","turnIndex":3}}"#);
    assert_eq!(serde_json::to_string(&entered).unwrap(), format!("{all_but_end}{turn}"));
    assert_eq!(serde_json::from_str::<AgentMessage>(&format!("{all_but_end}{turn}")).unwrap(), entered);
}

/// REQ-001.
#[test]
fn blocks_are_tagged_by_type() {
    check(&Content::text("hi"), json!({"type": "text", "text": "hi"}));
    check(
        &Content::image("AAAA", "image/png"),
        json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}),
    );
    check(&Content::image_url("https://x/y.png"), json!({"type": "image", "url": "https://x/y.png"}));
    check(&Content::thinking("hm", None), json!({"type": "thinking", "thinking": "hm"}));
    check(
        &Content::thinking("hm", Some("s".into())),
        json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
    );
    check(
        &Content::redacted_thinking("opaque"),
        json!({"type": "thinking", "thinking": "", "signature": "opaque", "redacted": true}),
    );
    check(
        &Content::tool_call("c1", "bash", json!({"command": "ls"})),
        json!({"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}),
    );
    check(
        &Content::ToolCall(ToolCall::new("c1", "bash", json!({})).with_signature(Some("s".into()))),
        json!({"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}, "signature": "s"}),
    );
    check(
        &Content::opaque("server_tool_use", json!({"a": [1]})),
        json!({"type": "opaque", "kind": "server_tool_use", "data": {"a": [1]}}),
    );
    assert!(serde_json::from_value::<Content>(json!({"type": "video", "data": ""})).is_err());
    assert!(serde_json::from_value::<Content>(json!({"text": "no type"})).is_err());
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a case is one line")]
fn arguments(text: &str, expect: Value) {
    let call = Content::tool_call("c", "t", ToolArguments::from_text(text));
    let mut whole = json!({"type": "toolCall", "id": "c", "name": "t"});
    whole.as_object_mut().unwrap().extend(expect.as_object().unwrap().clone());
    let json = serde_json::to_value(&call).unwrap();
    assert_eq!(json, whole);
    let back: Content = serde_json::from_value(json).unwrap();
    assert_eq!(back.as_tool_call().unwrap().arguments.text(), text, "every byte comes back");
}

/// B-090, REQ-018.
#[test]
fn arguments_keep_the_text_that_the_model_sent() {
    arguments(r#"{"a":1}"#, json!({"arguments": {"a": 1}}));
    arguments(r#"{ "a": 1 }"#, json!({"arguments": {"a": 1}, "argumentsText": r#"{ "a": 1 }"#}));
    arguments(r#"{"a":1,"a":2}"#, json!({"arguments": {"a": 2}, "argumentsText": r#"{"a":1,"a":2}"#}));
    arguments(r#"{"a":"#, json!({"arguments": null, "argumentsText": r#"{"a":"#}));
    arguments("", json!({"arguments": {}, "argumentsText": ""}));
    let broken = ToolArguments::from_text("{\"a\":");
    assert!(broken.value().unwrap_err().contains("EOF") && !broken.is_object());
    assert_eq!(broken.to_string(), "{\"a\":");
    assert_eq!(ToolArguments::default().json_text(), "{}");
    assert!(ToolArguments::default().is_object() && !ToolArguments::from_text("[1]").is_object());
    assert!(serde_json::from_value::<Content>(json!({"type": "toolCall", "id": "c", "name": "t"})).is_err());
}

/// REQ-002, B-130.
#[test]
fn messages_are_tagged_by_role() {
    let at = Timestamp(7);
    said(
        Message::User(UserMessage::new(vec![Content::text("hi")], at)),
        &json!({"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 7}),
    );
    let mut reply = AssistantMessage::new("anthropic", "claude", StopReason::Stop);
    reply.timestamp = at;
    reply.usage = Usage::new(3, 2, 1, 0);
    let usage = json!({"input": 3, "output": 2, "reasoning": 0, "cache_read": 1, "cache_write": 0, "total_tokens": 6});
    said(
        Message::from(reply.clone()),
        &json!({
            "role": "assistant", "content": [], "stopReason": "stop", "provider": "anthropic", "model": "claude",
            "usage": usage, "timestamp": 7,
        }),
    );
    reply.stop_reason = StopReason::Error;
    reply.error_message = Some("boom".into());
    reply.response_id = Some("msg_1".into());
    reply.api = Some(crate::model::ApiProtocol::AnthropicMessages);
    said(
        Message::from(reply),
        &json!({
            "role": "assistant", "content": [], "stopReason": "error", "api": "anthropic_messages", "provider": "anthropic",
            "model": "claude", "responseId": "msg_1", "usage": usage, "timestamp": 7, "errorMessage": "boom",
        }),
    );
    let mut result = ToolResultMessage::error("c1".into(), "bash".into(), "no");
    result.timestamp = at;
    let mut shape = json!({
        "role": "toolResult", "toolCallId": "c1", "toolName": "bash",
        "content": [{"type": "text", "text": "no"}], "isError": true, "timestamp": 7,
    });
    said(Message::from(result.clone()), &shape);
    result.details = json!({"exit": 1});
    result.duration_ms = Some(12);
    result.child_loop_id = Some("s.a.2".into());
    let more = json!({"details": {"exit": 1}, "durationMs": 12, "childLoopId": "s.a.2"});
    shape.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    said(Message::from(result), &shape);
}

#[test]
fn files_of_other_programs_are_read_too() {
    let old: Message = serde_json::from_value(json!({
        "role": "assistant", "content": [], "stopReason": "error", "model": "m", "provider": "p",
        "usage": {"input": 1, "output": 2}, "timestamp": 3, "error_message": "boom", "unknown": {"kept": "by the session"},
    }))
    .unwrap();
    let old = old.as_assistant().unwrap();
    assert_eq!(old.error_message.as_deref(), Some("boom"));
    assert_eq!((old.usage.input, old.usage.output, old.usage.cache_read), (1, 2, 0));
}

/// REQ-003, REQ-004.
#[test]
fn a_note_is_told_from_a_message_by_its_role() {
    check(
        &AgentMessage::extension("todo", json!([1, 2])),
        json!({"role": "extension", "kind": "todo", "data": [1, 2]}),
    );
    let turn = TurnId { loop_id: LoopId::from("s.a.1"), turn_index: 2 };
    let placed = LlmMessage::new(Message::User(UserMessage::new(vec![], Timestamp(1)))).in_turn(turn);
    check(
        &AgentMessage::from(placed),
        json!({"role": "user", "content": [], "timestamp": 1, "turnId": {"loopId": "s.a.1", "turnIndex": 2}}),
    );
    for foreign in [
        json!({"role": "user", "kind": "todo", "data": 1}),
        json!({"role": "system", "content": []}),
        json!({"kind": "todo", "data": 1}),
    ] {
        assert!(serde_json::from_value::<AgentMessage>(foreign.clone()).is_err(), "{foreign}");
    }
    let note = AgentMessage::extension("todo", json!(1));
    assert_eq!((note.role(), note.text(), note.as_llm()), ("extension", String::new(), None));
}

/// REQ-005.
#[test]
fn reasons_to_stop_are_camel_case() {
    for (reason, text) in [
        (StopReason::Stop, "stop"),
        (StopReason::Length, "length"),
        (StopReason::ToolUse, "toolUse"),
        (StopReason::Paused, "paused"),
        (StopReason::Error, "error"),
        (StopReason::Aborted, "aborted"),
    ] {
        check(&reason, json!(text));
    }
}

/// REQ-006, REQ-197.
#[test]
fn usage_has_disjoint_buckets_a_total_and_a_hit_rate() {
    let usage = Usage::new(60, 10, 30, 10).with_reasoning(4);
    assert_eq!((usage.total_tokens, usage.prompt_tokens(), usage.reasoning), (110, 100, 4));
    assert!((usage.cache_hit_rate() - 0.3).abs() < 1e-9);
    assert!(Usage::default().cache_hit_rate().abs() < 1e-9);
    check(
        &usage,
        json!({"input": 60, "output": 10, "reasoning": 4, "cache_read": 30, "cache_write": 10, "total_tokens": 110}),
    );
    let both = usage.combine(&Usage::new(1, 1, 1, 1));
    assert_eq!((both.total_tokens, both.cache_read, both.reasoning), (114, 31, 4));
    let most = Usage::new(u64::MAX, 1, 0, 0);
    assert_eq!(most.total_tokens, u64::MAX);
    assert_eq!(most.combine(&most).input, u64::MAX);
}

/// Writes with the longer lifetime have their own price, also in a tier, and old records have none.
#[test]
fn long_cache_writes_have_their_own_price() {
    let usage = Usage::new(1_000, 0, 0, 10_000).with_long_cache_write(4_000);
    assert_eq!(
        (usage.cache_write, usage.total_tokens, usage.combine(&usage).cache_write_long),
        (10_000, 11_000, 8_000)
    );
    check(
        &usage,
        json!({"input": 1_000, "output": 0, "reasoning": 0, "cache_read": 0, "cache_write": 10_000,
            "cache_write_long": 4_000, "total_tokens": 11_000}),
    );
    let prices = CostConfig::per_million(3_000_000, 15_000_000, 300_000, 3_750_000);
    let long = prices.clone().with_long_cache_write(6_000_000);
    for (prices, write) in [
        (prices.clone(), 37_500),
        (long.clone(), 6_000 * 15 / 4 + 4_000 * 6),
        (long.clone().with_tier(tier(5_000, Some(12_000_000))), 6_000 * 15 / 2 + 4_000 * 12),
        (long.clone().with_tier(tier(5_000, None)), 75_000),
        (long.with_tier(tier(50_000, Some(12_000_000))), 6_000 * 15 / 4 + 4_000 * 6),
    ] {
        assert_eq!(usage.cost(&prices).cache_write, write, "{prices:?}");
    }
    let more_than_written = Usage::new(0, 0, 0, 100).with_long_cache_write(500);
    assert_eq!(more_than_written.cost(&prices.with_long_cache_write(6_000_000)).cache_write, 600);
    let old: Usage = serde_json::from_value(json!({"input": 1, "output": 2, "cache_write": 3})).unwrap();
    assert_eq!((old.cache_write, old.cache_write_long), (3, 0));
    let old: CostConfig =
        serde_json::from_value(json!({"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4})).unwrap();
    assert_eq!(old, CostConfig::per_million(1, 2, 3, 4));
}

fn tier(above: u64, cache_write_long: Option<u64>) -> CostTier {
    CostTier { above, input: 0, output: 0, cache_read: 0, cache_write: 7_500_000, cache_write_long }
}

/// B-153.
#[test]
fn money_is_exact_rounded_once_and_priced_by_tier() {
    let prices = CostConfig::per_million(3_000_000, 15_000_000, 300_000, 3_750_000);
    let cost = Usage::new(1_000_000, 1_000, 10, 100).cost(&prices);
    assert_eq!((cost.input, cost.output, cost.cache_read, cost.cache_write), (3_000_000, 15_000, 3, 375));
    assert_eq!(cost.total, 3_015_378);
    assert_eq!(cost.combine(&cost).total, 6_030_756);
    let tier = CostTier {
        above: 200_000,
        input: 6_000_000,
        output: 22_500_000,
        cache_read: 0,
        cache_write: 0,
        cache_write_long: None,
    };
    let tiered = prices.with_tier(tier);
    assert_eq!(Usage::new(200_000, 0, 0, 0).cost(&tiered).input, 600_000);
    assert_eq!(Usage::new(100_000, 0, 100_001, 0).cost(&tiered).input, 600_000, "the cached part counts");
    assert_eq!(Usage::new(u64::MAX, 0, 0, 0).cost(&tiered).total, u64::MAX);
}

#[test]
fn an_overflow_is_told_from_the_error_text_of_a_failed_reply() {
    let mut reply = AssistantMessage::new("p", "m", StopReason::Error);
    reply.error_message = Some("prompt is too long: 210000 tokens".into());
    assert!(Message::from(reply.clone()).is_context_overflow());
    reply.error_message = Some("socket closed".into());
    assert!(!reply.is_context_overflow());
    reply.stop_reason = StopReason::Stop;
    reply.error_message = Some("prompt is too long".into());
    assert!(!reply.is_context_overflow(), "a reply that ended well is none");
    assert!(!Message::user("prompt is too long").is_context_overflow());
}

#[test]
fn the_time_is_set_once() {
    let mut message = AgentMessage::user("x");
    message.stamp(Timestamp(5));
    message.stamp(Timestamp(9));
    assert_eq!(serde_json::to_value(&message).unwrap()["timestamp"], 5);
    let mut note = AgentMessage::extension("k", json!(1));
    note.stamp(Timestamp(5));
    assert_eq!(note, AgentMessage::extension("k", json!(1)));
}

#[test]
fn texts_of_a_message_are_joined() {
    let message = Message::user_content(vec![
        Content::text("a"),
        Content::image("AA", "image/png"),
        Content::text("b"),
    ]);
    assert_eq!((message.text(), message.role()), ("ab".to_owned(), "user"));
    assert_eq!(AgentMessage::from("hi").text(), "hi");
}

#[test]
fn calls_of_the_vendors_tools_are_counted_and_priced() {
    let usage = Usage::new(1_000, 0, 0, 0).with_server_tool_calls(5, 3);
    assert_eq!(usage.combine(&usage).with_reasoning(0).server_tool_calls, 10);
    assert_eq!(usage.combine(&usage).web_searches, 6);
    let prices = CostConfig::per_million(1_000_000, 0, 0, 0).with_server_tools(10_000_000, 2_500_000);
    let cost = usage.cost(&prices);
    assert_eq!((cost.server_tools, cost.total), (35_000, 36_000));
    assert_eq!(cost.combine(&cost).server_tools, 70_000);
    // A search is a call, even if the vendor reports only searches.
    assert_eq!(Usage::default().with_server_tool_calls(0, 2).server_tool_calls, 2);
    let json = serde_json::to_value(usage).unwrap();
    assert_eq!((&json["server_tool_calls"], &json["web_searches"]), (&5.into(), &3.into()));
    assert_eq!(serde_json::from_value::<Usage>(json).unwrap(), usage);
    let plain = serde_json::to_value(Usage::new(1, 1, 0, 0)).unwrap();
    assert_eq!(plain.get("server_tool_calls"), None);
    assert_eq!(Usage::new(1_000, 0, 0, 0).cost(&prices).total, 1_000);
}
