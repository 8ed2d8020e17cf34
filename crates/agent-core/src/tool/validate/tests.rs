//! What is put right, what is refused, and how it is said.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ArgumentErrors, ArgumentValidator, MAX_ARGUMENT_ERRORS, SchemaValidator};
use crate::message::MAX_ARGUMENTS_SHOWN;
use crate::tool::ToolError;

fn validate(schema: &Value, value: Value) -> Result<Value, ArgumentErrors> {
    SchemaValidator.validate(schema, value)
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a case is one line")]
fn accepts(schema: Value, value: Value) {
    assert_eq!(validate(&schema, value.clone()), Ok(value), "{schema}");
}

/// The value is put right.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a case is one line")]
fn mends(schema: Value, value: Value, expect: Value) {
    assert_eq!(validate(&schema, value), Ok(expect), "{schema}");
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a case is one line")]
fn refuses(schema: Value, value: Value, expect: &[&str]) {
    let errors = validate(&schema, value).unwrap_err();
    let lines: Vec<String> = errors.errors().iter().map(ToString::to_string).collect();
    assert_eq!(lines, expect, "{schema}");
}

#[test]
fn a_type_is_checked_and_may_be_one_of_a_list() {
    for (name, value) in [
        ("null", json!(null)),
        ("boolean", json!(true)),
        ("integer", json!(-3)),
        ("number", json!(1.5)),
        ("number", json!(2)),
        ("string", json!("a")),
        ("array", json!([])),
        ("object", json!({})),
    ] {
        accepts(json!({ "type": name }), value);
    }
    accepts(json!({"type": ["string", "null"]}), json!(null));
    accepts(json!({"type": "string", "nullable": true}), json!(null));
    accepts(json!({"type": "integer"}), json!(u64::MAX));
    refuses(json!({"type": "integer"}), json!(1.5), &["(root): must be integer, not number"]);
    refuses(json!({"type": "object"}), json!([1]), &["(root): must be object, not array"]);
    refuses(
        json!({"type": ["integer", "boolean"]}),
        json!("x"),
        &["(root): must be integer or boolean, not string"],
    );
    refuses(json!({"type": "string"}), json!({}), &["(root): must be string, not object"]);
}

/// B-087.
#[test]
fn what_a_model_plainly_meant_is_put_right() {
    mends(json!({"type": "integer"}), json!("42"), json!(42));
    mends(json!({"type": "integer"}), json!(" -7 "), json!(-7));
    mends(json!({"type": "integer"}), json!("3.0"), json!(3));
    mends(json!({"type": "integer"}), json!(3.0), json!(3));
    mends(json!({"type": "number"}), json!("1.5e3"), json!(1500.0));
    mends(json!({"type": "boolean"}), json!("true"), json!(true));
    mends(json!({"type": "boolean"}), json!("False"), json!(false));
    mends(json!({"type": "string"}), json!(42), json!("42"));
    mends(json!({"type": "string"}), json!(false), json!("false"));
    mends(json!({"type": "array", "items": {"type": "string"}}), json!("a.rs"), json!(["a.rs"]));
    mends(json!({"type": "array", "items": {"type": "integer"}}), json!("5"), json!([5]));
    mends(json!({"type": "array"}), json!("[1, 2]"), json!([1, 2]));
    mends(json!({"type": "array"}), json!({"a": 1}), json!([{"a": 1}]));
    mends(json!({"type": "object"}), json!("{\"a\": 1}"), json!({"a": 1}));
    mends(json!({"type": ["integer", "null"]}), json!("null"), json!(null));
    mends(json!({"enum": [1, 2]}), json!("2"), json!(2));
    mends(json!({"enum": ["1", "2"]}), json!(2), json!("2"));
}

#[test]
fn what_is_in_doubt_is_not_put_right() {
    for text in ["4 2", "1_000", "0x10", "inf", "NaN", "", "four", "1.5"] {
        assert!(validate(&json!({"type": "integer"}), json!(text)).is_err(), "{text}");
    }
    refuses(json!({"type": "boolean"}), json!("yes"), &["(root): must be boolean, not string"]);
    refuses(json!({"type": "boolean"}), json!(1), &["(root): must be boolean, not integer"]);
    refuses(json!({"type": "object"}), json!("{broken"), &["(root): must be object, not string"]);
    refuses(json!({"type": "integer"}), json!(true), &["(root): must be integer, not boolean"]);
}

/// B-087.
#[test]
fn null_for_an_optional_is_left_out_unless_null_is_allowed() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["string", "null"]},
            "c": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "d": {"$ref": "#/$defs/d"},
            "e": {},
        },
        "$defs": {"d": {"type": "boolean"}},
    });
    mends(
        schema.clone(),
        json!({"a": null, "b": null, "c": null, "d": null, "e": null, "f": null}),
        json!({"b": null, "c": null, "e": null, "f": null}),
    );
    let mut required = schema;
    required["required"] = json!(["a"]);
    refuses(required, json!({"a": null}), &["a: must be string, not null"]);
}

