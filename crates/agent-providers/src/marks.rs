//! Where a cache marker goes among messages that have been written.

#[cfg(any(feature = "anthropic", feature = "openai-chat"))]
use agent_core::Encoded;

/// The place for a marker in the last message, and in the nearest message before it that has one.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    before: Option<usize>,
    last: Option<usize>,
}

impl Marks {
    /// The messages of an encoded form that begins at `base`.
    #[cfg(any(feature = "anthropic", feature = "openai-chat"))]
    pub(crate) fn extend(&mut self, form: &Encoded, base: usize) {
        for mark in form.marks() {
            self.push((*mark != Encoded::NO_MARK).then(|| base + *mark as usize));
        }
    }

    /// A message; `mark` is where a marker may go in it.
    pub(crate) fn push(&mut self, mark: Option<usize>) {
        self.before = self.last.or(self.before);
        self.last = mark;
    }

    /// The second-to-last message's, or that of the nearest one before it that has one.
    pub(crate) fn before_last(&self) -> Option<usize> {
        self.before
    }
}
