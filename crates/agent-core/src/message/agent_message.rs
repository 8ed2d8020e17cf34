//! Messages in an agent's history: those that the model receives, and notes that only the program reads.

mod read;
mod written;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AssistantMessage, Content, Message};
use crate::identity::{Timestamp, TurnId};
use crate::value_depth;

/// The kind of the extension messages that contain the system prompt and the tools of a loop. Loops add them if the cache
/// configuration has [`CacheChanges::Append`](crate::model::CacheChanges::Append).
pub const INSTRUCTIONS_NOTE: &str = "looptree.instructions";

/// The beginning of the message that a stopped run leaves in the conversation.
const STOPPED: &str = "[Agent stopped: ";

/// A message in an agent's history.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum AgentMessage {
    /// A message that the model receives.
    Llm(LlmMessage),
    /// A note of the program. It is not sent unless the `convert_to_llm` hook replaces it.
    Extension(ExtensionMessage),
}

/// A message for the model, with the turn in which it entered the history.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LlmMessage {
    /// The message that the model receives.
    pub message: Message,
    /// The turn in which the message entered; `None` for messages that the caller put into the history.
    pub turn_id: Option<TurnId>,
}

/// A note that a program stores in the history. The model does not receive it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtensionMessage {
    role: ExtensionRole,
    /// The kind of note, chosen by the program.
    pub kind: String,
    /// The data of the note.
    pub data: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ExtensionRole {
    #[serde(rename = "extension")]
    Extension,
}

impl ExtensionMessage {
    /// Creates a note of this kind.
    #[must_use]
    pub fn new(kind: impl Into<String>, data: Value) -> Self {
        Self { role: ExtensionRole::Extension, kind: kind.into(), data }
    }

    /// Returns the role, which is always `extension`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        "extension"
    }
}

impl LlmMessage {
    /// Creates a message that did not enter in a turn.
    #[must_use]
    pub fn new(message: Message) -> Self {
        Self { message, turn_id: None }
    }

    /// Sets the turn in which the message entered.
    #[must_use]
    pub fn in_turn(mut self, turn_id: TurnId) -> Self {
        self.turn_id = Some(turn_id);
        self
    }
}

impl AgentMessage {
    /// Returns whether the message contains a value that is nested deeper than
    /// [`MAX_VALUE_DEPTH`](crate::MAX_VALUE_DEPTH).
    pub(crate) fn is_too_deep(&self) -> bool {
        let in_content = |content: &[Content]| content.iter().any(Content::is_too_deep);
        match self {
            Self::Extension(note) => value_depth::is_too_deep(&note.data),
            Self::Llm(message) => match &message.message {
                Message::User(message) => in_content(&message.content),
                Message::Assistant(message) => in_content(&message.content),
                Message::ToolResult(message) => {
                    value_depth::is_too_deep(&message.details) || in_content(&message.content)
                }
            },
        }
    }

    /// Creates a user message with one text block.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Message::user(text).into()
    }

    /// Creates a note of the program.
    #[must_use]
    pub fn extension(kind: impl Into<String>, data: Value) -> Self {
        Self::Extension(ExtensionMessage::new(kind, data))
    }

    /// Returns the message for the model; `None` for a note.
    #[must_use]
    pub fn as_llm(&self) -> Option<&Message> {
        match self {
            Self::Llm(m) => Some(&m.message),
            Self::Extension(_) => None,
        }
    }

    /// Returns the reply if this is one of a model.
    pub(crate) fn as_assistant(&self) -> Option<&AssistantMessage> {
        self.as_llm().and_then(Message::as_assistant)
    }

    /// Returns the role: `user`, `assistant`, `toolResult` or `extension`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::Llm(m) => m.message.role(),
            Self::Extension(m) => m.role(),
        }
    }

    /// Returns the text blocks, joined without a separator. A note has no text.
    #[must_use]
    pub fn text(&self) -> String {
        self.as_llm().map(Message::text).unwrap_or_default()
    }

    /// Creates the message that a stopped run leaves in the conversation.
    pub(crate) fn stopped(reason: &str) -> Self {
        Self::user(format!("{STOPPED}{reason}]"))
    }

    /// Returns the reason of the message that a run leaves in the conversation when a limit or a budget stops it; `None`
    /// for every other message.
    ///
    /// The model reads this message as one of the user, who did not write it. A program that shows a conversation can show
    /// the reason instead.
    ///
    /// ```
    /// use agent_core::AgentMessage;
    /// let stopped = AgentMessage::user("[Agent stopped: max turns exceeded]");
    /// assert_eq!(stopped.stopped_run_reason().as_deref(), Some("max turns exceeded"));
    /// assert_eq!(AgentMessage::user("Why did the agent stop?").stopped_run_reason(), None);
    /// ```
    #[must_use]
    pub fn stopped_run_reason(&self) -> Option<String> {
        let Some(Message::User(message)) = self.as_llm() else { return None };
        let [Content::Text(text)] = message.content.as_slice() else { return None };
        text.text.strip_prefix(STOPPED)?.strip_suffix(']').map(str::to_owned)
    }

    /// Sets the time of a message that has none.
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

impl<M: Into<Message>> From<M> for AgentMessage {
    fn from(message: M) -> Self {
        Self::Llm(LlmMessage::new(message.into()))
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