/// B-088.
#[test]
fn all_errors_are_listed_with_their_paths() {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1},
            "days": {"type": "integer", "minimum": 1},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            "at": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat", "lon"]},
        },
        "required": ["city", "days"],
        "additionalProperties": false,
    });
    refuses(
        schema,
        json!({"days": "soon", "tags": ["a", "c"], "at": {"lat": []}, "zoom": 1}),
        &[
            "city: is required",
            "days: must be integer, not string",
            "tags[1]: must be one of \"a\", \"b\"",
            "at.lon: is required",
            "at.lat: must be number, not array",
            "zoom: is not known; known are city, days, tags, at",
        ],
    );
}

/// B-086.
#[test]
fn the_text_for_the_model_names_path_reason_and_what_was_received() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n", "m"]});
    let errors = validate(&schema, json!({"n": "x"})).unwrap_err();
    let text = "The arguments do not fit the tool's schema:\n- m: is required\n- n: must be integer, not string\nReceived: {\"n\":\"x\"}";
    assert_eq!(errors.to_string(), text);
    assert_eq!(errors.errors()[1].received, json!("x"));
    assert_eq!(ToolError::from(errors), ToolError::InvalidArgs(text.to_owned()));
}

#[test]
fn the_text_shows_what_was_sent_and_not_what_was_put_right() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
    let errors = validate(&schema, json!({"a": "1", "b": "x"})).unwrap_err();
    assert_eq!(errors.received(), r#"{"a":"1","b":"x"}"#);
}

