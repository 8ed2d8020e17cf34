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

/// B-145, REQ-120.
#[test]
fn numbered_ids_go_on_from_the_calls_of_the_history() {
    let mut history = History::new();
    history.push("hello".into()).unwrap();
    let mut ids = CallIds::new(&history);
    assert_eq!(
        (ids.numbered(Prefix::Google).as_str(), ids.numbered(Prefix::Google).as_str()),
        ("google-fc-0", "google-fc-1")
    );
    exchange(&mut history, "google-fc-0");
    exchange(&mut history, "google-fc-2");
    let mut ids = CallIds::new(&history);
    assert_eq!(
        (ids.numbered(Prefix::Google).as_str(), ids.numbered(Prefix::Vertex).as_str()),
        ("google-fc-3", "vertex-fc-4")
    );
    assert!(ids.is_taken("google-fc-2") && !ids.is_taken("google-fc-3"));
}

#[test]
fn an_id_that_was_made_is_known_by_its_form() {
    for (id, made) in [
        ("google-fc-0", true),
        ("google-fc-12", true),
        ("google-fc-", false),
        ("google-fc-x", false),
        ("call_1", false),
    ] {
        assert_eq!(Prefix::Google.made(id), made, "{id}");
        assert!(!Prefix::Vertex.made(id), "{id}");
    }
}
