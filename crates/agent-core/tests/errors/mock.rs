//! The model of tests refuses what a real one refuses.

use agent_core::testing::{MockProvider, ScriptedProvider, ScriptedReply};
use agent_core::{
    AgentMessage, AssistantMessage, CancellationToken, Content, ErrorKind, History, Message, ModelConfig,
    ModelRequest, StopReason, ToolDefinition, complete,
};
use serde_json::json;

fn asking(messages: &[AgentMessage]) -> ModelRequest {
    let mut history = History::new();
    for message in messages {
        history.push(message.clone()).unwrap();
    }
    ModelRequest::new(ModelConfig::default(), history)
}

#[track_caller]
fn check(outcome: Result<AssistantMessage, agent_core::ProviderError>, expect: &str) {
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Api, Some(400)), "{error}");
    assert!(error.to_string().contains(expect), "{error}");
}

async fn ask(request: &ModelRequest) -> Result<AssistantMessage, agent_core::ProviderError> {
    complete(&ScriptedProvider::texts(["hello"]), request, &CancellationToken::new()).await
}

/// REQ-030.
#[tokio::test]
async fn replies_come_in_their_order_and_then_an_empty_stop() {
    let model = MockProvider::texts(["one", "two"]);
    let request = asking(&["hi".into()]);
    let mut replies = Vec::new();
    for _ in 0..3 {
        let reply = complete(&model, &request, &CancellationToken::new()).await.unwrap();
        assert_eq!(reply.stop_reason, StopReason::Stop);
        replies.push(reply.text());
    }
    assert_eq!(replies, ["one", "two", ""]);
    assert_eq!((model.requests().len(), model.remaining()), (3, 0));
}

/// REQ-030.
#[tokio::test]
async fn an_exhaustive_script_refuses_a_call_too_many() {
    let model = ScriptedProvider::texts(["one"]).exhaustive();
    let request = asking(&["hi".into()]);
    complete(&model, &request, &CancellationToken::new()).await.unwrap();
    let error = complete(&model, &request, &CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("exhausted"), "{error}");
}

/// REQ-030.
#[tokio::test]
async fn a_conversation_that_a_real_api_refuses_is_refused() {
    check(ask(&asking(&[])).await, "at least one message");
    check(ask(&asking(&["  \n".into()])).await, "not blank");
    let mut reply = AssistantMessage::new("p", "m", StopReason::Stop);
    reply.content.push(Content::text("hello"));
    let reply = AgentMessage::from(Message::from(reply));
    check(ask(&asking(&["hi".into(), reply.clone()])).await, "must end with a user message");
    assert!(ask(&asking(&["hi".into(), reply, "and?".into()])).await.is_ok());
    let note = AgentMessage::extension("note", json!(1));
    check(ask(&asking(&[note])).await, "at least one message");
    let empty = ScriptedProvider::texts(["hello"]).allow_empty();
    assert!(complete(&empty, &asking(&[]), &CancellationToken::new()).await.is_ok());
}

/// REQ-030.
#[tokio::test]
async fn tools_that_a_real_api_refuses_are_refused() {
    let object = json!({"type": "object"});
    let with = |tools: &[(&str, &serde_json::Value)]| {
        let mut request = asking(&["hi".into()]);
        request.tools =
            tools.iter().map(|(name, schema)| ToolDefinition::new(*name, "d", (*schema).clone())).collect();
        request
    };
    check(ask(&with(&[("my tool", &object)])).await, "does not match");
    check(ask(&with(&[("", &object)])).await, "does not match");
    check(ask(&with(&[(&"x".repeat(65), &object)])).await, "does not match");
    check(ask(&with(&[("a", &object), ("a", &object)])).await, "used twice");
    check(ask(&with(&[("a", &json!({"type": "string"}))])).await, "not an object");
    assert!(ask(&with(&[("a", &object), ("b", &object)])).await.is_ok());
}

/// REQ-030.
#[tokio::test]
async fn a_reply_may_depend_on_the_request() {
    let model =
        ScriptedProvider::responding(|request| ScriptedReply::text(request.history.len().to_string()));
    let request = asking(&["hi".into(), "there".into()]);
    assert_eq!(complete(&model, &request, &CancellationToken::new()).await.unwrap().text(), "2");
}
