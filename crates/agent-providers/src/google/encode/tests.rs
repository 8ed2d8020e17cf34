//! What a request looks like on the wire.

mod conversation;

use agent_core::{
    AgentMessage, AssistantMessage, Content, History, Message, ModelConfig, ResponseFormat, StopReason,
    ThinkingBudgets, ThinkingForm, ThinkingLevel, ToolDefinition, ToolResultMessage,
};
use serde_json::{Value, json};

use super::*;

fn model(id: &str) -> ModelConfig {
    crate::catalogue::configure(ModelConfig::google(id, id, "AIza-secret"))
}

fn hello(id: &str) -> ModelRequest {
    let (history, _) = History::repaired([AgentMessage::user("hello")]);
    ModelRequest::new(model(id), history)
}

fn written(request: &ModelRequest) -> Value {
    serde_json::from_slice(&body(request).unwrap()).unwrap()
}

fn reply_of(model: &ModelConfig, content: Vec<Content>) -> AssistantMessage {
    let calls = content.iter().any(|c| matches!(c, Content::ToolCall(_)));
    let stop = if calls { StopReason::ToolUse } else { StopReason::Stop };
    let mut reply = AssistantMessage::new(&model.provider, &model.id, stop);
    reply.api = Some(model.api);
    reply.content = content;
    reply
}

fn result(id: &str, content: Vec<Content>, is_error: bool) -> AgentMessage {
    let mut result = ToolResultMessage::new(id.into(), "look".into(), content);
    result.is_error = is_error;
    Message::from(result).into()
}

fn signed(mut content: Content, signature: &str) -> Content {
    match &mut content {
        Content::Text(text) => text.signature = Some(signature.to_owned()),
        Content::ToolCall(call) => call.signature = Some(signature.to_owned()),
        _ => {}
    }
    content
}

fn look() -> Vec<ToolDefinition> {
    let schema =
        json!({"type": "object", "properties": {"at": {"type": ["string", "null"]}}, "required": ["at"]});
    vec![ToolDefinition::new("look", "Looks.", schema), ToolDefinition::new("clock", "", json!({}))]
}

/// Everything that can be said, at once.
fn varied() -> ModelRequest {
    let author = model("gemini-3.5-flash");
    let (history, _) = History::repaired([
        AgentMessage::from(Message::user_content(vec![
            Content::text("What is this? „Grüße“ 🙂"),
            Content::image("aGk=", "image/png"),
            Content::image_url("https://example.org/a.JPG?x=1"),
            Content::text("  "),
        ])),
        Message::from(reply_of(
            &author,
            vec![
                Content::thinking("I look.", Some("dGhvdWdodA==".to_owned())),
                Content::text("Let me see."),
                signed(Content::tool_call("k1", "look", json!({"at": "ü"})), "Y2FsbA=="),
                Content::tool_call("google-fc-1", "look", json!({})),
                Content::opaque("executableCode", json!({"executableCode": {"code": "1"}})),
                Content::opaque("groundingMetadata", json!({"webSearchQueries": []})),
            ],
        ))
        .into(),
        result(
            "k1",
            vec![Content::text("a"), Content::image("aGk=", "image/webp"), Content::text("b")],
            false,
        ),
        result("google-fc-1", vec![Content::image_url("https://example.org/b")], true),
        Message::from(reply_of(&author, vec![Content::text("A hat."), signed(Content::text(""), "ZW5k")]))
            .into(),
        AgentMessage::user("Sure?"),
    ]);
    let mut request = ModelRequest::new(author, history);
    request.system_prompt = "Be brief.".into();
    request.tools = look().into();
    request.options.tool_choice = ToolChoice::Tool("look".to_owned());
    request.options.thinking_level = ThinkingLevel::Medium;
    request.options.max_tokens = Some(500);
    request.options.temperature = Some(0.5);
    request.options.stop_sequences = vec!["END".to_owned(), String::new()];
    request.options.response_format =
        ResponseFormat::JsonSchema { name: "n".to_owned(), schema: json!({"type": "object"}), strict: true };
    request
}

/// REQ-120.
#[test]
fn a_varied_request_is_written_as_this_body() {
    let pretty = serde_json::to_string_pretty(&written(&varied())).unwrap();
    insta::assert_snapshot!("varied", pretty);
}

