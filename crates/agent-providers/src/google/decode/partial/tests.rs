//! Pieces in their places.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn put(pieces: &[Value]) -> (Option<Value>, bool) {
    let texts: Vec<String> = pieces.iter().map(Value::to_string).collect();
    let pieces: Vec<PartialArg<'_>> = texts.iter().map(|t| serde_json::from_str(t).unwrap()).collect();
    let mut arguments = Arguments::new(0, None);
    let refused = arguments.add(&pieces).is_err();
    (arguments.value, refused)
}

#[track_caller]
fn check(pieces: &[Value], expect: Value) {
    assert_eq!(put(pieces), (Some(expect), false));
}

fn text(path: &str, text: &str, more: bool) -> Value {
    json!({"jsonPath": path, "stringValue": text, "willContinue": more})
}

#[test]
fn values_of_every_kind_find_their_place() {
    check(&[text("$.a", "x", false)], json!({"a": "x"}));
    check(&[text("$.a.b[1].c", "x", false)], json!({"a": {"b": [null, {"c": "x"}]}}));
    check(&[text("$['a b'][\"c.d\"]", "x", false)], json!({"a b": {"c.d": "x"}}));
    check(&[text("$['it\\'s']", "x", false)], json!({"it's": "x"}));
    let others = [
        json!({"jsonPath": "$.n", "numberValue": 1.5}),
        json!({"jsonPath": "$.b", "boolValue": false}),
        json!({"jsonPath": "$.z", "nullValue": "NULL_VALUE"}),
    ];
    check(&others, json!({"n": 1.5, "b": false, "z": null}));
}

#[test]
fn a_text_grows_only_where_the_piece_before_said_so() {
    check(&[text("$.a", "x", true), text("$.a", "y", true), text("$.a", "", false)], json!({"a": "xy"}));
    check(&[text("$.a", "x", false), text("$.a", "y", false)], json!({"a": "y"}));
    check(&[text("$.a", "x", true), text("$.b", "y", false)], json!({"a": "x", "b": "y"}));
}

#[test]
fn a_place_that_makes_no_sense_is_an_error() {
    for path in [
        "",
        "a",
        "$",
        "$.",
        "$..a",
        "$[",
        "$[x]",
        "$[-1]",
        "$['a",
        "$.a[99999999]",
        "$[99999999999999999999]",
    ] {
        let (value, refused) = put(&[text(path, "x", false)]);
        assert!(refused, "{path}");
        assert!(value.is_none_or(|v| v.to_string().len() < 100), "{path}");
    }
    let deep = format!("${}", ".a".repeat(MAX_DEPTH + 1));
    assert!(put(&[text(&deep, "x", false)]).1);
}

#[test]
fn arguments_have_a_largest_size_however_they_come() {
    let mut arguments = Arguments::new(0, None);
    let grow = |arguments: &mut Arguments, path: String, text: &str| {
        let piece = json!({"jsonPath": path, "stringValue": text, "willContinue": true}).to_string();
        arguments.add(&[serde_json::from_str(&piece).unwrap()])
    };
    let mib = "x".repeat(1 << 20);
    let texts = (0..20).take_while(|_| grow(&mut arguments, "$.a".to_owned(), &mib).is_ok()).count();
    assert_eq!(texts, 15, "and the room of one member");
    let mut arguments = Arguments::new(0, None);
    let values =
        (0..).step_by(MAX_GAP).take_while(|n| grow(&mut arguments, format!("$.a[{n}]"), "").is_ok()).count();
    assert!(values * MAX_GAP * PER_VALUE <= MAX_BYTES, "{values}");
}

proptest! {
    #[test]
    fn any_path_is_survived(path in "[$.\\[\\]'\"a0-9\\\\]{0,24}", rest: String) {
        put(&[text(&path, "x", true), text(&format!("${rest}"), "y", false), text(&path, "z", false)]);
    }
}
