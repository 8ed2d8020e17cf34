//! What is sent.

use agent_core::{AgentMessage, History, ModelConfig, StopReason, ToolDefinition, ToolResultMessage};
use serde_json::{Value, json};

use super::*;

fn with(model: ModelConfig, messages: Vec<Message>) -> ModelRequest {
    let (history, repairs) = History::repaired(messages.into_iter().map(AgentMessage::from));
    assert!(repairs.is_empty(), "{repairs:?}");
    ModelRequest::new(model, history)
}

fn json_of(request: &ModelRequest) -> Value {
    serde_json::from_slice(&super::request(request).unwrap().body).unwrap()
}

fn reply(content: Vec<Content>) -> Message {
    let mut reply = AssistantMessage::new("ollama", "m", StopReason::ToolUse);
    reply.api = Some(agent_core::ApiProtocol::OllamaChat);
    reply.content = content;
    reply.into()
}

fn result(id: &str, content: Vec<Content>) -> Message {
    ToolResultMessage::new(id.into(), "look".into(), content).into()
}

/// D34, REQ-044.
#[test]
fn a_request_says_everything_before_the_conversation() {
    let mut request = with(ModelConfig::ollama("m").with_limits(8_192, 100), vec![Message::user("hi")]);
    request.system_prompt = "Be brief.".into();
    request.options.temperature = Some(0.5);
    request.options.stop_sequences = vec!["END".into()];
    request.tools = vec![ToolDefinition::new("look", "Looks", json!({"type": "object"}))].into();
    let sent = super::request(&request).unwrap();
    assert_eq!(sent.url.as_str(), "http://localhost:11434/api/chat");
    assert_eq!(
        String::from_utf8(sent.body).unwrap(),
        concat!(
            r#"{"model":"m","stream":true,"think":false,"options":{"num_predict":100,"num_ctx":8192,"temperature":0.5,"#,
            r#""stop":["END"]},"tools":[{"type":"function","function":{"name":"look","description":"Looks","#,
            r#""parameters":{"type":"object","properties":{}}}}],"messages":[{"role":"system","content":"Be brief."},"#,
            r#"{"role":"user","content":"hi"}]}"#
        )
    );
}

/// B-131, B-141.
#[test]
fn exchanges_thinking_and_pictures() {
    let image = Content::image("QUJD", "image/png");
    let thought = Content::thinking("hm", None);
    let call = |id: &str, arguments: &str| {
        Content::tool_call(id, "look", agent_core::ToolArguments::from_text(arguments))
    };
    let request = with(
        ModelConfig::ollama("m"),
        vec![
            Message::user_content(vec![Content::text("see"), image.clone()]),
            reply(vec![thought, Content::text("ok"), call("a", "{\"n\": 1}"), call("b", "broken")]),
            result("a", vec![image]),
            result("b", vec![Content::text("t")]),
        ],
    );
    assert_eq!(
        json_of(&request)["messages"],
        json!([
            {"role": "user", "content": "see", "images": ["QUJD"]},
            {"role": "assistant", "content": "ok", "thinking": "hm", "tool_calls": [
                {"function": {"name": "look", "arguments": {"n": 1}}},
                {"function": {"name": "look", "arguments": {}}}]},
            {"role": "tool", "tool_name": "look", "content": "[see the attached image]"},
            {"role": "tool", "tool_name": "look", "content": "t"},
            {"role": "user", "content": "The pictures that the tools above returned:", "images": ["QUJD"]}
        ])
    );
}

/// A picture that was an error would be one in every later request.
#[test]
fn a_picture_by_its_address_is_left_out_with_the_reason() {
    let request = with(
        ModelConfig::ollama("m"),
        vec![Message::user_content(vec![Content::image_url("https://h/x.png")])],
    );
    let sent = json_of(&request)["messages"][0]["content"].to_string();
    assert!(sent.contains("takes no picture by its address"), "{sent}");
}

/// D38.
#[test]
fn what_cannot_be_said_is_an_error() {
    let mut request = with(ModelConfig::ollama("m"), vec![Message::user("x")]);
    request.options.tool_choice = ToolChoice::Required;
    assert!(super::request(&request).err().unwrap().to_string().contains("tool_choice"));
}

#[test]
fn without_eyes_a_picture_by_its_address_does_no_harm() {
    let request = with(
        ModelConfig::ollama("m").with_images(false),
        vec![Message::user_content(vec![Content::image_url("https://h/x.png")])],
    );
    assert!(json_of(&request)["messages"][0]["content"].as_str().unwrap().contains("image left out"));
}

#[test]
fn thinking_is_switched_or_given_a_word() {
    let think = |form, level| {
        let mut request =
            with(ModelConfig::ollama("m").with_thinking_form(form, []), vec![Message::user("x")]);
        request.options.thinking_level = level;
        json_of(&request).get("think").cloned()
    };
    assert_eq!(think(ThinkingForm::None, ThinkingLevel::High), None);
    assert_eq!(think(ThinkingForm::Toggle, ThinkingLevel::Off), Some(json!(false)));
    assert_eq!(think(ThinkingForm::Toggle, ThinkingLevel::Low), Some(json!(true)));
    assert_eq!(think(ThinkingForm::Effort, ThinkingLevel::Minimal), Some(json!("low")));
    assert_eq!(think(ThinkingForm::Effort, ThinkingLevel::Medium), Some(json!("medium")));
    assert_eq!(think(ThinkingForm::Effort, ThinkingLevel::XHigh), Some(json!("high")));
}

#[test]
fn form_of_the_answer_and_no_tools() {
    let mut request = with(ModelConfig::ollama("m"), vec![Message::user("x")]);
    request.tools = vec![ToolDefinition::new("look", "", json!({"type": "object"}))].into();
    request.options.tool_choice = ToolChoice::None;
    request.options.response_format = ResponseFormat::JsonObject;
    let sent = json_of(&request);
    assert_eq!((sent.get("tools"), &sent["format"]), (None, &json!("json")));
    request.options.response_format =
        ResponseFormat::JsonSchema { name: "n".into(), schema: json!({"type": "object"}), strict: true };
    assert_eq!(json_of(&request)["format"], json!({"type": "object"}));
}

/// D14.
#[test]
fn a_later_request_begins_with_the_bytes_of_the_earlier_one() {
    let call = Content::tool_call("a", "look", json!({"n": 1}));
    let messages = vec![Message::user("x"), reply(vec![call]), result("a", vec![Content::text("t")])];
    let shorter = with(ModelConfig::ollama("m"), messages);
    let mut longer = shorter.clone();
    longer.history.push("more".into()).unwrap();
    let (first, second) = (super::request(&shorter).unwrap().body, super::request(&longer).unwrap().body);
    assert_eq!(first, super::request(&shorter).unwrap().body);
    assert!(second.starts_with(first.strip_suffix(b"]}").unwrap()));
}

#[test]
fn documents_become_text() {
    let asked = Message::user_content(crate::handoff::files());
    let sent = json_of(&with(ModelConfig::ollama("m"), vec![asked]));
    let texts: Vec<_> =
        crate::handoff::files().iter().map(|file| file_text(file).unwrap().into_owned()).collect();
    assert_eq!(sent["messages"][0]["content"], texts.join("\n"));
}
