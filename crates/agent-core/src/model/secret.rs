//! A credential without `Display` or serialized form, whose `Debug` output is hidden.

use std::fmt;
use std::sync::Arc;

use super::Redactor;

/// A credential. Its `Debug` output does not show the text, and it cannot be serialized.
///
/// ```
/// let key = agent_core::Secret::new("sk-123");
/// assert_eq!(format!("{key:?}"), "Secret(\"…\")");
/// assert_eq!(key.expose(), "sk-123");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Creates a secret from the text of a credential.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text of the credential. Only code that sends it should call this.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether the credential is empty, which no provider accepts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `text` with every occurrence of the credential replaced, also of its usual encodings: see [`Redactor`].
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        Redactor::new([self.clone()]).redact(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(\"…\")")
    }
}

impl<T: Into<Arc<str>>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}
