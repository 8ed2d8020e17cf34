//! What each vendor is told of tools, held against what it takes.
//!
//! The tools are the built-in ones, a sub-agent, typed tools of every shape, and tools as servers of the Model Context Protocol
//! list them. The rules are those of the vendors' documentation and of what they answer where that says nothing; each is named
//! where it is checked. A request with one tool that is refused is refused whole.

#![cfg(feature = "full")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use looptree::CancellationToken;
use looptree::ProviderRegistry;
use std::sync::{Arc, Mutex};

use looptree::history::History;
use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::provider::ModelRequest;
use looptree::tool::ToolDefinition;
use looptree::tool::argument_schema;
use looptree::tools::SubAgentTool;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// A model of each protocol. Nobody listens at their address.
fn models() -> Vec<ModelConfig> {
    [
        ModelConfig::anthropic("claude-sonnet-4-6", "m", "key"),
        ModelConfig::openai("gpt-5.5", "m", "key"),
        ModelConfig::openai_responses("gpt-5.4", "m", "key"),
        ModelConfig::azure("http://127.0.0.1:9", "gpt-5.4", "key"),
        ModelConfig::google("gemini-3.5-flash", "m", "key"),
        ModelConfig::vertex("a-project", "europe-west4", "gemini-2.5-pro").with_api_key("ya29.token"),
        ModelConfig::bedrock("eu-west-3", "global.anthropic.claude-opus-4-8")
            .with_api_key("id:secret:session"),
        ModelConfig::bedrock("eu-west-3", "eu.amazon.nova-pro-v1:0").with_api_key("id:secret:session"),
        ModelConfig::ollama("qwen3-vl").with_api_key("key"),
    ]
    .map(|model| looptree::providers::catalogue::configure(model).with_base_url("http://127.0.0.1:9"))
    .into()
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Wide {
    /// A number with bounds.
    #[schemars(range(min = 1, max = 9))]
    count: u8,
    /// A tuple, which is a list of its own kinds.
    pair: (String, i64),
    /// Anything.
    anything: Value,
    list: Vec<Value>,
    map: std::collections::BTreeMap<String, Point>,
    maybe: Option<Point>,
    either: Either,
    unit: (),
    letter: char,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Point {
    x: f64,
    y: f64,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
#[serde(untagged)]
enum Either {
    Name(String),
    Place(Point),
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Action {
    /// Goes there.
    Move {
        /// Where to.
        to: String,
    },
    Draw(Point),
    Stop,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
enum Nested {
    Add { left: i64, right: i64 },
    Not(bool),
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
#[serde(deny_unknown_fields)]
struct Closed {
    #[serde(flatten)]
    point: Point,
}

/// Every kind of tool.
fn tools() -> Vec<ToolDefinition> {
    let sub_agent: Arc<dyn AgentTool> = Arc::new(SubAgentTool::new("helper", ModelConfig::default()));
    let mut all: Vec<ToolDefinition> = default_tools()
        .iter()
        .chain([&sub_agent])
        .map(|t| ToolDefinition::new(t.name(), t.description(), t.parameters_schema()))
        .collect();
    for (name, schema) in [
        ("typed_wide", argument_schema::<Wide>()),
        ("typed_action", argument_schema::<Action>()),
        ("typed_nested", argument_schema::<Nested>()),
        ("typed_tree", argument_schema::<Tree>()),
        ("typed_trees", argument_schema::<Vec<Tree>>()),
        ("typed_closed", argument_schema::<Closed>()),
        ("typed_nothing", argument_schema::<()>()),
        ("typed_anything", argument_schema::<Value>()),
        ("typed_number", argument_schema::<u64>()),
        // As servers list them.
        (
            "mcp_zod",
            json!({
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object", "additionalProperties": false,
                "properties": {
                    "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                    "size": {"type": "number", "exclusiveMinimum": 0},
                    "tuple": {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": false},
                    "same": {"$ref": "#/properties/mode"}
                }
            }),
        ),
        (
            "mcp_pydantic",
            json!({
                "type": "object", "title": "Arguments",
                "properties": {"filter": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}], "default": null}, "raw": true},
                "required": ["filter"],
                "$defs": {"Filter": {"type": "object", "properties": {
                    "op": {"const": "and", "type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/Filter"}}}}}
            }),
        ),
        (
            "mcp_union",
            json!({
                "type": "object",
                "properties": {"id": {"type": "string"}, "path": {"type": "string"}},
                "oneOf": [{"required": ["id"]}, {"required": ["path"]}], "not": {"required": ["id", "path"]}
            }),
        ),
        (
            "mcp_draft4",
            json!({
                "type": "object", "id": "x", "required": true,
                "properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "required": true}, "l": {"type": "array"}}
            }),
        ),
        ("mcp_empty", json!({"type": "object"})),
        ("mcp_null", Value::Null),
    ] {
        all.push(ToolDefinition::new(name, "A tool.", schema));
    }
    all
}

/// The tools as they are sent to the model's vendor: the body, and name and schema of each.
async fn sent(model: &ModelConfig) -> (Value, Vec<(String, Value)>) {
    let mut history = History::new();
    history.push("hello".into()).unwrap();
    let mut asking = ModelRequest::new(model.clone(), history);
    asking.tools = tools().into();
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let book = Arc::clone(&bodies);
    asking.options.wire_hooks.on_request =
        Some(Arc::new(move |request| book.lock().unwrap().push(request.body.to_vec())));
    let provider = ProviderRegistry::default();
    let refused = looptree::provider::complete(&provider, &asking, &CancellationToken::new()).await;
    let bodies = std::mem::take(&mut *bodies.lock().unwrap());
    let body = bodies.first().unwrap_or_else(|| panic!("{}: nothing was sent: {refused:?}", model.api));
    let body: Value = serde_json::from_slice(body).unwrap();
    let (list, name, schema) = match model.api {
        ApiProtocol::AnthropicMessages => ("/tools", "/name", "/input_schema"),
        ApiProtocol::OpenAiCompletions | ApiProtocol::OllamaChat => {
            ("/tools", "/function/name", "/function/parameters")
        }
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => {
            ("/tools/0/functionDeclarations", "/name", "/parametersJsonSchema")
        }
        ApiProtocol::BedrockConverseStream => {
            ("/toolConfig/tools", "/toolSpec/name", "/toolSpec/inputSchema/json")
        }
        _ => ("/tools", "/name", "/parameters"),
    };
    let tools: Vec<(String, Value)> = body
        .pointer(list)
        .and_then(Value::as_array)
        .unwrap_or_else(|| panic!("{}: no tools in {body}", model.api))
        .iter()
        // A mark for the cache stands among Bedrock's.
        .filter(|tool| tool.get("cachePoint").is_none())
        .map(|tool| {
            (tool.pointer(name).unwrap().as_str().unwrap().to_owned(), tool.pointer(schema).unwrap().clone())
        })
        .collect();
    (body, tools)
}

const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// Every schema within one, with the way to it.
fn each<'a>(schema: &'a Value, at: &str, check: &mut impl FnMut(&'a Value, &str)) {
    check(schema, at);
    let Some(object) = schema.as_object() else { return };
    for (key, value) in object {
        let at = format!("{at}/{key}");
        match (key.as_str(), value) {
            ("properties" | "patternProperties" | "dependentSchemas" | "$defs", Value::Object(parts)) => {
                parts.iter().for_each(|(name, part)| each(part, &format!("{at}/{name}"), check));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(parts)) => {
                parts.iter().for_each(|part| each(part, &at, check));
            }
            ("items" | "contains" | "not" | "if" | "then" | "else" | "propertyNames", part) => {
                each(part, &at, check)
            }
            ("additionalProperties" | "unevaluatedProperties", part @ Value::Object(_)) => {
                each(part, &at, check)
            }
            _ => {}
        }
    }
}

/// Draft 2020-12, written out: what Anthropic checks, and what nobody minds.
#[track_caller]
fn check_draft(name: &str, schema: &Value) {
    each(schema, name, &mut |schema, at| {
        let Some(object) = schema.as_object() else { panic!("{at}: a schema that is {schema}") };
        for (key, value) in object {
            let is_right = match key.as_str() {
                "$ref" | "$defs" | "definitions" | "$schema" | "additionalItems" => false,
                "type" => match value {
                    Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(is_type),
                    kind => is_type(kind),
                },
                "properties" => value.is_object(),
                "required" => value.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
                "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                    value.as_array().is_some_and(|p| !p.is_empty())
                }
                "items" => value.is_object(),
                "exclusiveMinimum" | "exclusiveMaximum" | "minimum" | "maximum" => value.is_number(),
                "description" => value.is_string(),
                _ => true,
            };
            assert!(is_right, "{at}: {key}: {value}");
        }
    });
}

fn is_type(kind: &Value) -> bool {
    kind.as_str().is_some_and(|kind| TYPES.contains(&kind))
}

/// `schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level`, `object schema missing
/// properties`, `array schema missing items`.
#[track_caller]
fn check_openai(name: &str, schema: &Value) {
    assert_eq!(schema["type"], "object", "{name}");
    assert!(schema["properties"].is_object(), "{name}");
    for key in ["oneOf", "anyOf", "allOf", "enum", "not"] {
        assert!(schema.get(key).is_none(), "{name}: {key} at the root");
    }
    each(schema, name, &mut |schema, at| {
        let kind = &schema["type"];
        let is_array =
            kind == "array" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("array")));
        assert!(
            !is_array || schema.get("items").is_some_and(Value::is_object),
            "{at}: an array without items"
        );
    });
}

