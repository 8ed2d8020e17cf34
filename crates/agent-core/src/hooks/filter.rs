//! Input filters, which check the text of prompts.

use async_trait::async_trait;

/// The decision of an [`InputFilter`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterResult {
    /// The text enters the conversation unchanged.
    Pass,
    /// The text enters the conversation, followed by this warning for the model.
    Warn(String),
    /// The text is rejected for this reason, and the run ends before the first model call.
    Reject(String),
}

/// Checks the text of the prompts before they enter the conversation.
///
/// The text consists of the text blocks of all user messages, joined by newlines. Steering and follow-up messages are
/// not filtered. Every closure `Fn(&str) -> FilterResult` is a filter.
#[async_trait]
pub trait InputFilter: Send + Sync {
    /// Returns the decision about the text of the prompts.
    async fn filter(&self, text: &str) -> FilterResult;
}

#[async_trait]
impl<F: Fn(&str) -> FilterResult + Send + Sync> InputFilter for F {
    async fn filter(&self, text: &str) -> FilterResult {
        self(text)
    }
}
