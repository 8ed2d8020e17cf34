//! Calls by code in a container of the vendor.

use agent_core::{ToolArguments, ToolCall};

use super::*;

fn called(mark: Option<&str>, container: bool) -> Vec<AgentMessage> {
    let mut call = ToolCall::new("toolu_1", "roll", ToolArguments::from_text("{\"n\":1}"));
    call.signature = mark.map(Into::into);
    let mut content = vec![Content::ToolCall(call)];
    if container {
        content.push(Content::opaque("container", json!({"id": "container_1", "expires_at": "2025-12-20"})));
    }
    vec![AgentMessage::user("go"), said(reply(content)), result("toolu_1", vec!["6".into()])]
}

/// Returns the body without cache markers.
fn body(request: ModelRequest) -> Value {
    let request = with_model(request, |model| model.prompt_cache = false);
    serde_json::from_str(&text(&request)).unwrap()
}

const MARK: &str = r#"{"caller":{"type":"code_execution_20250825","tool_id":"srvtoolu_1"}}"#;

#[test]
fn the_results_of_calls_by_code_go_back_with_their_caller_and_container() {
    let sent = body(request(called(Some(MARK), true)));
    assert_eq!(sent["container"], "container_1");
    assert_eq!(
        sent["messages"][1]["content"],
        json!([{"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"n": 1},
            "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}}])
    );
}

#[test]
fn a_container_is_sent_only_with_the_results_of_its_reply_and_to_its_model() {
    assert_eq!(body(request(called(Some(MARK), false))).get("container"), None);
    let mut later = called(Some(MARK), true);
    later.push(said(reply(vec!["Done.".into()])));
    later.push(AgentMessage::user("thanks"));
    assert_eq!(body(request(later)).get("container"), None);
    let other = with_model(request(called(Some(MARK), true)), |model| model.id = "claude-other".into());
    let sent = body(other);
    assert_eq!(sent.get("container"), None);
    assert_eq!(sent["messages"][1]["content"][0].get("caller"), None);
    // A signature of another origin is no mark.
    let sent = body(request(called(Some("EqQBCg=="), true)));
    assert_eq!(sent["messages"][1]["content"][0].as_object().unwrap().len(), 4);
}