#[test]
fn the_smallest_request_says_nothing_that_was_not_asked_for() {
    let request = hello("gemini-2.0-flash");
    assert_eq!(
        String::from_utf8(body(&request).unwrap()).unwrap(),
        r#"{"generationConfig":{},"contents":[{"role":"user","parts":[{"text":"hello"}]}]}"#
    );
    assert!(!format!("{request:?}").contains("secret"));
}

#[expect(clippy::needless_pass_by_value, reason = "a table reads better without references")]
#[track_caller]
fn check_choice(choice: ToolChoice, expect: Value) {
    let mut request = hello("gemini-2.5-flash");
    request.tools = look().into();
    request.options.tool_choice = choice;
    assert_eq!(written(&request)["toolConfig"], expect);
}

#[test]
fn a_choice_of_tools_is_a_mode_and_names() {
    check_choice(ToolChoice::Auto, Value::Null);
    check_choice(ToolChoice::None, json!({"functionCallingConfig": {"mode": "NONE"}}));
    check_choice(ToolChoice::Required, json!({"functionCallingConfig": {"mode": "ANY"}}));
    check_choice(
        ToolChoice::Tool("look".to_owned()),
        json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}),
    );
    for choice in [ToolChoice::Required, ToolChoice::Tool("look".to_owned())] {
        let mut request = hello("gemini-2.5-flash");
        request.options.tool_choice = choice;
        assert!(body(&request).unwrap_err().to_string().contains("names no tools"));
    }
}

#[test]
fn a_json_answer_beside_tools_is_native_since_gemini_3_and_a_function_before() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let said = |id: &str, tools: bool, format: ResponseFormat| {
        let mut request = hello(id);
        if tools {
            request.tools = look().into();
        }
        request.options.response_format = format;
        let body = written(&request);
        let functions = body["tools"][0]["functionDeclarations"].as_array().map_or(0, Vec::len);
        let config = &body["generationConfig"];
        let mode = body["toolConfig"]["functionCallingConfig"]["mode"].as_str().map(str::to_owned);
        (config["responseMimeType"].is_string(), config["responseJsonSchema"].clone(), functions, mode)
    };
    let with = |schema: &Value| ResponseFormat::JsonSchema {
        name: "n".into(),
        schema: schema.clone(),
        strict: false,
    };
    assert_eq!(said("gemini-2.5-flash", false, with(&schema)), (true, schema.clone(), 0, None));
    assert_eq!(said("gemini-2.5-flash", false, ResponseFormat::JsonObject), (true, Value::Null, 0, None));
    assert_eq!(said("gemini-3.5-flash", true, with(&schema)), (true, schema.clone(), 2, None));
    assert_eq!(
        said("gemini-2.5-flash", true, with(&schema)),
        (false, Value::Null, 3, Some("ANY".to_owned()))
    );
    assert_eq!(said("gemini-2.5-flash", true, ResponseFormat::JsonObject).2, 3);
    assert_eq!(answer_tool(&hello("gemini-2.5-flash")), None);
}

#[expect(clippy::needless_pass_by_value, reason = "a table reads better without references")]
#[track_caller]
fn check_thinking(id: &str, level: ThinkingLevel, expect: Value) {
    let mut request = hello(id);
    request.options.thinking_level = level;
    assert_eq!(written(&request)["generationConfig"]["thinkingConfig"], expect, "{id} {level:?}");
}

