//! Level 1: truncates long tool outputs to their head and tail.

use std::borrow::Cow;

use super::CompactionDraft;
use super::cutting::head_and_tail;
use crate::history::Entry;
use crate::message::{AgentMessage, Content, Message};

/// The maximum bytes of a line in a truncated tool output, because a whole file may be one line.
pub const MAX_TOOL_LINE_BYTES: usize = 2_048;

/// Truncates each text of each tool result to `max_lines` lines (0 counts as 1) of at most [`MAX_TOOL_LINE_BYTES`]
/// bytes: head, tail, and a line between them with the number of missing lines. A text within both limits is
/// unchanged, so a second pass changes nothing.
pub(crate) fn truncate_tool_outputs(draft: &mut CompactionDraft<'_>, max_lines: usize) {
    let all = draft.pieces.len();
    truncate_pieces(draft, max_lines, all);
}

/// Truncates the first `pieces` pieces only.
pub(super) fn truncate_pieces(draft: &mut CompactionDraft<'_>, max_lines: usize, pieces: usize) {
    for at in 0..pieces.min(draft.pieces.len()) {
        let Some(piece) = draft.pieces.get(at) else { return };
        let shorter: Vec<Option<AgentMessage>> =
            piece.entries.iter().map(|e| truncated_result(e.message(), max_lines)).collect();
        if shorter.iter().all(Option::is_none) {
            continue;
        }
        let entries: Vec<Entry> = piece
            .entries
            .iter()
            .zip(shorter)
            .map(|(entry, new)| new.map_or_else(|| entry.clone(), |m| draft.entry(m)))
            .collect();
        draft.replace(at, entries);
    }
}

fn truncated_result(message: &AgentMessage, max_lines: usize) -> Option<AgentMessage> {
    let Some(Message::ToolResult(result)) = message.as_llm() else { return None };
    let texts: Vec<Option<String>> =
        result.content.iter().map(|c| c.as_text().and_then(|t| truncated_text(t, max_lines))).collect();
    if texts.iter().all(Option::is_none) {
        return None;
    }
    let mut message = message.clone();
    if let AgentMessage::Llm(m) = &mut message
        && let Message::ToolResult(result) = &mut m.message
    {
        for (block, text) in result.content.iter_mut().zip(texts) {
            if let Some(text) = text {
                *block = Content::text(text);
            }
        }
    }
    Some(message)
}

/// Returns the truncated text; `None` if the text is within the limits.
pub(super) fn truncated_text(text: &str, max_lines: usize) -> Option<String> {
    let max_lines = max_lines.max(1);
    let total = text.lines().count();
    if total <= max_lines && text.lines().all(|l| l.len() <= MAX_TOOL_LINE_BYTES) {
        return None;
    }
    if total <= max_lines {
        return Some(joined(text.lines().map(bounded_line)));
    }
    // One line is for the marker; the head gets the odd line.
    let tail = (max_lines - 1) / 2;
    let head = max_lines - 1 - tail;
    let marker = format!("[... {} lines truncated ...]", total - head - tail);
    let head = text.lines().take(head).map(bounded_line);
    let tail = text.lines().skip(total - tail).map(bounded_line);
    Some(joined(head.chain([Cow::Owned(marker)]).chain(tail)))
}

fn joined<'t>(lines: impl Iterator<Item = Cow<'t, str>>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

fn bounded_line(line: &str) -> Cow<'_, str> {
    if line.len() <= MAX_TOOL_LINE_BYTES {
        return Cow::Borrowed(line);
    }
    let (head, tail) = head_and_tail(line, MAX_TOOL_LINE_BYTES - MARKER_ROOM);
    let missing = line.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}[... {missing} bytes truncated ...]{tail}"))
}

/// The maximum bytes of a marker within a line: its words and twenty digits.
const MARKER_ROOM: usize = 48;