#[test]
fn the_text_is_bounded() {
    let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let object: Value = (0..500)
        .map(|n| (format!("key{n}"), json!("é".repeat(400))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let errors = validate(&schema, object).unwrap_err();
    assert_eq!(errors.errors().len(), MAX_ARGUMENT_ERRORS);
    assert!(errors.received().len() < MAX_ARGUMENTS_SHOWN + 40, "{}", errors.received().len());
    assert!(errors.to_string().len() < 8_000, "{}", errors.to_string().len());
    assert!(errors.to_string().contains("more"));
}

#[test]
fn bounds_are_checked() {
    accepts(json!({"minimum": 1, "maximum": 3}), json!(1));
    refuses(json!({"minimum": 1, "maximum": 3}), json!(4), &["(root): must be <= 3"]);
    refuses(json!({"minimum": 1}), json!(0.5), &["(root): must be >= 1"]);
    refuses(json!({"exclusiveMinimum": 1}), json!(1), &["(root): must be > 1"]);
    refuses(json!({"exclusiveMaximum": 1}), json!(1), &["(root): must be < 1"]);
    refuses(json!({"maximum": 1, "exclusiveMaximum": true}), json!(1), &["(root): must be < 1"]);
    accepts(json!({"multipleOf": 0.1}), json!(0.3));
    accepts(json!({"multipleOf": 0}), json!(7));
    refuses(json!({"multipleOf": 5}), json!(7), &["(root): must be a multiple of 5"]);
    accepts(json!({"minLength": 2, "maxLength": 2}), json!("éé"));
    refuses(json!({"minLength": 2}), json!("é"), &["(root): must have at least 2 character(s)"]);
    refuses(json!({"maxLength": 2}), json!("abc"), &["(root): must have at most 2 character(s)"]);
    refuses(json!({"minItems": 1}), json!([]), &["(root): must have at least 1 item(s)"]);
    refuses(json!({"maxItems": 1}), json!([1, 2]), &["(root): must have at most 1 item(s)"]);
    refuses(json!({"type": "integer", "maximum": 5}), json!("7"), &["(root): must be <= 5"]);
}

#[test]
fn fixed_values_are_compared_as_json_schema_does() {
    accepts(json!({"const": 1}), json!(1.0));
    accepts(json!({"enum": [null, {"a": [1]}]}), json!({"a": [1.0]}));
    refuses(json!({"const": "a"}), json!("b"), &["(root): must be \"a\""]);
    let many: Vec<u32> = (0..100).collect();
    let errors = validate(&json!({"enum": many}), json!(-1)).unwrap_err();
    assert!(errors.to_string().contains("19, and 80 more"), "{errors}");
}

#[test]
fn lists_may_have_a_prefix() {
    let schema =
        json!({"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "boolean"}});
    accepts(schema.clone(), json!(["a", 1, true, false]));
    refuses(schema, json!(["a", 1, 2]), &["[2]: must be boolean, not integer"]);
    refuses(
        json!({"items": [{"type": "string"}], "additionalItems": false}),
        json!(["a", 1]),
        &["[1]: is not allowed here"],
    );
}

#[test]
fn other_properties_may_be_allowed_refused_or_have_a_schema() {
    accepts(json!({"properties": {"a": {}}}), json!({"b": 1}));
    refuses(json!({"additionalProperties": false}), json!({"b": 1}), &["b: is not known"]);
    mends(json!({"additionalProperties": {"type": "integer"}}), json!({"b": "1"}), json!({"b": 1}));
    accepts(json!({"patternProperties": {"^x": {}}, "additionalProperties": false}), json!({"x1": 1}));
}

#[test]
fn alternatives_prefer_what_fits_without_change() {
    let either = json!({"anyOf": [{"type": "integer"}, {"type": "string"}]});
    accepts(either.clone(), json!("42"));
    accepts(either.clone(), json!(42));
    mends(json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}), json!("true"), json!(true));
    mends(json!({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}), json!("7"), json!(7));
    refuses(
        either,
        json!([]),
        &["(root): fits none of 2 alternatives; the closest: (root): must be integer, not array"],
    );
    refuses(
        json!({"oneOf": [{"type": "integer"}, {"minimum": 0}]}),
        json!(1),
        &["(root): fits 2 alternatives, but must fit exactly one"],
    );
    mends(json!({"allOf": [{"type": "integer"}, {"maximum": 9}]}), json!("9"), json!(9));
    refuses(json!({"allOf": [{"type": "integer"}, {"maximum": 9}]}), json!("10"), &["(root): must be <= 9"]);
    accepts(json!({"anyOf": []}), json!(1));
}

#[test]
fn in_a_tagged_alternative_the_errors_are_those_of_the_one_that_was_meant() {
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "move"}}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"const": "copy"}, "to": {"type": "string"}, "n": {"type": "integer"}}, "required": ["kind", "to"]},
    ]});
    refuses(
        schema.clone(),
        json!({"kind": "copy", "n": []}),
        &["to: is required", "n: must be integer, not array"],
    );
    let errors = validate(&schema, json!({"kind": "link"})).unwrap_err();
    assert!(errors.to_string().contains("kind: must be \"move\""), "{errors}");
}

#[test]
fn references_within_the_schema_are_followed() {
    let tree = json!({
        "$ref": "#/$defs/node",
        "$defs": {"node": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["v"],
        }},
    });
    mends(tree.clone(), json!({"v": "1", "next": {"v": "2"}}), json!({"v": 1, "next": {"v": 2}}));
    refuses(tree, json!({"v": 1, "next": {"next": {"v": 2}}}), &["next.v: is required"]);
    mends(
        json!({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "integer"}}}),
        json!("1"),
        json!(1),
    );
    accepts(json!({"$ref": "https://example.com/other.json"}), json!(1));
    accepts(json!({"$ref": "#/nowhere"}), json!(1));
}

