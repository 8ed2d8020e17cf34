use agent_core::{
    ApiProtocol, AssistantMessage, Content, History, Message, ModelConfig, StopReason, ToolDefinition,
    ToolDefinitions, ToolLoading,
};
use serde_json::json;

use super::*;
use crate::anthropic::encode::{Named, body};

fn model(id: &str) -> ModelConfig {
    ModelConfig::anthropic(id, id, "key")
}

fn definitions(deferred: &[&str]) -> ToolDefinitions {
    let tool = |name: &str| ToolDefinition::new(name, "Does it.", json!({"type": "object"}));
    let mut all = vec![tool("look"), tool("tool_search")];
    all.extend(deferred.iter().map(|name| ToolDefinition { loading: ToolLoading::Deferred, ..tool(name) }));
    ToolDefinitions::from(all).with_search(ToolSearchForm::Vendor)
}

fn request(references: &[&str], deferred: &[&str]) -> ModelRequest {
    let list: Vec<Value> =
        references.iter().map(|name| json!({"type": "tool_reference", "tool_name": name})).collect();
    let found = json!({"type": RESULT, "tool_use_id": "srv", "content": {
        "type": "tool_search_tool_search_result", "tool_references": list}});
    let call = json!({"type": "server_tool_use", "id": "srv", "name": "tool_search_tool_bm25", "input": {"query": "x"}});
    let mut reply = AssistantMessage::new("anthropic", "claude-sonnet-5-5", StopReason::Stop);
    reply.api = Some(ApiProtocol::AnthropicMessages);
    reply.content = vec![
        Content::opaque("server_tool_use", call),
        Content::opaque(RESULT, found),
        Content::text("I found them."),
    ];
    let messages = [Message::user("Find them"), reply.into(), Message::user("Go on")];
    let (history, _) = History::repaired(messages.map(agent_core::AgentMessage::from));
    let mut request = ModelRequest::new(model("claude-sonnet-5-5"), history);
    request.tools = definitions(deferred);
    request
}

fn sent(request: &ModelRequest) -> Value {
    serde_json::from_slice(&body(request, Named::InBody).unwrap()).unwrap()
}

#[test]
fn models_from_version_4_5_on_search_on_the_vendors_servers() {
    for (id, searches) in [
        ("claude-sonnet-5-5", true),
        ("claude-opus-4-5-20251101", true),
        ("claude-haiku-5-5", true),
        ("claude-mythos-5", true),
        ("claude-haiku-4-5", false),
        ("claude-opus-4-1", false),
        ("claude-opus-4-20250514", false),
        ("claude-sonnet-4", false),
        ("claude-3-7-sonnet-latest", false),
        ("kimi-k2", false),
    ] {
        let expected = if searches { ToolSearchForm::Vendor } else { ToolSearchForm::Listed };
        assert_eq!(tool_search(&model(id)), expected, "{id}");
    }
    let elsewhere = model("claude-sonnet-5-5").with_base_url("http://localhost:1");
    assert_eq!(tool_search(&elsewhere), ToolSearchForm::Listed);
}

#[test]
fn deferred_tools_follow_the_search_and_the_marker_precedes_them() {
    let body = sent(&request(&[], &["refund", "mail"]));
    let tool = |name: &str| json!({"name": name, "description": "Does it.", "input_schema": {"type": "object", "properties": {}}});
    let deferred = |name: &str| {
        let mut tool = tool(name);
        tool["defer_loading"] = json!(true);
        tool
    };
    let search = json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25",
        "cache_control": {"type": "ephemeral"}});
    assert_eq!(body["tools"], json!([tool("look"), search, deferred("refund"), deferred("mail")]));
}

#[test]
fn references_to_removed_tools_are_left_out_and_others_stay_as_they_came() {
    let list = |request: &ModelRequest| {
        sent(request)["messages"][1]["content"][1]["content"]["tool_references"].clone()
    };
    let reference = |name: &str| json!({"type": "tool_reference", "tool_name": name});
    assert_eq!(
        list(&request(&["refund", "mail"], &["refund", "mail"])),
        json!([reference("refund"), reference("mail")])
    );
    assert_eq!(list(&request(&["refund", "mail"], &["mail"])), json!([reference("mail")]));
    assert_eq!(list(&request(&["refund"], &["mail"])), json!([]));
}

/// A search that the caller configured takes the place of the one that deferred tools need.
#[test]
fn the_search_of_the_caller_is_listed_once() {
    let mut request = request(&[], &["refund"]);
    let regex = agent_core::model::ToolSearch::new(agent_core::model::ToolSearchVariant::Regex);
    request.options.server_tools = vec![regex.into()];
    let body = sent(&request);
    let kinds: Vec<&Value> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["type"]).collect();
    assert_eq!(kinds, [&json!("tool_search_tool_regex_20251119"), &Value::Null, &Value::Null]);
}
