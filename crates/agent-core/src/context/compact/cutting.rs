//! Level 5: cuts the middle of the task and of the newest turn, if they are too long even alone.

use super::dropping::{drop_others, marker_tokens};
use super::summaries::{SUMMARY_PREFIX, replacement_message};
use super::{CompactionDraft, CompactionError};
use crate::history::Entry;
use crate::message::TokenCounter;
use crate::message::{AgentMessage, AssistantMessage, Content, Message};

/// The replacement of a text of which nothing fits.
const NOTHING: &str = "[...]";
/// The replacement of an image.
const NO_IMAGE: &str = "[image removed to fit context window]";

/// The texts that replace other files.
const NO_DOCUMENT: &str = "[document removed to fit context window]";
const NO_RECORDING: &str = "[recording removed to fit context window]";
/// An upper limit of the bytes per token of any counter, which bounds the search for a cut.
const MOST_BYTES_PER_TOKEN: u64 = 16;

/// Keeps the task, the newest turn and a marker, the first two cut so that everything fits `budget` tokens.
pub(super) fn cut_essentials(draft: &mut CompactionDraft<'_>, budget: u64) -> Result<(), CompactionError> {
    let newest = draft.newest();
    let task = draft.task().filter(|at| Some(*at) != newest);
    let keep: Vec<bool> = (0..draft.pieces.len()).map(|at| Some(at) == task || Some(at) == newest).collect();
    let marker = marker_tokens(draft, &keep);
    let smallest = |at: Option<usize>| at.map_or(0, |at| smallest(draft, at));
    let needed = marker.saturating_add(smallest(task)).saturating_add(smallest(newest));
    let too_small = || CompactionError::BudgetTooSmall { budget, needed };
    let room = budget.checked_sub(marker).filter(|_| needed <= budget).ok_or_else(too_small)?;

    let tokens = |at: Option<usize>| at.and_then(|at| draft.pieces.get(at)).map_or(0, |p| p.tokens);
    let shares = share(room, &[(tokens(task), smallest(task)), (tokens(newest), smallest(newest))]);
    let mut replacements = Vec::new();
    for (at, share) in [task, newest].into_iter().zip(shares) {
        let Some((at, piece)) = at.and_then(|at| Some((at, draft.pieces.get(at)?))) else { continue };
        if piece.tokens > share {
            replacements.push((at, cut_piece(draft, &piece.entries, share).ok_or_else(too_small)?));
        }
    }
    for (at, entries) in replacements {
        draft.replace(at, entries);
    }
    drop_others(draft, &keep);
    if draft.tokens() > budget { Err(too_small()) } else { Ok(()) }
}

/// Divides `room` evenly. A part that needs less than its share leaves the rest to the others, and each part gets at
/// least its minimum.
fn share(room: u64, wants: &[(u64, u64)]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|at| wants.get(*at).map(|w| w.0));
    let mut out = vec![0; wants.len()];
    let mut rest = room;
    let mut least_of_others: u64 = wants.iter().map(|w| w.1).fold(0, u64::saturating_add);
    for (done, at) in order.into_iter().enumerate() {
        let Some(((want, least), out)) = wants.get(at).copied().zip(out.get_mut(at)) else { continue };
        least_of_others = least_of_others.saturating_sub(least);
        let even = rest / (wants.len() - done) as u64;
        let most = rest.saturating_sub(least_of_others);
        *out = want.min(even.max(least)).min(most);
        rest -= *out;
    }
    out
}

/// Returns the minimum tokens of a piece.
fn smallest(draft: &CompactionDraft<'_>, at: usize) -> u64 {
    let Some(piece) = draft.pieces.get(at) else { return 0 };
    let Some(first) = piece.entries.first() else { return 0 };
    let nothing = draft.entry(with_content(first.message(), vec![Content::text(NOTHING)])).tokens();
    let spoken = draft.entry(replacement_message(first, NOTHING.to_owned())).tokens();
    let least = if piece.entries.len() > 1 { spoken } else { nothing };
    least.min(piece.tokens)
}

fn cut_piece(draft: &CompactionDraft<'_>, entries: &[Entry], limit: u64) -> Option<Vec<Entry>> {
    let (first, results) = entries.split_first()?;
    if results.is_empty() {
        let cut = cut_message(first.message(), limit, draft.counter())?;
        return Some(vec![draft.entry(cut)]);
    }
    cut_results(draft, first, results, limit).or_else(|| {
        // The reply itself is too long, so the exchange is replaced by a text.
        let reply = first.message().as_assistant()?;
        let overhead = draft.entry(replacement_message(first, String::new())).tokens();
        let text = cut_text(&render_exchange(reply, results), limit.checked_sub(overhead)?, draft.counter())?;
        let entry = draft.entry(replacement_message(first, text));
        (entry.tokens() <= limit).then(|| vec![entry])
    })
}

