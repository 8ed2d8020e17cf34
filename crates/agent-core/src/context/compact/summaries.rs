//! Level 2: replaces old exchanges by one line each.

use super::CompactionDraft;
use crate::history::Entry;
use crate::message::{AgentMessage, AssistantMessage, Content, LlmMessage, Message, UserMessage};

/// The prefix of a message that summarizes an old exchange.
pub const SUMMARY_PREFIX: &str = "[Summary] ";

/// The maximum size of a text block that is included in a summary, in bytes.
const MAX_SUMMARISED_BLOCK: usize = 200;
/// The maximum size of a summary, in bytes.
const MAX_SUMMARY: usize = 400;

/// Replaces each reply and its results before the newest `keep_recent` messages by one line: `[Summary] ` and the
/// reply's short texts, or the number of tools it used. User messages and notes stay whole, and failed replies are
/// removed. A reply that is shorter than its summary stays.
pub(crate) fn summarize_old_turns(draft: &mut CompactionDraft<'_>, keep_recent: usize) {
    for at in 0..draft.recent_start(keep_recent) {
        let Some(piece) = draft.pieces.get(at) else { return };
        let Some(reply) = piece.reply() else { continue };
        if piece.is_failed() {
            draft.replace(at, Vec::new());
            continue;
        }
        let tokens = piece.tokens;
        let Some(first) = piece.entries.first() else { continue };
        let summary = draft.entry(replacement_message(first, summary_line(reply)));
        if summary.tokens() < tokens {
            draft.replace(at, vec![summary]);
        }
    }
}

/// Creates a user message that replaces a reply, with the same time and turn.
pub(super) fn replacement_message(reply: &Entry, text: String) -> AgentMessage {
    let (turn_id, timestamp) = match reply.message() {
        AgentMessage::Llm(LlmMessage { message: Message::Assistant(reply), turn_id }) => {
            (turn_id.clone(), reply.timestamp)
        }
        AgentMessage::Llm(_) | AgentMessage::Extension(_) => (None, crate::identity::Timestamp::default()),
    };
    let mut message = LlmMessage::new(Message::User(UserMessage::new(vec![Content::text(text)], timestamp)));
    message.turn_id = turn_id;
    message.into()
}

fn summary_line(reply: &AssistantMessage) -> String {
    let mut texts = String::new();
    for text in reply.content.iter().filter_map(Content::as_text) {
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_SUMMARISED_BLOCK || texts.len() > MAX_SUMMARY {
            continue;
        }
        if !texts.is_empty() {
            texts.push(' ');
        }
        texts.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
    }
    texts.truncate(texts.floor_char_boundary(MAX_SUMMARY));
    let calls = reply.tool_calls().count();
    match (texts.is_empty(), calls) {
        (false, _) => format!("{SUMMARY_PREFIX}{texts}"),
        (true, 0) => format!("{SUMMARY_PREFIX}[Assistant response]"),
        (true, n) => format!("{SUMMARY_PREFIX}[Assistant used {n} tool(s)]"),
    }
}

#[cfg(test)]
mod tests;
