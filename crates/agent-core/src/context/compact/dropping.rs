//! Level 3: drops the middle. Level 4: keeps only the newest messages.

use super::{CompactionDraft, CompactionError};
use crate::identity::Timestamp;
use crate::message::{AgentMessage, Content, LlmMessage, Message, UserMessage};

/// The prefix of the marker that replaces dropped messages.
pub const DROP_MARKER_PREFIX: &str = "[Context compacted: ";
const DROP_MARKER_SUFFIX: &str = " messages removed to fit context window]";

/// Keeps the oldest `keep_first` messages, the task (the first user message) and the newest `keep_recent`, and
/// replaces the others by a marker. An exchange across the newer boundary remains; one across the older boundary is
/// dropped. Changes nothing if there is no middle, or if it is shorter than the marker.
pub(crate) fn drop_middle(draft: &mut CompactionDraft<'_>, keep_first: usize, keep_recent: usize) {
    let mut seen = 0;
    let first = draft
        .pieces
        .iter()
        .take_while(|p| {
            seen += p.entries.len();
            seen <= keep_first
        })
        .count();
    let recent = draft.recent_start(keep_recent);
    let task = draft.task();
    let keep: Vec<bool> =
        (0..draft.pieces.len()).map(|at| at < first || at >= recent || Some(at) == task).collect();
    let (removed, tokens) = removed_by(draft, &keep);
    if removed > 0 && tokens <= draft.entry(marker(removed, Timestamp::default())).tokens() {
        return;
    }
    drop_others(draft, &keep);
}

/// Keeps the task and as many of the newest messages as fit `limit` tokens together with the marker.
///
/// # Errors
/// Returns [`CompactionError::BudgetTooSmall`] if the task, the newest turn and the marker do not fit. Nothing is
/// changed then.
pub(crate) fn keep_within_budget(draft: &mut CompactionDraft<'_>, limit: u64) -> Result<(), CompactionError> {
    if draft.tokens() <= limit {
        return Ok(());
    }
    let (task, newest) = (draft.task(), draft.newest());
    let essential = |at: usize| Some(at) == task || Some(at) == newest;
    let mut keep: Vec<bool> = (0..draft.pieces.len()).map(essential).collect();
    let room = retained_tokens(draft, &keep).saturating_add(marker_tokens(draft, &keep));
    let mut room =
        limit.checked_sub(room).ok_or(CompactionError::BudgetTooSmall { budget: limit, needed: room })?;
    for at in (0..draft.pieces.len()).rev().filter(|at| !essential(*at)) {
        let Some((piece, kept)) = draft.pieces.get(at).zip(keep.get_mut(at)) else { continue };
        match room.checked_sub(piece.tokens) {
            Some(rest) => {
                room = rest;
                *kept = true;
            }
            // A note or a failed reply that does not fit does not end the search, because no model receives it.
            None if !piece.is_visible() => {}
            None => break,
        }
    }
    // The marker was measured for the most messages; with the caller's counter, a smaller number may take more
    // tokens.
    while retained_tokens(draft, &keep).saturating_add(marker_tokens(draft, &keep)) > limit {
        let oldest = keep.iter().enumerate().position(|(at, kept)| *kept && !essential(at));
        let Some(kept) = oldest.and_then(|at| keep.get_mut(at)) else {
            let needed = retained_tokens(draft, &keep).saturating_add(marker_tokens(draft, &keep));
            return Err(CompactionError::BudgetTooSmall { budget: limit, needed });
        };
        *kept = false;
    }
    drop_others(draft, &keep);
    Ok(())
}

/// Removes every piece that is not kept, and puts a marker at the last removed piece that a model received.
pub(super) fn drop_others(draft: &mut CompactionDraft<'_>, keep: &[bool]) {
    let (removed, _) = removed_by(draft, keep);
    let gone: Vec<usize> = keep.iter().enumerate().filter(|(_, kept)| !**kept).map(|(at, _)| at).collect();
    let place = gone
        .iter()
        .rev()
        .copied()
        .find(|at| draft.pieces.get(*at).is_some_and(super::draft::Piece::is_visible));
    let since =
        gone.iter().filter_map(|at| draft.pieces.get(*at)?.first()).map(timestamp).next().unwrap_or_default();
    for at in gone {
        let entries = if Some(at) == place && removed > 0 {
            vec![draft.entry(marker(removed, since))]
        } else {
            Vec::new()
        };
        draft.replace(at, entries);
    }
}

/// Returns the messages that a model received and the tokens that are removed. A marker of an earlier compaction
/// counts as the messages it replaced.
fn removed_by(draft: &CompactionDraft<'_>, keep: &[bool]) -> (u64, u64) {
    draft.pieces.iter().zip(keep).filter(|(_, kept)| !**kept).fold(
        (0_u64, 0_u64),
        |(messages, tokens), (piece, _)| {
            let replaced = piece.first().and_then(removed_count).unwrap_or_else(|| piece.visible_messages());
            (messages.saturating_add(replaced), tokens.saturating_add(piece.tokens))
        },
    )
}

fn retained_tokens(draft: &CompactionDraft<'_>, keep: &[bool]) -> u64 {
    draft
        .pieces
        .iter()
        .zip(keep)
        .filter(|(_, kept)| **kept)
        .map(|(p, _)| p.tokens)
        .fold(0, u64::saturating_add)
}

/// Returns the tokens of the marker if everything but `keep` is removed.
pub(super) fn marker_tokens(draft: &CompactionDraft<'_>, keep: &[bool]) -> u64 {
    match removed_by(draft, keep).0 {
        0 => 0,
        removed => draft.entry(marker(removed, Timestamp::default())).tokens(),
    }
}

fn marker(removed: u64, timestamp: Timestamp) -> AgentMessage {
    let text = format!("{DROP_MARKER_PREFIX}{removed}{DROP_MARKER_SUFFIX}");
    LlmMessage::new(Message::User(UserMessage::new(vec![Content::text(text)], timestamp))).into()
}

/// Returns how many messages a marker replaces; `None` if the message is not a marker.
fn removed_count(message: &Message) -> Option<u64> {
    let Message::User(user) = message else { return None };
    let [Content::Text(text)] = user.content.as_slice() else { return None };
    text.text.strip_prefix(DROP_MARKER_PREFIX)?.strip_suffix(DROP_MARKER_SUFFIX)?.parse().ok()
}

pub(super) fn is_drop_marker(message: &Message) -> bool {
    removed_count(message).is_some()
}

pub(in crate::context) fn timestamp(message: &Message) -> Timestamp {
    match message {
        Message::User(m) => m.timestamp,
        Message::Assistant(m) => m.timestamp,
        Message::ToolResult(m) => m.timestamp,
    }
}
