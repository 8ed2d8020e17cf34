//! Messages that the tests are made of.

use crate::context::HeuristicTokenCounter;
use crate::context::compact::CompactionDraft;
use crate::history::{Entry, History};
use crate::identity::{LoopId, Timestamp, TurnId};
use crate::message::{
    AgentMessage, AssistantMessage, Content, LlmMessage, Message, StopReason, ToolResultMessage, UserMessage,
};

pub(super) fn user(text: &str) -> AgentMessage {
    AgentMessage::user(text)
}

/// A reply at this time, in a turn.
pub(super) fn reply(at: u64, content: Vec<Content>) -> AgentMessage {
    let calls = content.iter().any(|c| c.as_tool_call().is_some());
    let mut reply =
        AssistantMessage::new("p", "m", if calls { StopReason::ToolUse } else { StopReason::Stop });
    reply.content = content;
    reply.timestamp = Timestamp(at);
    let turn = TurnId { loop_id: LoopId::from("s.p.1"), turn_index: u32::try_from(at).unwrap() };
    LlmMessage::new(Message::from(reply)).in_turn(turn).into()
}

pub(super) fn said(at: u64, text: &str) -> AgentMessage {
    reply(at, vec![Content::text(text)])
}

pub(super) fn call(id: &str) -> Content {
    Content::tool_call(id, "bash", serde_json::json!({"command": "ls"}))
}

pub(super) fn result(id: &str, text: &str) -> AgentMessage {
    Message::from(ToolResultMessage::new(id.into(), "bash".into(), vec![Content::text(text)])).into()
}

/// A reply with one call, and its result.
pub(super) fn exchange(n: u64, text: &str) -> [AgentMessage; 2] {
    let id = format!("call_{n}");
    [reply(n, vec![call(&id)]), result(&id, text)]
}

pub(super) fn failed() -> AgentMessage {
    Message::from(AssistantMessage::new("p", "m", StopReason::Error)).into()
}

pub(super) fn user_of(content: Vec<Content>) -> AgentMessage {
    Message::from(UserMessage::new(content, Timestamp(3))).into()
}

#[track_caller]
pub(super) fn history(messages: impl IntoIterator<Item = AgentMessage>) -> History {
    let (history, repairs) = History::repaired(messages.into_iter().map(Entry::from));
    assert_eq!(repairs, []);
    history
}

pub(super) fn texts(history: &History) -> Vec<String> {
    history.messages().map(AgentMessage::text).collect()
}

/// The history after `change`.
#[track_caller]
pub(super) fn after(history: &History, change: impl FnOnce(&mut CompactionDraft<'_>)) -> History {
    let mut draft = CompactionDraft::new(history, &HeuristicTokenCounter);
    change(&mut draft);
    let (tokens, count) = (draft.tokens(), draft.pieces.iter().map(|p| p.entries.len()).sum());
    let new = history.spliced(&draft.into_splices()).unwrap();
    assert_eq!((new.tokens(), new.len()), (tokens, count));
    new
}
