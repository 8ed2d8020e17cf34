//! Schemas as models get them.

use agent_core::AgentTool as _;
use serde_json::{Value, json};

use super::support::{CONSTRUCTS, MODERN, adapter, one, tool};

fn body(spec: &str, id: &str) -> Value {
    tool(&adapter(spec), id).parameters_schema()["properties"]["body"].clone()
}

/// The schema of a body, as it is and as a model gets it.
#[track_caller]
fn check(schema: Value, expected: Value) {
    let content = json!({"content": {"application/json": {"schema": schema}}});
    assert_eq!(body(&one("/x", "post", json!({"requestBody": content})), "call"), expected);
}

#[test]
fn what_3_0_says_is_said_in_the_words_of_2020_12() {
    check(json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]}));
    check(
        json!({"type": "string", "nullable": true, "enum": ["a"]}),
        json!({"type": ["string", "null"], "enum": ["a", null]}),
    );
    check(
        json!({"nullable": true, "anyOf": [{"type": "string"}]}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
    );
    check(json!({"nullable": true}), json!({}));
    check(
        json!({"type": "number", "minimum": 1, "exclusiveMinimum": true}),
        json!({"type": "number", "exclusiveMinimum": 1}),
    );
    check(
        json!({"type": "number", "maximum": 1, "exclusiveMaximum": false}),
        json!({"type": "number", "maximum": 1}),
    );
}

#[test]
fn what_is_for_others_is_left_out() {
    let noise = json!({
        "type": "object", "properties": {}, "example": {}, "examples": [], "xml": {}, "externalDocs": {}, "title": "T",
        "discriminator": {"propertyName": "x"}, "x-y": 1, "deprecated": true, "$comment": "c", "$id": "i", "$schema": "s",
        "if": {}, "then": {}, "unevaluatedProperties": false, "dependentSchemas": {}, "writeOnly": true,
    });
    check(noise, json!({"type": "object", "properties": {}}));
}

#[test]
fn what_is_broken_is_left_open() {
    check(json!({"type": "file"}), json!({}));
    check(json!({"type": ["string", "what"]}), json!({"type": "string"}));
    check(json!({"type": "array"}), json!({"type": "array", "items": {}}));
    check(json!({"type": "object", "required": true}), json!({"type": "object"}));
    check(json!({"type": "integer", "minimum": "1", "enum": []}), json!({"type": "integer"}));
    check(json!({"$ref": "other.json#/X"}), json!({}));
    check(json!({"$ref": "#/nowhere"}), json!({}));
    check(json!([1]), json!({}));
    check(json!(true), json!({}));
    // An alternative that takes everything makes the others mean nothing.
    check(json!({"oneOf": [{"type": "string"}, {}]}), json!({}));
}

#[test]
fn alternatives_are_any_of() {
    check(
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
    );
    check(json!({"not": {"enum": ["a"]}}), json!({"not": {"enum": ["a"]}}));
    check(json!({"not": {"type": "object", "properties": {"a": {}}}}), json!({}));
}