/// Keeps the reply whole and cuts its results.
fn cut_results(
    draft: &CompactionDraft<'_>,
    reply: &Entry,
    results: &[Entry],
    limit: u64,
) -> Option<Vec<Entry>> {
    let counter = draft.counter();
    let room = limit.checked_sub(counter.count_message(reply.message()))?;
    let wants: Vec<(u64, u64)> = results.iter().map(|r| (counter.count_message(r.message()), 0)).collect();
    let mut out = vec![reply.clone()];
    for ((result, share), (tokens, _)) in results.iter().zip(share(room, &wants)).zip(&wants) {
        if *tokens <= share {
            out.push(result.clone());
        } else {
            out.push(draft.entry(cut_message(result.message(), share, counter)?));
        }
    }
    Some(out)
}

/// Renders an exchange as a text.
fn render_exchange(reply: &AssistantMessage, results: &[Entry]) -> String {
    let mut text = format!("{SUMMARY_PREFIX}{}", reply.text());
    for (call, result) in reply.tool_calls().zip(results) {
        text.push_str(&format!("\nAssistant called {} with {}", call.name, call.arguments.json_text()));
        text.push_str(&format!("\nResult: {}", result.message().text()));
    }
    text
}

fn cut_message(message: &AgentMessage, limit: u64, counter: &dyn TokenCounter) -> Option<AgentMessage> {
    let overhead = counter.count_message(&with_content(message, Vec::new()));
    let content = cut_content(message.as_llm()?.content(), limit.checked_sub(overhead)?, counter)?;
    let cut = with_content(message, content);
    (counter.count_message(&cut) <= limit).then_some(cut)
}

/// Joins and cuts the texts, and keeps images and files if they take at most half of the limit. Signatures and citations are
/// dropped, because they do not match a cut text.
fn cut_content(content: &[Content], limit: u64, counter: &dyn TokenCounter) -> Option<Vec<Content>> {
    let images: Vec<&Content> = content.iter().filter(|c| left_out(c).is_some()).collect();
    let image_tokens = images.iter().map(|c| counter.count_content(c)).fold(0, u64::saturating_add);
    let keep_images = image_tokens <= limit / 2;
    let mut text = String::new();
    for part in content.iter().filter_map(|c| match c {
        Content::Text(t) => Some(t.text.as_str()),
        other => left_out(other).filter(|_| !keep_images),
    }) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(part);
    }
    let room = if keep_images { limit - image_tokens } else { limit };
    let mut out = vec![Content::text(cut_text(&text, room, counter)?)];
    if keep_images {
        out.extend(images.into_iter().cloned());
    }
    Some(out)
}

/// Returns the text in the place of an image or a file.
fn left_out(content: &Content) -> Option<&'static str> {
    match content {
        Content::Image(_) => Some(NO_IMAGE),
        Content::Document(_) | Content::SearchResult(_) => Some(NO_DOCUMENT),
        Content::Audio(_) | Content::Video(_) => Some(NO_RECORDING),
        Content::Text(_) | Content::Thinking(_) | Content::ToolCall(_) | Content::Opaque(_) => None,
    }
}

/// Returns the head and the tail of a text with a line between them about the missing bytes, at most `limit` tokens.
fn cut_text(text: &str, limit: u64, counter: &dyn TokenCounter) -> Option<String> {
    let fits = |t: &str| counter.count_text(t) <= limit;
    let (mut low, mut high) =
        (0, text.len().min(saturating_usize(limit.saturating_mul(MOST_BYTES_PER_TOKEN))));
    if text.is_empty() {
        return fits(NOTHING).then(|| NOTHING.to_owned());
    }
    if high == text.len() && fits(text) {
        return Some(text.to_owned());
    }
    let mut best = None;
    while low <= high {
        let middle = low + (high - low) / 2;
        let candidate = shortened(text, middle);
        if fits(&candidate) {
            best = Some(candidate);
            low = middle + 1;
        } else if middle == 0 {
            break;
        } else {
            high = middle - 1;
        }
    }
    best.or_else(|| fits(NOTHING).then(|| NOTHING.to_owned()))
}

fn shortened(text: &str, bytes: usize) -> String {
    let (head, tail) = head_and_tail(text, bytes);
    let missing = text.len() - head.len() - tail.len();
    format!("{head}\n[... {missing} bytes cut to fit context window ...]\n{tail}")
}

/// Returns the first and the last part of a text, together at most `bytes` bytes, on character boundaries.
pub(in crate::context) fn head_and_tail(text: &str, bytes: usize) -> (&str, &str) {
    if bytes >= text.len() {
        return (text, "");
    }
    let tail = bytes / 2;
    let head = text.floor_char_boundary(bytes - tail);
    let from = text.ceil_char_boundary(text.len() - tail);
    (text.get(..head).unwrap_or_default(), text.get(from..).unwrap_or_default())
}

fn with_content(message: &AgentMessage, content: Vec<Content>) -> AgentMessage {
    let mut message = message.clone();
    if let AgentMessage::Llm(m) = &mut message {
        match &mut m.message {
            Message::User(m) => m.content = content,
            Message::Assistant(m) => m.content = content,
            Message::ToolResult(m) => m.content = content.into(),
        }
    }
    message
}

fn saturating_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
