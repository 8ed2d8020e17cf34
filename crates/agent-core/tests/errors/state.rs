//! What an agent knows and keeps.

use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;

use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{
    AgentTool, BasicAgent, Content, ErrorKind, ImageContent, Message, ModelConfig, QueueKind, ThinkingLevel,
};

use crate::room::{agent, boxed, model, run};

/// B-070.
#[test]
fn a_new_agent_has_nothing_and_does_nothing() {
    let state = BasicAgent::new(ModelConfig::default()).state();
    assert_eq!(&*state.system_prompt, "");
    assert_eq!(state.thinking_level, ThinkingLevel::Off);
    assert!(state.tools.is_empty() && state.messages.is_empty() && state.pending_tool_calls.is_empty());
    assert!(!state.is_streaming && state.stream_message.is_none() && state.error_message.is_none());
}

/// B-077.
#[tokio::test]
async fn waiting_for_idle_without_a_run_returns_at_once() {
    let agent = agent(&model([]));
    agent.wait_for_idle().await;
    assert_eq!(agent.finish().await, None);
}

/// B-078.
#[tokio::test]
async fn a_run_works_on_what_was_set_when_it_began() {
    let latch = Latch::new();
    let model = model([
        ScriptedReply::call("a", "old", serde_json::json!({})).and_wait(&latch),
        "one".into(),
        "two".into(),
    ]);
    let mut agent =
        agent(&model).with_tools(boxed([ScriptedTool::saying("old", "old")])).with_system_prompt("old");
    let events = agent.prompt("go").unwrap();
    latch.reached().await;
    let other = ModelConfig::anthropic("other", "Other", "key");
    agent.set_model(other);
    agent.set_tools(boxed([ScriptedTool::saying("new", "new")]));
    agent.set_system_prompt("new");
    latch.open();
    assert_well_formed(&events.collect().await);
    run(&agent).await;
    let seen: Vec<_> = model
        .requests()
        .iter()
        .map(|r| (r.model.id.clone(), r.tools.definitions()[0].name.clone(), r.system_prompt.to_string()))
        .collect();
    let old = (ModelConfig::default().id, "old".to_owned(), "old".to_owned());
    assert_eq!(seen, [old.clone(), old, ("other".to_owned(), "new".to_owned(), "new".to_owned())]);
}

/// B-079.
#[tokio::test]
async fn a_reset_aborts_forgets_the_conversation_and_keeps_the_settings() {
    let latch = Latch::new();
    let model = model([
        ScriptedReply::error(ErrorKind::Api, "it broke"),
        ScriptedReply::text("half").and_wait(&latch),
        "fresh".into(),
    ]);
    let agent =
        agent(&model).with_system_prompt("careful").with_tools(boxed([ScriptedTool::saying("t", "ok")]));
    run(&agent).await;
    let events = agent.prompt("go").unwrap();
    latch.reached().await;
    agent.steer("later");
    agent.follow_up("much later");
    agent.reset().await;
    assert_well_formed(&events.collect().await);
    let state = agent.state();
    assert!(
        state.messages.is_empty() && state.error_message.is_none() && state.pending_tool_calls.is_empty()
    );
    assert!(!agent.has_queued_messages() && !agent.is_streaming());
    assert_eq!((&*state.system_prompt, state.tools.len()), ("careful", 1));
    assert_eq!(agent.chat("hi").await.unwrap(), "fresh");
}

/// B-080.
#[tokio::test]
async fn clearing_the_messages_keeps_queues_and_error() {
    let model = model([ScriptedReply::error(ErrorKind::Api, "it broke")]);
    let agent = agent(&model);
    run(&agent).await;
    agent.steer("later");
    agent.clear_messages().unwrap();
    assert!(agent.messages().is_empty());
    assert_eq!(agent.queued_messages(QueueKind::Steering).len(), 1);
    assert!(agent.error_message().is_some());
}

/// B-081.
#[tokio::test]
async fn what_a_caller_does_to_a_list_later_does_not_reach_the_agent() {
    let mut tools: Vec<Arc<dyn AgentTool>> = boxed([ScriptedTool::saying("a", "ok")]);
    let mut agent = agent(&ScriptedProvider::texts(["hello"]));
    agent.set_tools(tools.clone());
    tools.clear();
    assert_eq!(agent.tools().len(), 1);
    let mut messages = vec!["one".into()];
    agent.replace_messages(messages.clone()).unwrap();
    messages.push("two".into());
    agent.messages().clear();
    assert_eq!(agent.messages().len(), 1);
}

/// B-082.
#[tokio::test]
async fn a_text_with_pictures_is_one_message_with_the_text_first() {
    let model = ScriptedProvider::texts(["nice"]);
    let agent = agent(&model);
    let pictures = vec![
        ImageContent::Base64 { data: "aGk=".into(), mime_type: "image/png".into() },
        ImageContent::Url { url: "https://example.com/a.png".into() },
    ];
    agent.chat(("look", pictures)).await.unwrap();
    let request = model.requests().remove(0);
    let users: Vec<&Message> = request.messages().collect();
    assert_eq!(users.len(), 1);
    let kinds: Vec<_> = users[0]
        .content()
        .iter()
        .map(|c| match c {
            Content::Text(_) => "text",
            Content::Image(_) => "image",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["text", "image", "image"]);
}