#[test]
fn schemas_that_are_no_schemas_and_unknown_words_allow_everything() {
    for schema in [
        json!(null),
        json!(true),
        json!([]),
        json!("x"),
        json!({"type": 7}),
        json!({"type": "date"}),
        json!({"type": ["string", "date"]}),
        json!({"pattern": "^a"}),
        json!({"required": "a", "properties": 3, "enum": {}}),
    ] {
        accepts(schema, json!({"a": 1}));
    }
    refuses(json!(false), json!(1), &["(root): is not allowed here"]);
}

#[test]
fn schemas_that_never_end_and_choices_that_multiply_do_not_hang() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}, {"type": "string"}]}),
        json!({"oneOf": [{"$ref": "#"}, {"type": "integer"}, {"$ref": "#"}], "items": {"$ref": "#"}}),
        json!({"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#/properties/a"}]}}}),
    ] {
        let mut deep = json!({"a": "x".repeat(100_000)});
        for _ in 0..100 {
            deep = json!({ "a": deep });
        }
        let _ = validate(&schema, deep);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9{\\[\\]}\" ]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c]", inner), 0..4)
                .prop_map(|kv| Value::Object(kv.into_iter().collect())),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "type",
        "enum",
        "const",
        "required",
        "properties",
        "additionalProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minLength",
        "maximum",
        "minimum",
        "exclusiveMinimum",
        "multipleOf",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "nullable",
        "$defs",
    ]);
    let leaf = prop_oneof![
        any_json(),
        prop::sample::select(vec![
            "null", "boolean", "integer", "number", "string", "array", "object", "#", "#/items"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((words.clone(), inner.clone()), 0..6)
                .prop_map(|kv| Value::Object(kv.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
            prop::collection::vec(("[a-c]", inner), 0..4)
                .prop_map(|kv| Value::Object(kv.into_iter().collect())),
        ]
    })
}

/// A schema and a value that is valid by it.
fn schema_and_value() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(|n| (json!({"type": "integer", "minimum": n}), json!(n))),
        (-1e9..1e9_f64).prop_map(|n| (json!({"type": "number", "maximum": n}), json!(n))),
        any::<bool>().prop_map(|b| (json!({"type": ["boolean", "null"]}), json!(b))),
        "\\PC{0,12}".prop_map(|s| (json!({"type": "string", "maxLength": s.chars().count()}), json!(s))),
        "\\PC{0,12}".prop_map(|s| (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), json!(s))),
        any_json().prop_map(|v| (json!({"const": v}), v)),
        any_json().prop_map(|v| (json!(true), v)),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let object = prop::collection::vec(inner.clone(), 0..4).prop_map(|parts| {
            let names = ["a", "b", "c", "d"];
            let properties: serde_json::Map<String, Value> =
                names.iter().zip(&parts).map(|(n, (s, _))| ((*n).to_owned(), s.clone())).collect();
            let required: Vec<&str> = names.into_iter().take(parts.len()).collect();
            let value: serde_json::Map<String, Value> =
                names.iter().zip(parts).map(|(n, (_, v))| ((*n).to_owned(), v)).collect();
            (
                json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}),
                Value::Object(value),
            )
        });
        let array = (inner, 0..4_usize)
            .prop_map(|((s, v), n)| (json!({"type": "array", "items": s, "maxItems": n}), Value::Array(vec![v; n])));
        prop_oneof![object, array]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// B-087.
    #[test]
    fn a_valid_value_passes_unchanged((schema, value) in schema_and_value()) {
        prop_assert_eq!(validate(&schema, value.clone()), Ok(value), "{}", schema);
    }

    /// A look tells whether there is anything to put right or to say.
    #[test]
    fn what_fits_as_it_is_is_what_the_whole_check_leaves_alone((fits, own) in schema_and_value(), schema in any_schema(), value in any_json()) {
        for (schema, value) in [(&fits, own), (&fits, value.clone()), (&schema, value)] {
            prop_assert_eq!(validate(schema, value.clone()), super::walk::corrected(schema, value), "{}", schema);
        }
    }

    #[test]
    fn no_schema_and_no_value_make_it_panic_and_its_result_is_stable(schema in any_schema(), value in any_json()) {
        if let Ok(fixed) = validate(&schema, value) {
            let _ = validate(&schema, fixed);
        }
    }
}
