use serde_json::{Value, json};

use super::Arguments;

#[track_caller]
fn check(schema: &Value, seen: &Value, sent: Value, received: &Value) {
    let arguments = Arguments::new(schema);
    assert_eq!(arguments.schema(schema).to_string(), seen.to_string());
    assert_eq!(arguments.for_server(sent).to_string(), received.to_string());
}

#[test]
fn names_that_every_vendor_takes_stay_and_the_schema_with_them() {
    let schema = json!({"type": "object", "properties": {"a.b-c_1": {"properties": {"$deep": {}}}}});
    let sent = json!({"a.b-c_1": {"$deep": 1}, "$other": 2});
    check(&schema, &schema, sent.clone(), &sent);
}

#[test]
fn other_names_are_told_otherwise_in_their_place_and_the_server_gets_its_own() {
    check(
        &json!({
            "type": "object",
            "properties": {"$top": {"type": "integer"}, "filter[name]": {}, "q": {}, "": {}, "é": {}},
            "required": ["q", "filter[name]"],
            "dependentRequired": {"$top": ["filter[name]", "q"]},
        }),
        &json!({
            "type": "object",
            "properties": {"_top": {"type": "integer"}, "filter_name_": {}, "q": {}, "_": {}, "__2": {}},
            "required": ["q", "filter_name_"],
            "dependentRequired": {"_top": ["filter_name_", "q"]},
        }),
        json!({"filter_name_": {"_top": 1}, "_top": 5, "__2": 6, "q": "$top"}),
        &json!({"filter[name]": {"_top": 1}, "$top": 5, "é": 6, "q": "$top"}),
    );
}

#[test]
fn a_name_that_the_server_has_itself_is_never_taken_from_it() {
    check(
        &json!({"properties": {"a b": {}, "a+b": {}, "a_b": {}}}),
        &json!({"properties": {"a_b_2": {}, "a_b_3": {}, "a_b": {}}}),
        json!({"a_b": 1, "a_b_2": 2, "a_b_3": 3}),
        &json!({"a_b": 1, "a b": 2, "a+b": 3}),
    );
    let long = "x".repeat(65);
    check(
        &json!({"properties": {long.clone(): {}, "x".repeat(64): {}}}),
        &json!({"properties": {format!("{}_2", "x".repeat(62)): {}, "x".repeat(64): {}}}),
        json!({format!("{}_2", "x".repeat(62)): 1}),
        &json!({long: 1}),
    );
}

#[test]
fn alternatives_at_the_root_have_the_same_names_and_deeper_ones_their_own() {
    check(
        &json!({
            "properties": {"x": {"properties": {"$id": {}}, "required": ["$id"]}},
            "oneOf": [{"properties": {"$id": {}}, "required": ["$id"]}, {"allOf": [{"properties": {"$id": {}, "$n": {}}}]}],
            "not": {"required": ["$id", "$n"]},
        }),
        &json!({
            "properties": {"x": {"properties": {"$id": {}}, "required": ["$id"]}},
            "oneOf": [{"properties": {"_id": {}}, "required": ["_id"]}, {"allOf": [{"properties": {"_id": {}, "_n": {}}}]}],
            "not": {"required": ["_id", "_n"]},
        }),
        json!({"_id": 1, "x": {"$id": 2}}),
        &json!({"$id": 1, "x": {"$id": 2}}),
    );
}

#[test]
fn names_behind_a_reference_at_the_root_count_as_its_own() {
    let defs = json!({"Q": {"properties": {"$top": {"$ref": "#/$defs/Q"}}}});
    check(
        &json!({"type": "object", "properties": {}, "$ref": "#/$defs/Q", "$defs": defs}),
        &json!({
            "type": "object", "properties": {}, "$defs": defs,
            "allOf": [{"properties": {"_top": {"$ref": "#/$defs/Q"}}}],
        }),
        json!({"_top": {"$top": {}}}),
        &json!({"$top": {"$top": {}}}),
    );
}

#[test]
fn references_that_double_at_each_step_end() {
    let mut defs = serde_json::Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
        defs.insert(n.to_string(), json!({"allOf": [next, next], "properties": {"$x": {}}}));
    }
    let schema = json!({"$ref": "#/$defs/0", "$defs": defs});
    let arguments = Arguments::new(&schema);
    assert!(arguments.schema(&schema).to_string().len() < 20_000);
    assert_eq!(arguments.for_server(json!({"_x": 1})), json!({"$x": 1}));
}
