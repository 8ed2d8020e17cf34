use serde_json::json;

use super::*;

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "the cases are short to write")]
fn check(then: Value, now: Value, expect: Option<(&str, &str)>) {
    let found = first(&then, &now);
    assert_eq!(found.as_ref().map(|(path, diff)| (path.as_str(), diff.as_str())), expect);
}

#[test]
fn the_first_difference_is_named_by_its_path() {
    check(json!({"a": [1, 2]}), json!({"a": [1, 2]}), None);
    check(json!({"a": [1, 2]}), json!({"a": [1, 3]}), Some(("/a/1", "- 2\n+ 3")));
    check(json!({"a": [1]}), json!({"a": [1, 3]}), Some(("/a/1", "- (nothing)\n+ 3")));
    check(json!({"a": 1}), json!({}), Some(("/a", "- 1\n+ (nothing)")));
    check(json!({}), json!({"x/y": 1}), Some(("/x~1y", "- (nothing)\n+ 1")));
    check(json!([{"n": "a"}, 1]), json!([{"n": "b"}, 2]), Some(("/0/n", "- a\n+ b")));
    check(json!(1), json!("1"), Some(("", "- 1\n+ \"1\"")));
}

#[test]
fn a_text_is_compared_by_lines_with_two_around() {
    let then = "one\ntwo\nthree\nfour\nfive\nsix\nseven";
    check(
        json!(then),
        json!(then.replace("four", "FOUR")),
        Some(("", "  two\n  three\n- four\n+ FOUR\n  five\n  six")),
    );
    check(json!("a\nb"), json!("a\nx\nb"), Some(("", "  a\n+ x\n  b")));
    check(json!("a\nb\nc"), json!("a\nc"), Some(("", "  a\n- b\n  c")));
}

#[test]
fn long_lines_are_shown_from_where_they_part_and_many_lines_are_counted() {
    let then = "x".repeat(5_000) + "old";
    let (_, diff) = first(&json!(then), &json!(then.replace("old", "new"))).unwrap();
    assert!(diff.contains("old") && diff.contains("new") && diff.len() < 600, "{diff}");
    let many = "line\n".repeat(100);
    let (_, diff) = first(&json!(""), &json!(many)).unwrap();
    assert!(diff.ends_with("+ (88 more lines)"), "{diff}");
}
