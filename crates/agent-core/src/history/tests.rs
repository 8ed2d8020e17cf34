//! Laws of the history.

mod deferred;
mod doors;
mod forms;
mod laws;
mod repairs;
mod sharing;
mod splices;

use super::{Entry, History, MessageRef};
use crate::message::{AgentMessage, AssistantMessage, Content, Message, StopReason, ToolResultMessage};

fn user(text: &str) -> AgentMessage {
    AgentMessage::user(text)
}

fn note(text: &str) -> AgentMessage {
    AgentMessage::extension("note", text.into())
}

fn ended(stop_reason: StopReason, text: &str, calls: &[&str]) -> AgentMessage {
    let mut reply = AssistantMessage::new("p", "m", stop_reason);
    reply.content.push(Content::text(text));
    reply.content.extend(calls.iter().map(|id| Content::tool_call(*id, "tool", serde_json::json!({}))));
    Message::from(reply).into()
}

fn reply(text: &str, calls: &[&str]) -> AgentMessage {
    ended(if calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse }, text, calls)
}

fn result(id: &str, text: &str) -> AgentMessage {
    Message::from(ToolResultMessage::new(id.into(), "tool".into(), vec![Content::text(text)])).into()
}

/// A closed history; the list must be closed.
#[track_caller]
fn closed(list: impl IntoIterator<Item = AgentMessage>) -> History {
    let (history, repairs) = History::repaired(list);
    assert_eq!(repairs, []);
    history
}

fn texts(history: &History) -> Vec<String> {
    history.messages().map(AgentMessage::text).collect()
}

fn shared(history: &History) -> Vec<MessageRef> {
    history.entries().map(|e| e.shared().clone()).collect()
}

/// `reply` and its calls answered, as a unit goes in.
fn push_exchange(history: &mut History, id: &str) {
    history.push_exchange(Entry::from(reply("", &[id])), vec![Entry::from(result(id, "out"))]).unwrap();
}
