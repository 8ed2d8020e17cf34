//! Filters over what a user says (REQ-022, REQ-068..070).

use async_trait::async_trait;

/// What a filter thinks of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterResult {
    /// Nothing.
    Pass,
    /// The model is shown this warning with the text.
    Warn(String),
    /// The text is refused, for this reason; the run ends before any model is called.
    Reject(String),
}

/// Looks at the text of the prompts before they enter. It sees the text blocks of all user messages, joined by line ends.
/// Steering and follow-ups are not filtered.
#[async_trait]
pub trait InputFilter: Send + Sync {
    /// Its opinion.
    async fn filter(&self, text: &str) -> FilterResult;
}

#[async_trait]
impl<F: Fn(&str) -> FilterResult + Send + Sync> InputFilter for F {
    async fn filter(&self, text: &str) -> FilterResult {
        self(text)
    }
}
