//! Level 2: old exchanges become one line each (REQ-058).

use super::CompactionDraft;
use crate::history::Entry;
use crate::message::{AgentMessage, AssistantMessage, Content, LlmMessage, Message, UserMessage};

/// How a message begins that stands for an old exchange.
pub const SUMMARY_PREFIX: &str = "[Summary] ";

/// A text block of a reply up to this many bytes goes into its summary.
const MAX_SUMMARISED_BLOCK: usize = 200;
/// The most bytes of a summary, for replies of many small blocks.
const MAX_SUMMARY: usize = 400;

/// Replaces each reply, with its results, that lies before the newest `keep_recent` messages by a user message of
/// one line: `[Summary] ` and the reply's short texts, or how many tools it used. User messages and notes stay
/// whole; failed replies, which no model sees, go. A reply that is shorter than its summary stays.
pub fn level2_summarize_old_turns(draft: &mut CompactionDraft<'_>, keep_recent: usize) {
    for at in 0..draft.recent_start(keep_recent) {
        let Some(piece) = draft.pieces.get(at) else { return };
        let Some(reply) = piece.reply() else { continue };
        if piece.is_failed() {
            draft.replace(at, Vec::new());
            continue;
        }
        let tokens = piece.tokens;
        let Some(first) = piece.entries.first() else { continue };
        let summary = draft.entry(spoken_for(first, summary_line(reply)));
        if summary.tokens() < tokens {
            draft.replace(at, vec![summary]);
        }
    }
}

/// A user message in the place of a reply: same time, same turn.
pub(super) fn spoken_for(reply: &Entry, text: String) -> AgentMessage {
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
    let mut said = String::new();
    for text in reply.content.iter().filter_map(Content::as_text) {
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_SUMMARISED_BLOCK || said.len() > MAX_SUMMARY {
            continue;
        }
        if !said.is_empty() {
            said.push(' ');
        }
        said.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
    }
    said.truncate(said.floor_char_boundary(MAX_SUMMARY));
    let calls = reply.tool_calls().count();
    match (said.is_empty(), calls) {
        (false, _) => format!("{SUMMARY_PREFIX}{said}"),
        (true, 0) => format!("{SUMMARY_PREFIX}[Assistant response]"),
        (true, n) => format!("{SUMMARY_PREFIX}[Assistant used {n} tool(s)]"),
    }
}
