//! An answer as a Rust type through every protocol: what is sent is what the vendor takes, and what comes is read.

use agent_core::{AgentError, ApiProtocol, BasicAgent, ModelConfig, Secret, tool_fn};
use agent_providers::ProviderRegistry;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::eight::{ALL, ANTHROPIC, AZURE, BEDROCK, CHAT, GEMINI, OLLAMA, RESPONSES, Said, VERTEX, Vendor};
use crate::reading::{Form, form};
use crate::support::Server;

/// Everything that the schemas of types hold: bounds, lengths, options, alternatives, lists of types within types.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Plan {
    /// A title.
    #[schemars(length(min = 1, max = 80))]
    title: String,
    days: u8,
    #[schemars(range(min = 0.0, max = 1.0))]
    chance: f32,
    guide: Option<String>,
    #[schemars(length(max = 9))]
    stops: Vec<Stop>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Stop {
    place: String,
    by: Means,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Means {
    Foot,
    Ship { name: String },
}

fn good() -> Value {
    json!({"title": "Nord", "days": 3, "chance": 0.5, "guide": null,
        "stops": [{"place": "Kiel", "by": "foot"}, {"place": "Oslo", "by": {"ship": {"name": "Fram"}}}]})
}

fn plan() -> Plan {
    serde_json::from_value(good()).unwrap()
}

/// Calls `see` with every schema within a schema.
fn each(schema: &Value, see: &mut dyn FnMut(&serde_json::Map<String, Value>)) {
    let members = schema.as_object().unwrap_or_else(|| panic!("{schema}"));
    see(members);
    for key in ["properties", "$defs"] {
        members.get(key).and_then(Value::as_object).into_iter().flatten().for_each(|(_, s)| each(s, see));
    }
    for key in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        members.get(key).and_then(Value::as_array).into_iter().flatten().for_each(|s| each(s, see));
    }
    members.get("items").into_iter().for_each(|s| each(s, see));
}

/// The rules that the vendor's page on structured output states, of a schema that it enforces.
fn assert_taken(api: ApiProtocol, schema: &Value) {
    // What may stand in a schema at all.
    let known: &[&str] = match api {
        ApiProtocol::AnthropicMessages | ApiProtocol::BedrockConverseStream => &[
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "anyOf",
            "enum",
            "const",
            "description",
            "$defs",
            "$ref",
            "minItems",
            "format",
            "title",
            "default",
            "allOf",
        ],
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => &[
            "$id",
            "$defs",
            "$ref",
            "$anchor",
            "type",
            "format",
            "title",
            "description",
            "enum",
            "items",
            "prefixItems",
            "minItems",
            "maxItems",
            "minimum",
            "maximum",
            "anyOf",
            "oneOf",
            "properties",
            "additionalProperties",
            "required",
        ],
        _ => &[
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "anyOf",
            "enum",
            "const",
            "description",
            "$defs",
            "$ref",
            "minItems",
            "maxItems",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "pattern",
            "format",
        ],
    };
    assert_eq!(schema["type"], "object", "the root is an object");
    assert!(schema.get("anyOf").is_none(), "the root has no alternatives");
    each(schema, &mut |part| {
        for (key, value) in part {
            assert!(known.contains(&key.as_str()), "{api}: {key} in {part:?}");
            if key == "format" {
                let of_text =
                    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
                assert!(of_text.contains(&value.as_str().unwrap()), "{api}: {value}");
            }
        }
        if part.get("type").is_some_and(|t| t == "object") {
            assert_eq!(part["additionalProperties"], false, "{api}: every object is closed");
            let names: Vec<&String> = part["properties"].as_object().unwrap().keys().collect();
            assert_eq!(part["required"], json!(names), "{api}: every member is demanded");
        }
    });
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Native,
    Tool,
    Words,
}

/// Asks this model for a plan, with a tool of the caller's or without, and gives what was sent.
async fn ask(
    vendor: Vendor,
    change: impl FnOnce(ModelConfig) -> ModelConfig,
    with_tool: bool,
    way: Way,
) -> Value {
    let said = match way {
        Way::Tool => Said::default().call("call_1", "respond_json", good()),
        Way::Native => Said::text(good().to_string()),
        Way::Words => Said::text(format!("Here it is:\n```json\n{}\n```", good())),
    };
    let server = Server::start(vec![vendor.answer(&said)]).await;
    let model = change(vendor.at(&format!("http://{}", server.address)));
    let agent = BasicAgent::new(model).with_provider(ProviderRegistry::default()).with_system_prompt("Plan.");
    let agent = if with_tool {
        agent.with_tool(tool_fn("look", "Looks.", |_: Stop, _| async { Ok("nothing") }))
    } else {
        agent
    };
    let answer: Plan =
        agent.prompt_typed("Where to?").await.unwrap_or_else(|e| panic!("{}: {e}", vendor.name));
    assert_eq!(answer, plan(), "{}", vendor.name);
    let body = server.asked()[0].json();
    let found = form(vendor.api, &body);
    match (way, &found) {
        // Ollama's server takes any schema; all others state rules.
        (Way::Native, Form::Native(_)) if vendor == OLLAMA => {}
        (Way::Native, Form::Native(schema)) => assert_taken(vendor.api, schema),
        (Way::Tool, Form::Tool(schema)) => assert_eq!(schema["type"], "object"),
        (Way::Words, Form::Words) => {}
        _ => panic!("{} with tool {with_tool}: {found:?} in place of {way:?}: {body:#}", vendor.name),
    }
    body
}

fn as_it_is(model: ModelConfig) -> ModelConfig {
    model
}

