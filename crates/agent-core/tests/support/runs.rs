//! What the tests of the loop share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::future::Future;
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{AgentEvent, AgentMessage, BasicAgent, Message, MessageRef, ModelConfig, ModelRequest};

/// Far more than anything here takes: a test that would hang fails instead.
const HANG: Duration = Duration::from_secs(30);

/// An agent whose model follows this script, and the model.
pub(crate) fn agent(
    replies: impl IntoIterator<Item = impl Into<ScriptedReply>>,
) -> (BasicAgent, ScriptedProvider) {
    let model = ScriptedProvider::new(replies).exhaustive();
    (BasicAgent::new(ModelConfig::default()).with_provider(model.clone()), model)
}

/// The outcome of something that must not hang.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.expect("it hangs")
}

/// All events of one prompt.
pub(crate) async fn run(agent: &BasicAgent, prompt: &str) -> Vec<AgentEvent> {
    let events = agent.prompt(prompt).expect("the agent is idle");
    within(events.collect()).await
}

/// The type of each event.
pub(crate) fn kinds(events: &[AgentEvent]) -> Vec<String> {
    events.iter().map(kind).collect()
}

/// The type of an event.
pub(crate) fn kind(event: &AgentEvent) -> String {
    let json = serde_json::to_value(event).expect("events are JSON");
    json["type"].as_str().expect("events have a type").to_owned()
}

/// Messages in short: `user(hi) assistant(hello) result(c1)`.
pub(crate) fn shown<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    messages.into_iter().map(show).collect::<Vec<_>>().join(" ")
}

fn show(message: &Message) -> String {
    match message {
        Message::User(_) => format!("user({})", message.text()),
        Message::Assistant(_) => format!("assistant({})", message.text()),
        Message::ToolResult(result) => format!("result({})", result.tool_call_id),
        other => format!("{other:?}"),
    }
}

/// What the model was shown.
pub(crate) fn asked(request: &ModelRequest) -> String {
    shown(request.messages())
}

/// The conversation of an agent.
pub(crate) fn said(agent: &BasicAgent) -> String {
    let messages = agent.messages();
    shown_refs(&messages)
}

/// Messages of a list in short, notes as `note`.
pub(crate) fn shown_refs(messages: &[MessageRef]) -> String {
    let show_any = |m: &MessageRef| m.as_llm().map_or_else(|| "note".to_owned(), show);
    messages.iter().map(show_any).collect::<Vec<_>>().join(" ")
}

/// A note that no model sees by itself.
pub(crate) fn note() -> AgentMessage {
    AgentMessage::extension("mark", serde_json::json!({"text": "remember"}))
}

/// A journal that keeps the type of every event that was written down.
#[derive(Debug, Default)]
pub(crate) struct Writing(pub(crate) std::sync::Mutex<Vec<String>>);

#[async_trait::async_trait]
impl agent_core::journal::Journal for Writing {
    async fn append(
        &self,
        entry: agent_core::journal::JournalEntry<'_>,
    ) -> Result<(), agent_core::journal::JournalError> {
        self.0.lock().unwrap().extend(entry.events.iter().map(kind));
        Ok(())
    }
}
