//! Halves are joined, kept or replaced, and nothing else changes.

use super::*;
use proptest::prelude::*;

#[track_caller]
fn check(frames: &[&str], expect: &str) {
    let mut surrogates = Surrogates::default();
    let mut text = String::new();
    for frame in frames {
        let mended = surrogates.mend(frame);
        let value: serde_json::Value = serde_json::from_str(&mended).unwrap();
        text.push_str(value["t"].as_str().unwrap());
    }
    assert_eq!(text, expect, "{frames:?}");
}

/// B-146.
#[test]
fn a_pair_split_over_two_frames_becomes_one_character() {
    check(&[r#"{"t":"a\ud83c"}"#, r#"{"t":"\udf89b"}"#], "a🎉b");
    check(&[r#"{"t":"a\ud83c"}"#, r#"{"t":""}"#, r#"{"t":"\udf89b"}"#], "a🎉b");
    check(&[r#"{"t":"\uD83C\uDF89"}"#], "🎉");
}

/// B-146.
#[test]
fn a_half_alone_is_replaced() {
    check(&[r#"{"t":"\udf89b"}"#], "\u{FFFD}b");
    check(&[r#"{"t":"a\ud83cb"}"#], "a\u{FFFD}b");
    check(&[r#"{"t":"a\ud83c"}"#, r#"{"t":"x\udf89"}"#], "ax\u{FFFD}");
    check(&[r#"{"t":"\ud83c\ud83c\udf89"}"#], "\u{FFFD}🎉");
}

#[test]
fn escaped_backslashes_and_quotes_are_left_alone() {
    check(&[r#"{"t":"\\ud83c \" \u0041 \n"}"#], "\\ud83c \" A \n");
}

#[test]
fn only_frames_with_such_escapes_are_suspected() {
    assert!(Surrogates::suspected(r"\ud83c") && Surrogates::suspected(r"\uDF89"));
    assert!(!Surrogates::suspected(r#"{"t":"\u00e9"#));
}

proptest! {
    #[test]
    fn json_without_halves_stays_what_it_is(text: String) {
        let json = serde_json::to_string(&serde_json::json!({ "t": text })).unwrap();
        prop_assert_eq!(Surrogates::default().mend(&json), json);
    }

    #[test]
    fn any_text_is_survived(text: String) {
        let mut surrogates = Surrogates::default();
        let _ = surrogates.mend(&text);
        let _ = surrogates.mend("\\ud83c\"\\");
    }
}
