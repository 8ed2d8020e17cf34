//! The arguments of a call while it arrives in pieces.

use serde_json::{Map, Value};

use super::{LocalForm, escaped, patch, shell};

/// The maximum number of commands between two pieces of a call.
const MAX_SKIPPED: u64 = 64;

/// A call that arrives. The end of its item contains it completely.
#[derive(Debug)]
pub(in crate::openai_responses) struct LocalCall {
    pub(in crate::openai_responses) form: LocalForm,
    /// The text before the next piece; `None` if no piece is emitted any more.
    before: Option<String>,
    /// The number of the command that the last piece belongs to.
    command: u64,
}

impl LocalCall {
    /// Begins a call with the first event of its item.
    pub(in crate::openai_responses) fn new(form: LocalForm, item: &Map<String, Value>) -> Self {
        let before = match form {
            LocalForm::Shell => Some(shell::OPENING.to_owned()),
            LocalForm::Patch => item.get(form.member()).and_then(patch::opening),
            // The actions arrive with the end of the item.
            LocalForm::Computer => None,
        };
        Self { form, before, command: 0 }
    }

    /// Returns the next part of the arguments, from a piece of the command with this number or of the diff.
    pub(in crate::openai_responses) fn piece(&mut self, command: u64, delta: &str) -> Option<String> {
        let mut piece = self.before.take()?;
        let skipped = match self.form {
            LocalForm::Shell => {
                command.checked_sub(self.command).filter(|skipped| *skipped <= MAX_SKIPPED)?
            }
            LocalForm::Patch | LocalForm::Computer => 0,
        };
        // Half of a character in each of two pieces would differ from the whole text.
        if delta.contains(char::REPLACEMENT_CHARACTER) {
            return None;
        }
        for _ in 0..skipped {
            piece.push_str(&escaped(shell::BETWEEN));
        }
        self.command = self.command.max(command);
        self.before = Some(String::new());
        piece.push_str(&escaped(delta));
        Some(piece)
    }
}