/// `input_schema does not support oneOf, allOf, or anyOf at the top level`, and names of `[a-zA-Z0-9_.-]{1,64}`.
#[track_caller]
fn check_anthropic(name: &str, schema: &Value) {
    assert_eq!(schema["type"], "object", "{name}");
    for key in ["oneOf", "anyOf", "allOf"] {
        assert!(schema.get(key).is_none(), "{name}: {key} at the root");
    }
    for property in schema["properties"].as_object().unwrap().keys() {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        assert!(property.len() <= 64 && property.chars().all(is_good), "{name}: {property}");
    }
}

/// Nova: the root has `type`, `properties` and `required`, and nothing else.
#[track_caller]
fn check_nova(name: &str, schema: &Value) {
    check_anthropic(name, schema);
    let keys: Vec<&String> = schema.as_object().unwrap().keys().collect();
    assert!(
        keys.iter().all(|key| ["type", "properties", "required"].contains(&key.as_str())),
        "{name}: {keys:?}"
    );
}

/// `parametersJsonSchema`: an object whose properties are the parameters.
#[track_caller]
fn check_gemini(name: &str, schema: &Value) {
    assert_eq!(schema["type"], "object", "{name}");
    assert!(schema["properties"].is_object() && schema.get("anyOf").is_none(), "{name}");
}

