//! Made ids are new and the same every time.

use super::*;
use agent_core::{AssistantMessage, Content, Entry, Message, StopReason, ToolResultMessage};

fn exchange(history: &mut History, id: &str) {
    let mut reply = AssistantMessage::new("ollama", "m", StopReason::ToolUse);
    reply.content.push(Content::tool_call(id, "t", serde_json::json!({})));
    let result = ToolResultMessage::new(id.into(), "t".into(), vec![Content::text("ok")]);
    history.push_exchange(entry(reply.into()), vec![entry(result.into())]).unwrap();
}

fn entry(message: Message) -> Entry {
    Entry::from(agent_core::AgentMessage::from(message))
}

/// B-145.
#[test]
fn an_id_of_the_history_is_never_made_again() {
    let mut history = History::new();
    history.push("hello".into()).unwrap();
    let first = CallIds::new(&history).fresh();
    assert_eq!(first, CallIds::new(&history).fresh(), "the same conversation gives the same id");
    exchange(&mut history, "call_5_0");
    exchange(&mut history, &first);
    let mut ids = CallIds::new(&history);
    assert_eq!((ids.fresh().as_str(), ids.fresh().as_str()), ("call_5_1", "call_5_2"));
}
