//! Pieces in their places.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn put(pieces: &[Value]) -> (Option<Value>, usize) {
    let texts: Vec<String> = pieces.iter().map(Value::to_string).collect();
    let pieces: Vec<PartialArg<'_>> = texts.iter().map(|t| serde_json::from_str(t).unwrap()).collect();
    let mut arguments = Arguments::new(0, None);
    let mut lost = 0;
    arguments.add(&pieces, &mut |_| lost += 1);
    (arguments.value, lost)
}

#[track_caller]
fn check(pieces: &[Value], expect: Value) {
    assert_eq!(put(pieces), (Some(expect), 0));
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
fn a_place_that_makes_no_sense_is_passed_over() {
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
        let (value, lost) = put(&[text(path, "x", false)]);
        assert_eq!(lost, 1, "{path}");
        assert!(value.is_none_or(|v| v.to_string().len() < 100), "{path}");
    }
    let deep = format!("${}", ".a".repeat(MAX_DEPTH + 1));
    assert_eq!(put(&[text(&deep, "x", false)]).1, 1);
}

proptest! {
    #[test]
    fn any_path_is_survived(path in "[$.\\[\\]'\"a0-9\\\\]{0,24}", rest: String) {
        put(&[text(&path, "x", true), text(&format!("${rest}"), "y", false), text(&path, "z", false)]);
    }
}