#[test]
fn parts_of_one_object_become_one() {
    let part = |name: &str| json!({"type": "object", "required": [name], "properties": {name: {"type": "string"}}, "additionalProperties": false});
    check(
        json!({"description": "both", "allOf": [part("a"), part("b")]}),
        json!({"description": "both", "type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
    );
    let other = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    check(json!({"allOf": [part("a"), other.clone()]}), json!({"allOf": [part("a"), other]}));
}

#[test]
fn references_are_put_in_and_fields_that_a_model_cannot_set_are_not() {
    assert_eq!(
        body(CONSTRUCTS, "putThing"),
        json!({
            "required": ["name", "kind"],
            "type": "object",
            "description": "the thing",
            "properties": {
                "name": {"type": ["string", "null"]},
                "kind": {"type": ["string", "null"], "enum": ["a", "b", null]},
                "size": {"type": "number", "exclusiveMaximum": 10},
                "owner": {"anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
                    {"type": "null"},
                ]},
                "secret": {"type": "string"},
            },
        })
    );
    let parameters = tool(&adapter(CONSTRUCTS), "getThing").parameters_schema();
    assert_eq!(
        parameters["properties"]["thingId"],
        json!({"type": "string", "minLength": 1, "description": "which"})
    );
    assert_eq!(
        parameters["properties"]["verbose"],
        json!({"type": "boolean", "description": "of the operation"})
    );
    assert_eq!(
        (&parameters["required"], &parameters["additionalProperties"]),
        (&json!(["thingId"]), &json!(false))
    );
}

#[test]
fn circles_end_after_one_round() {
    let node = |parent: Value, children: Value| json!({"type": "object", "properties": {"value": {"type": "string"}, "parent": parent, "children": {"type": "array", "items": children}}});
    let cut = json!({"type": "object"});
    assert_eq!(body(CONSTRUCTS, "addNode"), node(cut.clone(), cut));
    check(json!({"$ref": "#/paths/~1x/post/requestBody/content/application~1json/schema"}), json!({}));
}

#[test]
fn schemas_of_3_1_are_understood() {
    let place = |description: Option<&str>| {
        let mut place = json!({"type": "object", "properties": {
            "name": {"type": "string"}, "depth": {"type": "integer"}, "inside": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        }});
        if let Some(text) = description {
            place["description"] = json!(text);
        }
        place
    };
    let search = body(MODERN, "search");
    assert_eq!(
        search["properties"],
        json!({
            "query": {"type": ["string", "null"]},
            "limit": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 101},
            "kind": {"const": "web"},
            "pair": {"type": "array", "items": {"not": {}}, "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            "any": {},
            "never": {"not": {}},
            "place": place(Some("where to look")),
            "depth": {"type": "integer"},
            "slash~": {"type": "string", "minLength": 2},
        })
    );
    assert_eq!(search["additionalProperties"], json!({"type": "string"}));
}

/// JSON Schema requires at least one schema in `prefixItems`.
#[test]
fn an_empty_list_of_first_items_is_left_out() {
    check(
        json!({"type": "array", "prefixItems": [], "items": false}),
        json!({"type": "array", "items": {"not": {}}}),
    );
}

#[test]
fn files_are_base64_for_a_model() {
    let upload = body(CONSTRUCTS, "upload");
    let base64 = json!({"type": "string", "contentEncoding": "base64"});
    assert_eq!(
        upload["properties"]["file"],
        json!({"type": "string", "contentEncoding": "base64", "description": "the file"})
    );
    assert_eq!(upload["properties"]["more"], json!({"type": "array", "items": base64}));
    assert_eq!(body(CONSTRUCTS, "putBytes")["contentEncoding"], "base64");
}

/// No vendor looks at them there, and under another name the API would not know them.
#[test]
fn names_inside_of_a_body_are_those_of_the_description() {
    check(
        json!({"type": "object", "properties": {"@odata.type": {}, "a b": {"properties": {"$id": {}}}}, "required": ["a b"]}),
        json!({"type": "object", "properties": {"@odata.type": {}, "a b": {"properties": {"$id": {}}}}, "required": ["a b"]}),
    );
}

#[test]
fn names_of_arguments_are_valid_for_every_provider() {
    let schema = tool(&adapter(CONSTRUCTS), "styles.queries").parameters_schema();
    let names: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(names.contains(&"_top") && names.contains(&"filter_name_"), "{names:?}");
    // Those that are credentials are none.
    assert!(
        ["Authorization", "key", "session", "theme"].iter().all(|name| !names.contains(name)),
        "{names:?}"
    );
    let clash = tool(&adapter(CONSTRUCTS), "clash").parameters_schema();
    let names: Vec<&str> = clash["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["id", "query_id", "body", "header_id", "_request_body"]);
}
