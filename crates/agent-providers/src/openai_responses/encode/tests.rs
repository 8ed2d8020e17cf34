//! What is sent.

#![allow(clippy::needless_pass_by_value, reason = "`json!` reads better by value")]

mod caching;
mod options;
mod prefix;
mod replay;

use agent_core::{
    AgentMessage, ApiProtocol, AssistantMessage, Content, History, Message, ModelConfig, StopReason,
    ToolArguments, ToolResultMessage,
};
use serde_json::{Value, json};

use super::*;

fn model() -> ModelConfig {
    ModelConfig::openai_responses("gpt-test", "GPT", "sk-test")
}

fn with(model: ModelConfig, history: History) -> ModelRequest {
    ModelRequest::new(model, history)
}

fn json_of(request: &ModelRequest) -> Value {
    serde_json::from_slice(&body(request).unwrap()).unwrap()
}

fn history(messages: Vec<Message>) -> History {
    let (history, repairs) = History::repaired(messages.into_iter().map(AgentMessage::from));
    assert!(repairs.is_empty(), "{repairs:?}");
    history
}

/// A reply of the model that is asked.
fn reply(content: Vec<Content>) -> Message {
    reply_of("openai", "gpt-test", ApiProtocol::OpenAiResponses, content)
}

fn reply_of(provider: &str, id: &str, api: ApiProtocol, content: Vec<Content>) -> Message {
    let calls = content.iter().any(|c| matches!(c, Content::ToolCall(_)));
    let stop = if calls { StopReason::ToolUse } else { StopReason::Stop };
    let mut reply = AssistantMessage::new(provider, id, stop);
    reply.api = Some(api);
    reply.content = content;
    reply.into()
}

fn text(text: &str, mark: Value) -> Content {
    let mut content = Content::text(text);
    if let Content::Text(block) = &mut content {
        block.signature = Some(mark.to_string());
    }
    content
}

fn call(id: &str, arguments: &str, mark: Value) -> Content {
    let mut content = Content::tool_call(id, "look", ToolArguments::from_text(arguments));
    if let Content::ToolCall(call) = &mut content {
        call.signature = Some(mark.to_string());
    }
    content
}

fn result(id: &str, content: Vec<Content>) -> Message {
    ToolResultMessage::new(id.into(), "look".into(), content).into()
}

fn reasoning(id: &str, encrypted: &str) -> [Content; 2] {
    [
        Content::opaque(
            "reasoning",
            json!({"type": "reasoning", "id": id, "summary": [{"type": "summary_text"}]}),
        ),
        Content::thinking("hm", Some(encrypted.into())),
    ]
}

fn sent_reasoning(id: &str, encrypted: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": encrypted})
}

/// What is sent of these messages, without the question at the end.
fn input(messages: Vec<Message>) -> Vec<Value> {
    input_of(model(), messages)
}

fn input_of(model: ModelConfig, mut messages: Vec<Message>) -> Vec<Value> {
    messages.push(Message::user("?"));
    let body = json_of(&with(model, history(messages)));
    let mut items = body["input"].as_array().unwrap().clone();
    assert_eq!(items.pop().unwrap(), json!({"role": "user", "content": "?"}));
    items
}

#[test]
fn documents_are_files_and_the_rest_is_text() {
    let sent = json_of(&with(model(), history(vec![Message::user_content(crate::handoff::files())])));
    let text = |text: &str| json!({"type": "input_text", "text": text});
    assert_eq!(
        sent["input"][0]["content"],
        json!([
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
            text("notes\n\na text"),
            {"type": "input_file", "file_url": "https://a/b.pdf"},
            {"type": "input_file", "file_id": "file-1"},
            text("A (https://a)\n\none\n\ntwo"),
            text("[sound left out: this API does not take it]"),
            text("[film left out: this API does not take it]"),
        ])
    );
}
