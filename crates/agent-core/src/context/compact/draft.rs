//! The working copy that the levels of the cascade change.

use crate::history::{Entry, History, MessageRef, Splice};
use crate::message::TokenCounter;
use crate::message::{AgentMessage, AssistantMessage, Message};

use super::dropping::is_drop_marker;

/// A history that is being shortened. The levels change it in place; [`into_splices`](Self::into_splices) returns the
/// changes.
pub(crate) struct CompactionDraft<'a> {
    counter: &'a dyn TokenCounter,
    pub(in crate::context) pieces: Vec<Piece>,
}

/// The messages `from..to` of the history and their current replacement.
pub(in crate::context) struct Piece {
    from: usize,
    to: usize,
    pub(in crate::context) entries: Vec<Entry>,
    pub(super) tokens: u64,
    changed: bool,
}

impl Piece {
    /// Returns the current number of tokens.
    pub(in crate::context) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the first message of the piece.
    pub(super) fn first(&self) -> Option<&Message> {
        self.entries.first().and_then(|e| e.message().as_llm())
    }

    pub(super) fn reply(&self) -> Option<&AssistantMessage> {
        self.first().and_then(Message::as_assistant)
    }

    /// Returns whether a model receives it: it is neither a note nor a failed reply.
    pub(in crate::context) fn is_visible(&self) -> bool {
        self.first().is_some() && !self.is_failed()
    }

    pub(super) fn is_failed(&self) -> bool {
        self.reply().is_some_and(AssistantMessage::is_failed)
    }

    pub(super) fn visible_messages(&self) -> u64 {
        if self.is_visible() { self.entries.len() as u64 } else { 0 }
    }
}

impl<'a> CompactionDraft<'a> {
    /// Creates a working copy. Every message is counted with `counter`.
    #[must_use]
    pub(crate) fn new(history: &History, counter: &'a dyn TokenCounter) -> Self {
        let mut at = 0;
        let pieces = history
            .units()
            .map(|unit| {
                let entries = unit.entries().to_vec();
                let from = at;
                at += entries.len();
                Piece { from, to: at, tokens: count(counter, &entries), entries, changed: false }
            })
            .collect();
        Self { counter, pieces }
    }

    /// Returns the current number of tokens.
    #[must_use]
    pub(crate) fn tokens(&self) -> u64 {
        self.pieces.iter().map(|p| p.tokens).fold(0, u64::saturating_add)
    }

    /// Returns the token counter.
    #[must_use]
    pub(crate) fn counter(&self) -> &'a dyn TokenCounter {
        self.counter
    }

    /// Returns the replacements in the history; empty if nothing changed.
    #[must_use]
    pub(crate) fn into_splices(self) -> Vec<Splice> {
        let mut out: Vec<Splice> = Vec::new();
        for piece in self.pieces.into_iter().filter(|p| p.changed) {
            match out.last_mut() {
                Some(last) if last.to == piece.from => {
                    last.to = piece.to;
                    last.messages.extend(piece.entries);
                }
                _ => out.push(Splice { from: piece.from, to: piece.to, messages: piece.entries }),
            }
        }
        out
    }

    /// Creates an entry with the counted tokens of a message.
    pub(in crate::context) fn entry(&self, message: AgentMessage) -> Entry {
        let tokens = self.counter.count_message(&message);
        Entry::new(MessageRef::new(message), tokens)
    }

    /// Replaces the messages of a piece.
    pub(in crate::context) fn replace(&mut self, at: usize, entries: Vec<Entry>) {
        let tokens = count(self.counter, &entries);
        if let Some(piece) = self.pieces.get_mut(at) {
            piece.entries = entries;
            piece.tokens = tokens;
            piece.changed = true;
        }
    }

    /// Returns the newest piece that a model receives.
    pub(in crate::context) fn newest(&self) -> Option<usize> {
        self.pieces.iter().rposition(Piece::is_visible)
    }

    /// Returns the piece with the first user message.
    pub(super) fn task(&self) -> Option<usize> {
        self.pieces.iter().position(|p| matches!(p.first(), Some(m @ Message::User(user)) if user.deferred.is_none() && !is_drop_marker(m)))
    }

    /// Returns where the newest `messages` messages begin. A piece across the boundary counts as recent, and so does
    /// the newest piece that a model receives, even for 0.
    pub(super) fn recent_start(&self, messages: usize) -> usize {
        let mut start = self.pieces.len();
        let mut seen = 0;
        for (at, piece) in self.pieces.iter().enumerate().rev() {
            if seen >= messages {
                break;
            }
            seen += piece.entries.len();
            start = at;
        }
        start.min(self.newest().unwrap_or(start))
    }
}

fn count(counter: &dyn TokenCounter, entries: &[Entry]) -> u64 {
    entries.iter().map(|e| counter.count_message(e.message())).fold(0, u64::saturating_add)
}