/// REQ-129, B-150.
#[test]
fn thinking_is_a_budget_until_gemini_2_5_and_a_word_since_gemini_3() {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};
    let budget = |n: u32| json!({"includeThoughts": true, "thinkingBudget": n});
    let word = |w: &str| json!({"includeThoughts": true, "thinkingLevel": w});
    for (level, flash, pro, lite) in [
        (Minimal, 128, 128, 512),
        (Low, 512, 512, 512),
        (Medium, 2_048, 2_048, 2_048),
        (High, 8_192, 8_192, 8_192),
        (XHigh, 16_384, 16_384, 16_384),
    ] {
        check_thinking("gemini-2.5-flash", level, budget(flash));
        check_thinking("gemini-2.5-pro", level, budget(pro));
        check_thinking("gemini-2.5-flash-lite", level, budget(lite));
    }
    for (level, flash, newest) in [
        (Minimal, "MINIMAL", "LOW"),
        (Low, "LOW", "LOW"),
        (Medium, "MEDIUM", "MEDIUM"),
        (High, "HIGH", "HIGH"),
        (XHigh, "HIGH", "HIGH"),
    ] {
        check_thinking("gemini-3.5-flash", level, word(flash));
        check_thinking("gemini-3.8-flash", level, word(newest));
        check_thinking("gemini-3.1-pro-preview", level, word(newest));
        check_thinking("gemini-4-flash-unheard", level, word(newest));
        check_thinking("gemini-flash-latest", level, word(newest));
    }
    // Off: nothing where that can be said, else the least, and none of it is shown.
    check_thinking("gemini-2.5-flash", Off, json!({"thinkingBudget": 0}));
    check_thinking("gemini-2.5-pro", Off, json!({"thinkingBudget": 128}));
    check_thinking("gemini-3.5-flash", Off, json!({"thinkingLevel": "MINIMAL"}));
    check_thinking("gemini-3.1-pro-preview", Off, json!({"thinkingLevel": "LOW"}));
    for id in ["gemini-2.0-flash", "gemini-2.5-flash-image", "gemma-3-27b-it"] {
        check_thinking(id, Off, Value::Null);
    }
    check_thinking("gemini-2.0-flash", High, Value::Null);
}

#[test]
fn the_highest_level_is_sent_to_models_that_list_it() {
    use ThinkingLevel::{High, Max, XHigh};
    for (levels, level, expect) in [
        (vec![High, XHigh], XHigh, "XHIGH"),
        (vec![High, XHigh], Max, "XHIGH"),
        (vec![High], XHigh, "HIGH"),
        (Vec::new(), Max, "HIGH"),
    ] {
        let mut request = hello("gemini-9-flash");
        request.model = model("gemini-9-flash").with_thinking_form(ThinkingForm::Effort, levels).into();
        request.options.thinking_level = level;
        let config = written(&request)["generationConfig"]["thinkingConfig"].clone();
        assert_eq!(config["thinkingLevel"], expect, "{level:?}");
    }
}

/// REQ-129, B-149.
#[test]
fn a_budget_leaves_room_for_the_answer() {
    let config = |max: Option<u32>, limit: u32, budgets: ThinkingBudgets| {
        let mut request = hello("gemini-2.5-flash");
        request.model = model("gemini-2.5-flash").with_limits(1_000_000, limit).into();
        request.options.max_tokens = max;
        request.options.thinking_level = ThinkingLevel::High;
        request.options.thinking_budgets = budgets;
        let config = written(&request)["generationConfig"].clone();
        (config["maxOutputTokens"].as_u64().unwrap(), config["thinkingConfig"]["thinkingBudget"].as_u64())
    };
    let usual = ThinkingBudgets::default();
    assert_eq!(config(None, 65_536, usual), (65_536, Some(8_192)));
    assert_eq!(
        config(Some(100), 65_536, usual),
        (9_216, Some(8_192)),
        "the limit is raised for the thinking"
    );
    assert_eq!(config(Some(100), 4_096, usual), (4_096, Some(3_072)), "as far as the model allows");
    assert_eq!(config(None, 1_000, usual), (1_000, None), "where nothing would be left it is not asked for");
    let much = ThinkingBudgets { high: u32::MAX, ..usual };
    assert_eq!(config(None, 65_536, much), (65_536, Some(24_576)));
}

#[test]
fn a_model_that_is_told_by_a_word_in_its_configuration_gets_one() {
    let mut request = hello("my-tuned-model");
    request.model = ModelConfig::google("my-tuned-model", "T", "k")
        .with_thinking_form(ThinkingForm::Effort, [ThinkingLevel::Low, ThinkingLevel::High])
        .into();
    request.options.thinking_level = ThinkingLevel::Medium;
    let config = written(&request)["generationConfig"]["thinkingConfig"].clone();
    assert_eq!(config, json!({"includeThoughts": true, "thinkingLevel": "HIGH"}));
}
