use serde_json::{Value, json};

use super::grammar;

#[track_caller]
fn check(schema: &Value, expect: Option<&Value>) {
    assert_eq!(grammar(schema).as_ref(), expect, "{schema}");
}

#[test]
fn bounds_are_told_alternatives_are_any_of_and_objects_are_closed() {
    check(
        &json!({"type": "object", "properties": {
            "n": {"type": "integer", "minimum": 0, "maximum": 9, "description": "How many."},
            "t": {"type": "string", "minLength": 1, "pattern": "^a", "format": "date"},
            "l": {"type": "array", "items": {"type": "string", "format": "uint32"}, "minItems": 2},
            "m": {"type": "array", "items": {"type": "boolean"}, "minItems": 1},
            "e": {"oneOf": [{"const": 1}, {"type": ["object", "null"], "properties": {}}]}
        }, "required": ["n"], "$schema": "x"}),
        Some(&json!({"type": "object", "properties": {
            "n": {"type": "integer", "description": "How many.\n\n{minimum: 0, maximum: 9}"},
            "t": {"type": "string", "format": "date", "description": "{minLength: 1, pattern: \"^a\"}"},
            "l": {"type": "array", "items": {"type": "string", "description": "{format: \"uint32\"}"},
                "description": "{minItems: 2}"},
            "m": {"type": "array", "items": {"type": "boolean"}, "minItems": 1},
            "e": {"anyOf": [{"const": 1}, {"type": ["object", "null"], "properties": {}, "additionalProperties": false}]}
        }, "required": ["n"], "additionalProperties": false})),
    );
}

#[test]
fn what_no_answer_can_be_held_to_has_no_grammar() {
    for open in [
        json!(true),
        json!({}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "properties": {"any": {}}}),
        json!({"type": "array", "prefixItems": [{"type": "string"}]}),
        json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}},
            "b": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}),
        json!({"$ref": "#/$defs/nowhere"}),
        (0..100).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner})),
    ] {
        check(&open, None);
    }
    let shared = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "#/$defs/t"}},
        "$defs": {"t": {"type": "string"}}, "additionalProperties": false});
    check(&shared, Some(&shared));
}
