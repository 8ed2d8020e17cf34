//! The positions of cache markers in encoded messages.

#[cfg(any(feature = "anthropic", feature = "openai-chat", feature = "openai-responses"))]
use agent_core::Encoded;

/// The marker positions of the last message and of the nearest message before it that has one.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    before: Option<usize>,
    last: Option<usize>,
}

impl Marks {
    /// Adds the messages of an encoded form that begins at offset `base`.
    #[cfg(any(feature = "anthropic", feature = "openai-chat", feature = "openai-responses"))]
    pub(crate) fn extend(&mut self, form: &Encoded, base: usize) {
        for mark in form.marks() {
            self.push((*mark != Encoded::NO_MARK).then(|| base + *mark as usize));
        }
    }

    /// Adds a message; `mark` is the position at which a marker may be inserted.
    pub(crate) fn push(&mut self, mark: Option<usize>) {
        self.before = self.last.or(self.before);
        self.last = mark;
    }

    /// Returns the marker position of the second-to-last message, or of the nearest message before it that has one.
    pub(crate) fn before_last(&self) -> Option<usize> {
        self.before
    }
}
