//! The estimate.

use super::sample::{reply, result, user, user_of};
use crate::context::{HeuristicTokenCounter, TokenCounter, content_tokens, estimate_tokens, message_tokens};
use crate::message::{AgentMessage, Content};

/// REQ-054.
#[test]
fn text_is_a_quarter_of_its_bytes_rounded_up() {
    for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("éé", 1), ("日本語", 3), ("🙂", 1)]
    {
        assert_eq!(estimate_tokens(text), tokens, "{text}");
    }
}

#[track_caller]
fn check(content: Content, expect: u64) {
    assert_eq!(content_tokens(&[content]), expect);
}

/// REQ-055.
#[test]
fn blocks_are_counted_by_their_kind() {
    check(Content::text("12345678"), 2);
    check(Content::thinking("12345", None), 2);
    check(Content::redacted_thinking("opaque"), 0);
    // name 4 bytes, {"command":"ls"} 16 bytes
    check(Content::tool_call("id", "bash", serde_json::json!({"command": "ls"})), 1 + 4 + 8);
    check(Content::tool_call("id", "bash", crate::message::ToolArguments::from_text("")), 1 + 1 + 8);
    check(Content::opaque("x", serde_json::json!({"a": 1})), 2);
    assert_eq!(content_tokens(&[Content::text("1234"), Content::text("1")]), 2);
    assert_eq!(content_tokens(&[]), 0);
}

/// REQ-055.
#[test]
fn a_picture_is_its_bytes_by_750_from_85_to_16000() {
    for (base64, tokens) in [
        (0, 85),
        (85_000, 85),
        (85_999, 85),
        (86_000, 86),
        (100_000, 100),
        (16_000_000, 16_000),
        (40_000_000, 16_000),
    ] {
        check(Content::image("A".repeat(base64), "image/png"), tokens);
    }
    check(Content::image_url("https://example.com/a.png"), 1_500);
}

/// REQ-055.
#[test]
fn a_message_costs_four_more_and_a_tool_result_eight_and_its_name() {
    assert_eq!(message_tokens(&user("12345678")), 2 + 4);
    assert_eq!(message_tokens(&reply(0, vec![Content::text("1234")])), 1 + 4);
    assert_eq!(message_tokens(&user_of(vec![])), 4);
    assert_eq!(message_tokens(&result("a long id that is not counted", "12345678")), 2 + 1 + 8);
    assert_eq!(message_tokens(&AgentMessage::extension("k", serde_json::json!("123456"))), 2 + 4);
}

#[derive(Debug)]
struct Words;

impl TokenCounter for Words {
    fn count_text(&self, text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }
}

/// REQ-162.
#[test]
fn another_counter_of_texts_is_used_for_blocks_and_messages() {
    assert_eq!(Words.count_message(&user("one two three")), 3 + 4);
    assert_eq!(Words.count_content(&Content::tool_call("id", "bash", serde_json::json!({}))), 1 + 1 + 8);
    assert_eq!(HeuristicTokenCounter.count_text("one two three"), 4);
}
