//! Values that were given to a server, MCP's or an API's, and must not come back in texts.

use agent_core::Secret;

/// Shorter values are words of the language as often as secrets; to replace them would garble texts.
const MIN_SECRET_BYTES: usize = 8;

/// What is replaced in errors, in results, and in what a server writes to its standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Vec<Secret>);

impl Secrets {
    pub(crate) fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> =
            values.into_iter().filter(|value| value.expose().len() >= MIN_SECRET_BYTES).collect();
        // A secret may hold another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Self(secrets)
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }
}