fn named(id: &'static str) -> impl FnOnce(ModelConfig) -> ModelConfig {
    move |mut model| {
        id.clone_into(&mut model.id);
        model
    }
}

#[tokio::test]
async fn every_vendor_that_enforces_schemas_is_sent_one_that_it_takes() {
    for with_tool in [false, true] {
        for vendor in [ANTHROPIC, CHAT, RESPONSES, AZURE, GEMINI, BEDROCK] {
            ask(vendor, as_it_is, with_tool, Way::Native).await;
        }
    }
    ask(VERTEX, as_it_is, false, Way::Native).await;
    let body = ask(OLLAMA, as_it_is, false, Way::Native).await;
    assert_eq!(body["format"]["required"], json!(["title", "days", "chance", "guide", "stops"]));
    let body = ask(CHAT, as_it_is, false, Way::Native).await;
    assert_eq!(
        (&body["response_format"]["json_schema"]["strict"], &body["response_format"]["json_schema"]["name"]),
        (&json!(true), &json!("Plan"))
    );
}

#[tokio::test]
async fn where_nothing_is_enforced_a_tool_that_must_be_called_carries_the_answer() {
    let body = ask(ANTHROPIC, named("somebody-elses-model"), false, Way::Tool).await;
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "respond_json"}));
    let body = ask(ANTHROPIC, named("somebody-elses-model"), true, Way::Tool).await;
    assert_eq!(body["tool_choice"], json!({"type": "any"}));
    let body = ask(BEDROCK, named("mistral.mistral-large-2407-v1:0"), false, Way::Tool).await;
    assert_eq!(body["toolConfig"]["toolChoice"], json!({"tool": {"name": "respond_json"}}));
    // Before Gemini 3 a request with functions takes no demand for JSON.
    let body = ask(VERTEX, as_it_is, true, Way::Tool).await;
    assert_eq!(body["toolConfig"]["functionCallingConfig"]["mode"], "ANY");
    ask(GEMINI, named("gemini-2.5-flash"), true, Way::Tool).await;
}

#[tokio::test]
async fn where_neither_is_understood_the_schema_is_said_in_the_system_prompt() {
    for provider in ["deepseek", "zai", "minimax", "qwen"] {
        let other = |mut model: ModelConfig| {
            provider.clone_into(&mut model.provider);
            model
        };
        let body = ask(CHAT, other, true, Way::Words).await;
        assert_eq!(body["response_format"], json!({"type": "json_object"}), "{provider}");
        assert!(body["messages"][0]["content"].as_str().unwrap().starts_with("Plan.\n\n"));
    }
    let body = ask(OLLAMA, as_it_is, true, Way::Words).await;
    assert!(body.get("format").is_none() && body.get("tools").is_some(), "{body}");
}

#[tokio::test]
async fn the_last_try_holds_a_model_to_the_form_that_could_call_tools_before() {
    let said = [Said::text("I would go north."), Said::text(good().to_string())];
    let server = Server::start(said.iter().map(|s| OLLAMA.answer(s)).collect()).await;
    let agent = BasicAgent::new(OLLAMA.at(&format!("http://{}", server.address)))
        .with_provider(ProviderRegistry::default())
        .with_tool(tool_fn("look", "Looks.", |_: Stop, _| async { Ok("nothing") }));
    let answer: Plan = agent.prompt_typed("Where to?").await.unwrap();
    assert_eq!(answer, plan());
    let asked = server.asked();
    assert_eq!(form(OLLAMA.api, &asked[0].json()), Form::Words);
    assert!(matches!(form(OLLAMA.api, &asked[1].json()), Form::Native(_)));
    assert!(asked[1].body.contains("Your answer could not be used"));
}

#[tokio::test]
async fn an_answer_that_never_fits_is_the_same_error_through_every_protocol() {
    for vendor in ALL {
        let server = Server::start(vec![vendor.answer(&Said::text("{\"title\": 1}"))]).await;
        let agent = BasicAgent::new(vendor.at(&format!("http://{}", server.address)))
            .with_provider(ProviderRegistry::default());
        let error = agent.prompt_typed::<Plan>("Where to?").await.unwrap_err();
        let AgentError::AnswerForm(wrong) = &error else { panic!("{}: {error:?}", vendor.name) };
        assert_eq!((wrong.asked, wrong.received.as_str()), (2, "{\"title\": 1}"), "{}", vendor.name);
        assert_eq!(server.asked().len(), 2);
        assert!(!error.to_string().contains(Secret::from(vendor.key).expose()));
    }
}

#[tokio::test]
async fn tools_are_called_on_the_way_and_an_unfit_answer_is_asked_for_again_through_every_protocol() {
    for vendor in ALL {
        let said = [
            Said::default().call("call_1", "look", json!({"place": "Kiel", "by": "foot"})),
            Said::text("{\"title\": 1}"),
            Said::text(good().to_string()),
        ];
        let server = Server::start(said.iter().map(|s| vendor.answer(s)).collect()).await;
        let agent = BasicAgent::new(vendor.at(&format!("http://{}", server.address)))
            .with_provider(ProviderRegistry::default())
            .with_tool(tool_fn("look", "Looks.", |_: Stop, _| async { Ok("nothing") }));
        let answer: Plan =
            agent.prompt_typed("Where to?").await.unwrap_or_else(|e| panic!("{}: {e}", vendor.name));
        assert_eq!(answer, plan(), "{}", vendor.name);
        let asked = server.asked();
        assert_eq!(asked.len(), 3, "{}", vendor.name);
        assert!(asked[2].body.contains("days"), "{}: the faults are listed", vendor.name);
        assert_ne!(form(vendor.api, &asked[2].json()), Form::Free, "{}", vendor.name);
    }
}
