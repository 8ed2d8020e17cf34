#![allow(clippy::needless_pass_by_value, reason = "expectations are written where they are used")]

mod caching;
mod extras;
mod format;
mod messages;
mod options;
mod paused;
mod prefix;
mod thinking;

use std::sync::Arc;

use agent_core::{
    AgentMessage, ApiProtocol, AssistantMessage, Content, Entry, History, Message, ModelConfig, ModelRequest,
    StopReason, ToolDefinition, ToolResultMessage,
};
use serde_json::{Value, json};

/// A model that no catalogue knows.
fn model() -> ModelConfig {
    ModelConfig::anthropic("claude-test", "Claude", "key")
}

fn request(messages: Vec<AgentMessage>) -> ModelRequest {
    let (history, repairs) = History::repaired(messages);
    assert!(repairs.is_empty(), "{repairs:?}");
    ModelRequest::new(model(), history)
}

fn asking(text: &str) -> ModelRequest {
    request(vec![AgentMessage::user(text)])
}

fn with_model(mut request: ModelRequest, change: impl FnOnce(&mut ModelConfig)) -> ModelRequest {
    change(Arc::make_mut(&mut request.model));
    request
}

/// A reply of the model under test.
fn reply(content: Vec<Content>) -> AssistantMessage {
    let stop = if content.iter().any(|c| c.as_tool_call().is_some()) {
        StopReason::ToolUse
    } else {
        StopReason::Stop
    };
    let mut reply = AssistantMessage::new("anthropic", "claude-test", stop);
    reply.api = Some(ApiProtocol::AnthropicMessages);
    reply.content = content;
    reply
}

/// A reply of another vendor's model.
fn foreign(content: Vec<Content>) -> AssistantMessage {
    let mut reply = reply(content);
    reply.provider = "openai".into();
    reply.model = "gpt".into();
    reply.api = Some(ApiProtocol::OpenAiCompletions);
    reply
}

fn said(reply: AssistantMessage) -> AgentMessage {
    Message::from(reply).into()
}

fn result(id: &str, content: Vec<Content>) -> AgentMessage {
    Message::from(ToolResultMessage::new(id.into(), "read".into(), content)).into()
}

fn tools(names: &[&str]) -> Vec<ToolDefinition> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    names.iter().map(|n| ToolDefinition::new(*n, format!("Does {n}."), schema.clone())).collect()
}

#[track_caller]
fn text(request: &ModelRequest) -> String {
    String::from_utf8(super::body(request, super::Named::InBody).unwrap()).unwrap()
}

#[track_caller]
fn body(request: &ModelRequest) -> Value {
    serde_json::from_str(&text(request)).unwrap()
}

#[track_caller]
fn messages(mut request: ModelRequest) -> Value {
    request.options.cache_config = agent_core::CacheConfig::disabled();
    body(&request)["messages"].take()
}

/// One call of `read` and its result.
fn exchange(history: &mut History, id: &str, content: Vec<Content>, output: &str) {
    let mut content = content;
    content.push(Content::tool_call(id, "read", json!({"path": id})));
    let entry = |m: AgentMessage| Entry::from(m);
    history.push_exchange(entry(said(reply(content))), vec![entry(result(id, vec![output.into()]))]).unwrap();
}

/// One of everything that a run can hold.
fn varied() -> ModelRequest {
    let mut asked = request(vec![
        Message::user_content(vec!["look".into(), Content::image("aGVsbG8=", "image/png")]).into(),
        said(foreign(vec![
            Content::thinking("elsewhere", Some("foreign-sig".into())),
            "I shall read both.".into(),
            Content::tool_call("call|1", "read", json!({"path": "a"})),
            Content::tool_call("call.1", "read", json!("not an object")),
        ])),
        result("call|1", vec!["line 1\nline \"2\"".into()]),
        Message::from(ToolResultMessage::error("call.1".into(), "read".into(), "no such file")).into(),
        said(reply(vec![
            Content::thinking("mine", Some("sig".into())),
            Content::redacted_thinking("cipher"),
            Content::opaque(
                "server_tool_use",
                json!({"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "x"}}),
            ),
            Content::opaque(
                "web_search_tool_result",
                json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01", "content": []}),
            ),
            "Found.".into(),
            Content::tool_call("toolu_01", "read", json!({"path": "b"})),
        ])),
        result("toolu_01", vec![Content::image_url("https://example.com/a.png")]),
        AgentMessage::user("and now?"),
    ]);
    asked = with_model(asked, |m| {
        m.images = true;
        m.max_tokens = Some(64_000);
    });
    asked.system_prompt = "Be brief.".into();
    asked.tools = tools(&["read", "write"]).into();
    asked.options.thinking_level = agent_core::ThinkingLevel::Medium;
    asked.options.stop_sequences = vec!["END".into()];
    asked
}

#[test]
fn a_varied_run_is_written_as_this_body() {
    let pretty = serde_json::to_string_pretty(&body(&varied())).unwrap();
    insta::assert_snapshot!("varied", pretty);
}
