use serde_json::{Value, json};

use crate::prefix::bytes::{BodyDifference, first_difference};

fn body(tools: &Value, system: &str, messages: &Value) -> Vec<u8> {
    format!(
        r#"{{"model":"m","max_tokens":10,"tools":{tools},"system":[{{"type":"text","text":{}}}],"messages":{messages}}}"#,
        json!(system)
    )
    .into_bytes()
}

fn compare(old: &[u8], new: &[u8]) -> Option<(String, u64, Option<usize>)> {
    first_difference(old, new).map(|BodyDifference { field, byte, message, rebilled, prompt }| {
        assert!(byte as usize <= new.len());
        assert!(rebilled > 0 && prompt > 0);
        assert!(new[..byte as usize] == old[..byte as usize] || field != "system[0].text");
        (field, rebilled, message)
    })
}

/// X8: a longer conversation is no break, nor are limits that are no part of a prompt.
#[test]
fn a_request_that_only_grew_is_no_break() {
    let tools = json!([{"name": "a"}]);
    let old = body(&tools, "be good", &json!(["one", "two"]));
    let new = body(&tools, "be good", &json!(["one", "two", "three"]));
    assert_eq!(compare(&old, &new), None);
    let other = String::from_utf8(new).unwrap().replace("10", "99").into_bytes();
    assert_eq!(compare(&old, &other), None);
    assert_eq!(
        compare(&old, &body(&tools, "be good", &json!(["one"]))),
        None,
        "a past that is cut at its end"
    );
    assert_eq!(
        compare(&old, &body(&tools, "be good", &json!(["one", "other"]))),
        None,
        "a last message that is another: nothing behind it was sent before"
    );
}

/// X8: the first part that differs, in the order of a cache, with the byte, and what is read again.
#[test]
fn a_break_is_named_with_what_stands_behind_it_unchanged() {
    let tools = json!([{"name": "a", "schema": {"type": "object"}}, {"name": "b"}]);
    let messages = json!([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]);
    let all = messages.to_string().len() as u64;
    let old = body(&tools, "It is ten.", &messages);

    let new = body(&tools, "It is two.", &messages);
    assert_eq!(compare(&old, &new), Some(("system[0].text".into(), all, None)));
    assert_eq!(
        first_difference(&old, &new).unwrap().byte as usize,
        String::from_utf8(new).unwrap().find("wo.").unwrap()
    );

    let system = r#"[{"type":"text","text":"It is ten."}]"#.len() as u64;
    let swapped = json!([{"name": "b"}, {"name": "a", "schema": {"type": "object"}}]);
    let both = swapped.to_string().len() as u64 - 3;
    let found = compare(&old, &body(&swapped, "It is ten.", &messages)).unwrap();
    assert_eq!(found.0, "tools[0].name");
    assert!(found.1 >= system + all && found.1 <= system + all + both, "{found:?}");

    let edited = json!([{"role": "user", "content": "uno"}, {"role": "user", "content": "two"}, "more"]);
    let kept = r#"{"role":"user","content":"two"}"#.len() as u64;
    assert_eq!(
        compare(&old, &body(&tools, "It is ten.", &edited)),
        Some(("messages[0].content".into(), kept, Some(0)))
    );
}

/// A date at the head of a long system prompt: all of the rest is read again.
#[test]
fn what_follows_a_change_in_the_same_text_counts() {
    let rest = "x".repeat(1_000);
    let old = body(&json!([]), &format!("10:00 {rest}"), &json!([]));
    let new = body(&json!([]), &format!("10:01 {rest}"), &json!([]));
    let (field, rebilled, _) = compare(&old, &new).unwrap();
    assert_eq!(field, "system[0].text");
    assert!((1_000..1_010).contains(&rebilled), "{rebilled}");
}

#[test]
fn a_part_that_came_or_went_is_named() {
    let messages = r#""messages":["one","two"]"#;
    let without = format!("{{{messages}}}").into_bytes();
    let with = format!(r#"{{"thinking":{{"budget":1024}},{messages}}}"#).into_bytes();
    let all = 13;
    assert_eq!(compare(&without, &with), Some(("thinking".into(), all, None)));
    let found = first_difference(&with, &without).unwrap();
    assert_eq!((found.field.as_str(), found.rebilled), ("thinking", all));
    assert_eq!(found.byte as usize, String::from_utf8(without).unwrap().find('[').unwrap());
}
