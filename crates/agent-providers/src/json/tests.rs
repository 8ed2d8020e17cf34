//! Reading and writing of JSON pieces.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check_text(input: &str, expect: &str, borrowed: bool) {
    let text: Text<'_> = serde_json::from_str(input).unwrap();
    assert_eq!(text.as_str(), expect);
    assert_eq!(matches!(text.0, Cow::Borrowed(_)), borrowed, "{input}");
}

#[test]
fn a_string_without_escapes_is_borrowed_and_other_types_do_no_harm() {
    check_text(r#""plain""#, "plain", true);
    check_text(r#""a\nb""#, "a\nb", false);
    check_text("null", "", false);
    check_text("7", "7", false);
    check_text("true", "true", false);
    check_text(r#"[1,{"a":2}]"#, "", false);
    check_text(r#"{"a":[1]}"#, "", false);
}

#[test]
fn counts_never_fail() {
    let read = |text: &str| serde_json::from_str::<Count>(text).unwrap().0;
    assert_eq!((read("12"), read("-3"), read("4.9"), read("null"), read("\"5\"")), (12, 0, 4, 0, 5));
}

#[test]
fn members_are_separated_by_commas() {
    let mut out = Vec::new();
    let mut members = Members::open(&mut out);
    members.field("a", &1).field("b", "x\"y");
    members.key("c").extend_from_slice(b"[]");
    members.close();
    assert_eq!(String::from_utf8(out).unwrap(), r#"{"a":1,"b":"x\"y","c":[]}"#);
}

proptest! {
    /// Of what stands between two quotes, as the readers of frames cut it out.
    #[test]
    fn a_string_says_the_same_to_the_general_reader(
        parts in prop::collection::vec(
            r#"[a-z é🎉]{0,3}|\\["\\/nrtbf]|\\u00[0-9a-f]{2}|\\ud83c\\udf89|\\ud83c|\\x|\\u12"#, 0..8,
        ),
    ) {
        let quoted = format!("\"{}\"", parts.concat());
        prop_assert_eq!(unescaped(&quoted), serde_json::from_str::<String>(&quoted).ok());
    }
}
