//! Messages of an agent: those that a model sees, and those that only the program sees (REQ-003, 004).

mod written;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Message;
use crate::identity::{Timestamp, TurnId};

/// A message in an agent's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum AgentMessage {
    /// Shown to the model.
    Llm(LlmMessage),
    /// A program's own note; never sent unless `convert_to_llm` turns it into something else.
    Extension(ExtensionMessage),
}

/// A message for the model, with the place where it entered.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LlmMessage {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// The turn in which it entered; absent for messages that the caller put there.
    #[serde(default)]
    pub turn_id: Option<TurnId>,
}

/// A program's own note in the history (REQ-004).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtensionMessage {
    role: ExtensionRole,
    /// What kind of note, chosen by the program.
    pub kind: String,
    /// The note.
    pub data: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ExtensionRole {
    #[serde(rename = "extension")]
    Extension,
}

impl ExtensionMessage {
    /// A note of this kind.
    #[must_use]
    pub fn new(kind: impl Into<String>, data: Value) -> Self {
        Self { role: ExtensionRole::Extension, kind: kind.into(), data }
    }

    /// Always `extension`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        "extension"
    }
}

impl LlmMessage {
    /// A message that did not come from a turn.
    #[must_use]
    pub fn new(message: Message) -> Self {
        Self { message, turn_id: None }
    }

    /// The same message, entered in `turn_id`.
    #[must_use]
    pub fn in_turn(mut self, turn_id: TurnId) -> Self {
        self.turn_id = Some(turn_id);
        self
    }
}

impl AgentMessage {
    /// A user message of one text block.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Message::user(text).into()
    }

    /// A program's own note.
    #[must_use]
    pub fn extension(kind: impl Into<String>, data: Value) -> Self {
        Self::Extension(ExtensionMessage::new(kind, data))
    }

    /// The message that a model sees, if it is one.
    #[must_use]
    pub fn as_llm(&self) -> Option<&Message> {
        match self {
            Self::Llm(m) => Some(&m.message),
            Self::Extension(_) => None,
        }
    }

    /// `user`, `assistant`, `toolResult` or `extension`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::Llm(m) => m.message.role(),
            Self::Extension(m) => m.role(),
        }
    }

    /// The text blocks, joined; empty for a note.
    #[must_use]
    pub fn text(&self) -> String {
        self.as_llm().map(Message::text).unwrap_or_default()
    }

    /// Sets the time if the message has none yet.
    pub(crate) fn stamp(&mut self, now: Timestamp) {
        let Self::Llm(m) = self else { return };
        let timestamp = match &mut m.message {
            Message::User(m) => &mut m.timestamp,
            Message::Assistant(m) => &mut m.timestamp,
            Message::ToolResult(m) => &mut m.timestamp,
        };
        if *timestamp == Timestamp::default() {
            *timestamp = now;
        }
    }
}

impl From<Message> for AgentMessage {
    fn from(message: Message) -> Self {
        Self::Llm(LlmMessage::new(message))
    }
}

impl From<LlmMessage> for AgentMessage {
    fn from(message: LlmMessage) -> Self {
        Self::Llm(message)
    }
}

impl From<ExtensionMessage> for AgentMessage {
    fn from(message: ExtensionMessage) -> Self {
        Self::Extension(message)
    }
}

impl From<&str> for AgentMessage {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for AgentMessage {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}
