use proptest::prelude::*;
use serde_json::{Value, json};

use super::object;
use crate::message::ToolArguments;

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a case is one line")]
fn check(text: &str, expect: Value) {
    let arguments = ToolArguments::from_text(text);
    assert_eq!(arguments.value(), Ok(&expect), "{text}");
    assert_eq!(arguments.text(), text, "the evidence stays");
    let sent: Value = serde_json::from_str(arguments.object_text()).unwrap();
    assert_eq!(sent, expect, "{text}");
}

#[track_caller]
fn refuse(text: &str) {
    let arguments = ToolArguments::from_text(text);
    assert!(arguments.value().is_err(), "{text} became {:?}", arguments.value());
    assert_eq!((arguments.text(), arguments.object_text()), (text, "{}"));
}

#[test]
fn raw_control_characters_stand_for_themselves() {
    check("{\"content\":\"a\n\tb\r\u{1}\"}", json!({"content": "a\n\tb\r\u{1}"}));
    check(r#"{"pattern":"\d+\.rs \'x\'"}"#, json!({"pattern": r"\d+\.rs 'x'"}));
    check("{\"command\":\"one \\\ntwo\"}", json!({"command": "one \\\ntwo"}));
    check("{\"a\":\"x\ty \\u00e4 \\\" \\n\"}", json!({"a": "x\ty ä \" \n"}));
    check("{\"a\":\"x\t\\u12\"}", json!({"a": "x\t\\u12"}));
}

#[test]
fn notations_with_one_meaning_are_read() {
    let expect = json!({"path": "a.txt", "all": true, "n": null});
    for text in [
        "```json\n{\"path\":\"a.txt\",\"all\":true,\"n\":null}\n```",
        "```\n{\"path\":\"a.txt\",\"all\":true,\"n\":null}```",
        "```json\n{\"path\":\"a.txt\",\"all\":true,\"n\":null}",
        "{'path': 'a.txt', 'all': True, 'n': None}",
        "{path: \"a.txt\", all: true, n: NaN}",
        "{\"path\":\"a.txt\",\"all\":true,\"n\":null,}",
        "{\"path\":\"a.txt\",\"all\":true,\"n\":null",
        "{\"path\":\"a.txt\",\"all\":true,\"n\":null,",
        "{\"path\":\"a.txt\",\"all\":true,\"n\":null}}",
        "{\"path\":\"a.txt\", // the file\n\"all\":true, /* every */ \"n\":null # none\n}",
        "\u{feff}{\"path\":\"a.txt\",\"all\":true,\"n\":undefined}",
    ] {
        check(text, expect.clone());
    }
    check(r#"{"a":[1,2,{"b":"c"}"#, json!({"a": [1, 2, {"b": "c"}]}));
    check(r#"{"a":[1,2}"#, json!({"a": [1, 2]}));
    check(r#"{"a":[1,2,],}"#, json!({"a": [1, 2]}));
    check(r#"{'say': 'a "word"'}"#, json!({"say": "a \"word\""}));
}

#[test]
fn the_same_arguments_again_are_read_once() {
    let expect = json!({"path": "a.txt"});
    let whole = r#"{"path":"a.txt"}"#;
    for text in [
        format!("{whole}{whole}"),
        format!("{whole}\n{whole}{whole}"),
        format!("null{whole}"),
        format!("{{}}{whole}"),
        format!("\"\"{whole}"),
        format!("[]{whole}"),
        format!("{whole}{{}}"),
        format!(r#"{{"path":"a{whole}"#),
        format!(r#"{{"pa{{"path":"a{whole}"#),
        format!(r#"{{{{"{{"path":{whole}"#),
        format!(r#"{{"path":{whole}"#),
    ] {
        check(&text, expect.clone());
    }
    check("{}{}", json!({}));
    check("{}null", json!({}));
    // A valid text always means itself.
    check(r#"{"a":{"a":1}}"#, json!({"a": {"a": 1}}));
}

#[test]
fn what_may_have_lost_a_part_or_mean_two_things_stays_an_error() {
    for text in [
        "{",
        "{\"",
        "{\"path",
        "{\"path\"",
        "{\"path\":",
        "{\"path\":\"a.t",
        "{\"n\":12",
        "{\"a\":tr",
        r#"{"path":"a.txt"}{"path":"b.txt"}"#,
        r#"{"say":"a "word" here"}"#,
        r#"{'say': 'don't'}"#,
        "a.txt",
        "call read_file",
        r#"{"a":1 "b":2}"#,
        r#"{"a" 1}"#,
        r#"{"a":1,,"b":2}"#,
        r#"{"a":007}"#,
        r#"{"a":{"b":1]}"#,
        "{\"a\":1} and more",
        "{\"a\":1 /* no end",
        "<tool>x</tool>",
    ] {
        refuse(text);
    }
}

#[test]
fn arguments_that_a_limit_cut_are_never_read() {
    let cut = ToolArguments::cut_short("{\"path\":\"a.txt\"");
    assert!(cut.value().is_err());
    assert_eq!((cut.text(), cut.object_text()), ("{\"path\":\"a.txt\"", "{}"));
    // A file of the session keeps it.
    let json = serde_json::to_string(&cut).unwrap();
    let again: ToolArguments = serde_json::from_str(&json).unwrap();
    assert!(again.value().is_err() && again.text() == cut.text(), "{json}");
}

#[test]
fn a_read_text_keeps_its_evidence_in_a_session() {
    let read = ToolArguments::from_text("{'path': 'a.txt'}");
    let json = serde_json::to_value(&read).unwrap();
    assert_eq!(json, json!({"arguments": {"path": "a.txt"}, "argumentsText": "{'path': 'a.txt'}"}));
    let again: ToolArguments = serde_json::from_value(json).unwrap();
    assert_eq!(again.value(), read.value());
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic_and_only_as_an_object(text in "[{}\\[\\]\"':,\\\\/*# \na-c0-2é.-]{0,40}") {
        if let Some(json) = object(&text) {
            let value: Value = serde_json::from_str(&json).unwrap();
            prop_assert!(value.is_object(), "{text} -> {json}");
        }
    }

    #[test]
    fn every_growth_of_an_object_is_the_object(
        cuts in proptest::collection::vec(1_usize..60, 0..6),
        key in "[a-z]{1,8}",
        value in "[ -~\u{e4}\u{4e2d}]{0,30}",
    ) {
        let whole = json!({key: value, "n": 1}).to_string();
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut text = String::new();
        for cut in cuts {
            text.push_str(whole.get(..cut.min(whole.len())).unwrap_or_default());
        }
        text.push_str(&whole);
        let read = ToolArguments::from_text(text.as_str());
        prop_assert_eq!(read.value(), Ok(&serde_json::from_str(&whole).unwrap()), "{}", text);
    }
}