/// What Ollama's server reads a tool into: a structure with these types. A value of another kind is status 400.
#[track_caller]
fn check_ollama(name: &str, schema: &Value) {
    assert!(schema["type"].is_string(), "{name}");
    assert_ollama(name, schema.as_object().unwrap());
}

#[track_caller]
fn assert_ollama(at: &str, part: &Map<String, Value>) {
    let strings = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
    for (key, value) in part {
        let fits = match key.as_str() {
            "type" => value.is_string() || strings(value),
            "required" => strings(value),
            "description" => value.is_string(),
            "enum" => value.is_array(),
            "anyOf" => value.as_array().is_some_and(|all| all.iter().all(Value::is_object)),
            "properties" => value.as_object().is_some_and(|all| all.values().all(Value::is_object)),
            _ => true,
        };
        assert!(fits, "{at}: {key}: {value}");
    }
    for (name, inner) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
        assert_ollama(&format!("{at}/{name}"), inner.as_object().unwrap());
    }
    for inner in part.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        assert_ollama(at, inner.as_object().unwrap());
    }
}

#[tokio::test]
async fn every_vendor_is_told_of_tools_as_it_takes_them() {
    for model in models() {
        let (body, tools_) = sent(&model).await;
        let names: Vec<String> = tools().iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(tools_.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names, "{}", model.api);
        for (name, schema) in &tools_ {
            let name = &format!("{} {name}", model.api);
            check_draft(name, schema);
            match model.api {
                ApiProtocol::AnthropicMessages => check_anthropic(name, schema),
                ApiProtocol::OpenAiCompletions
                | ApiProtocol::OpenAiResponses
                | ApiProtocol::AzureOpenAiResponses => check_openai(name, schema),
                ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => check_gemini(name, schema),
                ApiProtocol::BedrockConverseStream if model.id.contains("nova") => check_nova(name, schema),
                ApiProtocol::BedrockConverseStream => check_anthropic(name, schema),
                ApiProtocol::OllamaChat => check_ollama(name, schema),
                other => panic!("{other}"),
            }
        }
        // Strict tools must be closed objects whose fields are all required; no tool is declared as one.
        let strict = match model.api {
            ApiProtocol::OpenAiCompletions => body.pointer("/tools/0/function/strict"),
            ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => {
                body.pointer("/tools/0/strict")
            }
            _ => continue,
        };
        assert_eq!(strict, Some(&json!(false)), "{}", model.api);
    }
}

/// What a model needs to call a tool of alternatives stays, for each vendor.
#[tokio::test]
async fn alternatives_keep_their_fields_and_say_where_they_belong() {
    for model in models() {
        let (_, tools) = sent(&model).await;
        let (_, schema) = tools.iter().find(|(name, _)| name == "typed_action").unwrap();
        assert_eq!(schema["properties"]["kind"]["enum"], json!(["move", "draw", "stop"]), "{}", model.api);
        assert_eq!(schema["required"], json!(["kind"]));
        let to = schema["properties"]["to"]["description"].as_str().unwrap();
        assert_eq!(to, "Where to. Only with kind \"move\".");
        assert_eq!(schema["properties"]["x"]["description"], "Only with kind \"draw\".");
    }
}
