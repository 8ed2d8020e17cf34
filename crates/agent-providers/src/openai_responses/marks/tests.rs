//! What is kept of items, and what is made of it again.

#![allow(clippy::needless_pass_by_value, reason = "`json!` reads better by value")]

use agent_core::Content;
use serde_json::json;

use super::*;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn thinking(text: &str, signature: Option<&str>) -> ThinkingContent {
    match Content::thinking(text, signature.map(str::to_owned)) {
        Content::Thinking(block) => block,
        other => panic!("{other:?}"),
    }
}

/// That an item comes back as it was.
#[track_caller]
fn check_round(item: Value, blocks: &[ThinkingContent]) {
    let texts: Vec<&str> = blocks.iter().map(|b| b.thinking.as_str()).filter(|t| !t.is_empty()).collect();
    let kept = of_reasoning(map(item.clone()), &texts);
    assert!(!kept.contains_key("encrypted_content"));
    let again = reasoning(Some(&kept), &blocks.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(Value::Object(again), item);
}

/// B-131.
#[test]
fn a_reasoning_item_comes_back_as_it_was() {
    let text = |text: &str| json!({"type": "summary_text", "text": text});
    check_round(
        json!({"type": "reasoning", "id": "rs_1", "summary": [text("a"), text("b")], "encrypted_content": "e"}),
        &[thinking("a", None), thinking("b", Some("e"))],
    );
    check_round(
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}),
        &[thinking("", Some("e"))],
    );
    check_round(
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "a"}]}),
        &[thinking("a", None)],
    );
    // A text that differs from what was shown is kept in the item.
    check_round(
        json!({"type": "reasoning", "id": "rs_1", "summary": [text("a, revised")], "encrypted_content": "e"}),
        &[thinking("a", Some("e"))],
    );
}

#[test]
fn blocks_that_are_not_those_of_the_item_make_none() {
    let kept = map(json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text"}]}));
    assert!(reasoning(Some(&kept), &[&thinking("", Some("e"))]).is_none());
}

#[test]
fn thinking_without_its_item_goes_back_nameless() {
    let item = reasoning(None, &[&thinking("a", Some("e"))]).unwrap();
    let expected = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}], "encrypted_content": "e"});
    assert_eq!(Value::Object(item), expected);
}

#[test]
fn only_encrypted_reasoning_is_whole_for_the_vendor_and_words_do_elsewhere() {
    let words = map(json!({"content": [{"type": "reasoning_text", "text": "a"}]}));
    assert!(is_whole(&words, TakesWords::Yes) && !is_whole(&words, TakesWords::No));
    let summary = map(json!({"summary": [{"type": "summary_text", "text": "a"}]}));
    assert!(!is_whole(&summary, TakesWords::Yes));
    assert!(is_whole(&map(json!({"encrypted_content": "e"})), TakesWords::No));
}

#[test]
fn a_name_is_taken_back_only_in_the_vendors_form() {
    let named = |id: &str| read(&json!({ "id": id }).to_string());
    assert_eq!(id(&named("fc_1"), "fc_"), Some("fc_1"));
    assert_eq!(id(&named("msg_1"), "fc_"), None);
    assert_eq!(id(&named(&format!("fc_{}", "x".repeat(62))), "fc_"), None);
    assert_eq!(id(&read("not JSON"), "fc_"), None);
    assert_eq!(of_message("", ""), None);
}
