//! Removes secrets that were sent to a server from texts.

use agent_core::{Redactor, Secret};

/// The minimum length of a secret in bytes. Shorter values can be ordinary words, and replacing them would garble texts.
const MIN_SECRET_BYTES: usize = 8;

/// The secrets that are replaced in errors, in results, and in the standard error of a server, in every encoding that
/// [`Redactor`] knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Redactor);

impl Secrets {
    pub(crate) fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let parts = values.into_iter().flat_map(|value| {
            // In `Bearer TOKEN` the token alone is the secret, which a server can return without the scheme.
            let parts: Vec<Secret> = value.expose().split_whitespace().skip(1).map(Secret::from).collect();
            std::iter::once(value).chain(parts)
        });
        Self(Redactor::new(parts.filter(|value| value.expose().len() >= MIN_SECRET_BYTES)))
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.0.redact(text)
    }

    /// Redacts a text whose end may be missing, and with it the end of a secret.
    #[cfg(feature = "openapi")]
    pub(crate) fn redact_until(&self, text: &str, end: agent_core::TextEnd) -> String {
        self.0.redact_until(text, end)
    }
}
