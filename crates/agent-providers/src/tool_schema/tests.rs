use serde_json::{Value, json};

use super::declared;

#[track_caller]
fn check(parameters: &Value, expected: &Value) {
    let found = declared(parameters);
    assert_eq!(found, *expected, "{found:#}");
    assert_eq!(declared(&found), found, "what is declared is declared as it is");
}

#[test]
fn a_schema_that_every_vendor_takes_stays_byte_for_byte() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file"},
            "limit": {"type": ["integer", "null"], "minimum": 1},
            "edits": {"type": "array", "items": {"type": "object", "properties": {}, "additionalProperties": false}},
        },
        "required": ["path"],
        "additionalProperties": false
    });
    assert_eq!(declared(&schema).to_string(), schema.to_string());
}

#[test]
fn the_root_is_an_object_with_properties() {
    let empty = json!({"type": "object", "properties": {}});
    check(&json!({}), &empty);
    check(&Value::Null, &empty);
    check(&json!({"type": "object"}), &empty);
    check(&json!({"type": "string"}), &empty);
    check(
        &json!({"$schema": "http://json-schema.org/draft-07/schema#", "title": "T", "type": "object"}),
        &empty,
    );
    check(&json!({"enum": ["a"], "not": {"required": ["b"]}, "const": 1}), &empty);
}

#[test]
fn alternatives_at_the_root_become_one_object_whose_fields_say_where_they_belong() {
    let action = json!({
        "type": "object",
        "oneOf": [
            {"type": "object", "properties": {"kind": {"type": "string", "const": "move"}, "to": {"type": "string"}}, "required": ["kind", "to"]},
            {"type": "object", "properties": {"kind": {"type": "string", "const": "stop"}}, "required": ["kind"]},
        ]
    });
    check(
        &action,
        &json!({
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["move", "stop"]},
                "to": {"type": "string", "description": "Only with kind \"move\"."},
            },
            "required": ["kind"],
        }),
    );
}

#[test]
fn what_one_of_several_fields_must_be_there_for_is_dropped_and_the_fields_stay() {
    check(
        &json!({
            "type": "object",
            "properties": {"id": {"type": "string"}, "path": {"type": "string"}, "deep": {"type": "boolean"}},
            "required": ["deep"],
            "anyOf": [{"required": ["id"]}, {"required": ["path"]}],
        }),
        &json!({
            "type": "object",
            "properties": {"id": {"type": "string"}, "path": {"type": "string"}, "deep": {"type": "boolean"}},
            "required": ["deep"],
        }),
    );
}

#[test]
fn all_of_is_the_sum_of_its_parts() {
    check(
        &json!({
            "allOf": [{"$ref": "#/$defs/page"}, {"properties": {"name": {"type": "string"}}, "required": ["name"]}],
            "$defs": {"page": {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}},
        }),
        &json!({
            "type": "object",
            "properties": {"page": {"type": "integer"}, "name": {"type": "string"}},
            "required": ["page", "name"],
        }),
    );
}

#[test]
fn references_are_written_out_and_a_type_that_holds_itself_ends() {
    check(
        &json!({
            "$ref": "#/$defs/Node",
            "$defs": {"Node": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}},
                "required": ["name"],
            }},
        }),
        &json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "next": {"type": "object"}},
            "required": ["name"],
        }),
    );
    let whole =
        json!({"type": "object", "properties": {"again": {"$ref": "#"}, "lost": {"$ref": "other.json#/x"}}});
    let once = json!({"type": "object", "properties": {"again": {"type": "object", "properties": {
        "again": {"type": "object"}, "lost": {}}}, "lost": {}}});
    check(&whole, &once);
}

#[test]
fn older_drafts_are_put_right() {
    for (from, to) in [
        (json!({"type": "array"}), json!({"type": "array", "items": {}})),
        (json!({"type": ["array", "null"]}), json!({"type": ["array", "null"], "items": {}})),
        (
            json!({"type": "array", "items": [{"type": "string"}, true], "additionalItems": false}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {}], "items": {"not": {}}}),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}]}),
            json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {}}),
        ),
        (
            json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}),
            json!({"type": "number", "exclusiveMinimum": 0}),
        ),
        (
            json!({"type": "number", "maximum": 9, "exclusiveMaximum": false}),
            json!({"type": "number", "maximum": 9}),
        ),
        (json!({"type": "any"}), json!({})),
        (json!({"type": "string", "required": true}), json!({"type": "string"})),
        (json!({"type": "string", "enum": []}), json!({"type": "string"})),
        (json!(true), json!({})),
        (json!(false), json!({"not": {}})),
        (json!({"anyOf": []}), json!({})),
    ] {
        let object = |field: &Value| json!({"type": "object", "properties": {"x": field}});
        check(&object(&from), &object(&to));
    }
}

#[test]
fn references_that_double_at_each_step_end_in_bounded_size() {
    let mut defs = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    let schema = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    let size = declared(&schema).to_string().len();
    assert!(size < 4 << 20, "{size}");
}

#[test]
fn a_schema_without_end_ends() {
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"type": "object", "properties": {"x": deep}});
    }
    assert!(declared(&deep).to_string().len() < 100 * 50);
}
