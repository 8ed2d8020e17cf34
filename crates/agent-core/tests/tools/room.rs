//! An agent with a scripted model, and what tests ask of events.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::{Arc, Mutex};

use agent_core::testing::{
    ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed,
};
use agent_core::{
    AgentEvent, AgentTool, BasicAgent, Message, ModelConfig, ToolExecutionEnd, ToolResultMessage,
};

/// A clock on which every wait is over at once.
pub(crate) fn agent(model: &ScriptedProvider) -> BasicAgent {
    agent_in(model, &ManualEnvironment::skipping(1_000))
}

pub(crate) fn agent_in(model: &ScriptedProvider, env: &ManualEnvironment) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(model.clone())
        .with_environment(Arc::new(env.clone()))
}

pub(crate) fn boxed(tools: impl IntoIterator<Item = ScriptedTool>) -> Vec<Arc<dyn AgentTool>> {
    tools.into_iter().map(|t| Arc::new(t) as Arc<dyn AgentTool>).collect()
}

pub(crate) fn model(replies: impl IntoIterator<Item = ScriptedReply>) -> ScriptedProvider {
    ScriptedProvider::new(replies).exhaustive()
}

/// Prompts, reads to the end, and checks the laws of every stream.
pub(crate) async fn run(agent: &BasicAgent) -> Vec<AgentEvent> {
    let events = agent.prompt("go").unwrap().collect().await;
    assert_well_formed(&events);
    events
}

/// The result messages, in the order of their ends.
pub(crate) fn results(events: &[AgentEvent]) -> Vec<ToolResultMessage> {
    let messages = events.iter().filter_map(|e| match e {
        AgentEvent::MessageEnd { message, .. } => message.as_llm().and_then(Message::as_tool_result).cloned(),
        _ => None,
    });
    messages.collect()
}

/// The only result message.
#[track_caller]
pub(crate) fn result(events: &[AgentEvent]) -> ToolResultMessage {
    let mut all = results(events);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

pub(crate) fn said(result: &ToolResultMessage) -> String {
    Message::from(result.clone()).text()
}

pub(crate) fn tool_ends(events: &[AgentEvent]) -> Vec<ToolExecutionEnd> {
    let ends = events.iter().filter_map(|e| match e {
        AgentEvent::ToolExecutionEnd(end) => Some((**end).clone()),
        _ => None,
    });
    ends.collect()
}

/// What happened, in order, from everywhere.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn joined(&self) -> String {
        self.all().join(" ")
    }
}
