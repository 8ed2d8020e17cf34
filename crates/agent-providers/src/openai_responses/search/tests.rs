use agent_core::{AssistantMessage, Content, History, Message, ModelRequest, StopReason, ToolDefinitions};
use serde_json::{Value, json};

use super::*;
use crate::openai_responses::body;

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::new(name, "Does it.", json!({"type": "object"}))
}

/// A search by another vendor's model, and its result.
fn request(search: ToolSearchForm) -> ModelRequest {
    let mut reply = AssistantMessage::new("ollama", "qwen3", StopReason::ToolUse);
    reply.content = vec![Content::tool_call("c1", "tool_search", json!({"query": "refund"}))];
    let mut result =
        ToolResultMessage::new("c1".into(), "tool_search".into(), vec![Content::text("Found 1 tool.")]);
    result.details = json!({"tools": [definition("refund")]});
    let messages = [Message::user("Find it"), reply.into(), result.into()];
    let (history, _) = History::repaired(messages.map(agent_core::AgentMessage::from));
    let mut request = ModelRequest::new(ModelConfig::openai_responses("gpt-5.5", "GPT", "key"), history);
    request.tools =
        ToolDefinitions::from(vec![definition("look"), definition("tool_search")]).with_search(search);
    request
}

fn sent(request: &ModelRequest) -> Value {
    serde_json::from_slice(&body(request).unwrap()).unwrap()
}

#[test]
fn models_from_version_5_4_on_load_tools_from_results() {
    for (id, loads) in [
        ("gpt-5.4", true),
        ("gpt-5.4-mini", true),
        ("gpt-6.2-sol", true),
        ("gpt-5.3-codex", false),
        ("gpt-4.1", false),
        ("o4-mini", false),
    ] {
        let expected = if loads { ToolSearchForm::FromResults } else { ToolSearchForm::Listed };
        assert_eq!(tool_search(&ModelConfig::openai_responses(id, id, "key")), expected, "{id}");
    }
    let other = ModelConfig::new(agent_core::ApiProtocol::OpenAiResponses, "deepseek", "gpt-5.5");
    assert_eq!(tool_search(&other), ToolSearchForm::Listed);
}

#[test]
fn a_search_has_the_vendors_form_and_its_result_the_definitions() {
    let body = sent(&request(ToolSearchForm::FromResults));
    let function = json!({"type": "function", "name": "look", "description": "Does it.",
        "parameters": {"type": "object", "properties": {}}, "strict": false});
    let search = json!({"type": "tool_search", "execution": "client", "description": "Does it.",
        "parameters": {"type": "object", "properties": {}}});
    assert_eq!(body["tools"], json!([function, search]));
    let mut found = function;
    found["name"] = json!("refund");
    found["defer_loading"] = json!(true);
    let call = json!({"type": "tool_search_call", "call_id": "c1", "execution": "client", "status": "completed",
        "arguments": {"query": "refund"}});
    let output = json!({"type": "tool_search_output", "call_id": "c1", "execution": "client", "status": "completed",
        "tools": [found]});
    assert_eq!(body["input"].as_array().unwrap()[1..], [call, output]);
}

#[test]
fn a_model_without_the_form_receives_a_function_call() {
    let body = sent(&request(ToolSearchForm::Listed));
    assert_eq!(body["tools"][1]["name"], "tool_search");
    let input = &body["input"];
    assert_eq!((&input[1]["type"], &input[1]["name"]), (&json!("function_call"), &json!("tool_search")));
    assert_eq!(
        (&input[2]["type"], &input[2]["output"]),
        (&json!("function_call_output"), &json!("Found 1 tool."))
    );
}

/// The vendor's own search and the agent's have the same type, and a list has it once.
#[test]
fn the_search_of_the_caller_does_not_repeat_the_agents() {
    let mut request = request(ToolSearchForm::FromResults);
    request.options.server_tools = vec![agent_core::model::ToolSearch::default().into()];
    let body = sent(&request);
    let searches = body["tools"].as_array().unwrap().iter().filter(|tool| tool["type"] == "tool_search");
    assert_eq!(searches.map(|tool| &tool["execution"]).collect::<Vec<_>>(), [&json!("client")]);
}
