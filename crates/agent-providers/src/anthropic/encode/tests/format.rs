use agent_core::{ErrorKind, ResponseFormat, ToolChoice};

use super::super::Named;
use super::*;
use crate::anthropic::encode::response_tool;

fn schema() -> Value {
    json!({"type": "object", "properties": {"list": {"type": "array", "items": {"type": "object", "properties": {}}}}})
}

fn wanting(id: &str, format: ResponseFormat) -> ModelRequest {
    let mut asked = with_model(asking("hi"), |m| m.id = id.into());
    asked.options.response_format = format;
    asked
}

fn by_schema(strict: bool) -> ResponseFormat {
    ResponseFormat::JsonSchema { name: "answer".into(), schema: schema(), strict }
}

#[test]
fn a_schema_goes_to_the_vendor_where_its_models_know_schemas() {
    for id in ["claude-sonnet-4-6", "claude-of-next-year"] {
        let asked = wanting(id, by_schema(false));
        let sent = body(&asked);
        assert_eq!(sent["output_config"]["format"]["type"], "json_schema");
        assert!(sent.get("tools").is_none() && response_tool(&asked).is_none());
    }
}

#[test]
fn a_schema_is_closed_everywhere_as_the_vendor_demands() {
    for strict in [true, false] {
        let sent = body(&wanting("claude-sonnet-4-6", by_schema(strict)));
        assert_eq!(
            sent["output_config"]["format"]["schema"],
            json!({"type": "object", "additionalProperties": false, "properties": {"list": {"type": "array",
                "items": {"type": "object", "properties": {}, "additionalProperties": false}}}})
        );
    }
}

#[test]
fn a_schema_that_no_answer_can_be_held_to_goes_as_a_tool_or_is_refused() {
    let open = || ResponseFormat::JsonSchema {
        name: "n".into(),
        schema: json!({"type": "object", "additionalProperties": {"type": "string"}}),
        strict: false,
    };
    let asked = wanting("claude-sonnet-4-6", open());
    assert_eq!(body(&asked)["tool_choice"], json!({"type": "tool", "name": "respond_json"}));
    assert_eq!(response_tool(&asked).as_deref(), Some("respond_json"));
    let error = super::super::body(&wanting("claude-opus-5-5", open()), Named::InBody).unwrap_err();
    assert!(error.to_string().contains("open parts"), "{error}");
}

#[test]
fn a_model_of_somebody_else_answers_through_a_tool() {
    let mut asked = wanting("claude-of-a-gateway", by_schema(true));
    asked = with_model(asked, |m| m.base_url = Some("http://localhost:1".into()));
    let sent = body(&asked);
    assert_eq!(sent["tool_choice"], json!({"type": "tool", "name": "respond_json"}));
    assert_eq!(sent["tools"][0]["name"], "respond_json");
    assert_eq!(sent["tools"][0]["input_schema"], schema());
    assert!(sent.get("output_config").is_none());
    assert_eq!(response_tool(&asked).as_deref(), Some("respond_json"));
}

#[test]
fn the_answering_tool_stands_beside_the_callers_tools_and_never_takes_a_name() {
    let mut asked = wanting("claude-sonnet-4-6", ResponseFormat::JsonObject);
    asked.tools = tools(&["read", "respond_json"]).into();
    let sent = body(&asked);
    let names: Vec<&str> =
        sent["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "respond_json", "respond_json_2"]);
    assert_eq!(sent["tool_choice"], json!({"type": "any"}), "the model may still call the others first");
    assert_eq!(response_tool(&asked).as_deref(), Some("respond_json_2"));
    asked.options.tool_choice = ToolChoice::None;
    assert_eq!(body(&asked)["tool_choice"], json!({"type": "tool", "name": "respond_json_2"}));
}

#[test]
fn a_model_that_takes_no_demand_needs_a_schema() {
    let error = super::super::body(&wanting("claude-opus-5-5", ResponseFormat::JsonObject), Named::InBody)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.to_string().contains("JsonSchema"), "{error}");
    assert!(super::super::body(&wanting("claude-opus-5-5", by_schema(true)), Named::InBody).is_ok());
}
