use super::*;

#[test]
fn values_are_counted_outside_of_strings_only() {
    let list = |count: usize, item: &str| format!("[{}]", vec![item; count].join(","));
    assert!(!has_too_many_values(list(MAX_MESSAGE_VALUES - 1, "1").as_bytes()));
    assert!(has_too_many_values(list(MAX_MESSAGE_VALUES, "1").as_bytes()));
    assert!(has_too_many_values(list(MAX_MESSAGE_VALUES, r#""\\""#).as_bytes()));
    let text = format!(r#"{{"a": "\"{}\\"}}"#, "[,{".repeat(MAX_MESSAGE_VALUES));
    assert!(!has_too_many_values(text.as_bytes()));
    assert!(!has_too_many_values(br#"{"a": "\"#), "an unfinished string");
}
