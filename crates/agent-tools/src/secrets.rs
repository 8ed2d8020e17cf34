//! Removes secrets that were sent to a server from texts.

use agent_core::Secret;

/// The minimum length of a secret in bytes. Shorter values can be ordinary words, and replacing them would garble texts.
const MIN_SECRET_BYTES: usize = 8;

/// The secrets that are replaced in errors, in results, and in the standard error of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Vec<Secret>);

impl Secrets {
    pub(crate) fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> =
            values.into_iter().filter(|value| value.expose().len() >= MIN_SECRET_BYTES).collect();
        // A secret can contain another one, so longer ones are replaced first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Self(secrets)
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }
}
