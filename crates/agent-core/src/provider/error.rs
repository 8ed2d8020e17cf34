//! The errors of model calls.
//!
//! ```
//! use agent_core::{ErrorKind, ProviderError};
//! let error = ProviderError::classify(429, "slow down");
//! assert_eq!(error.kind(), ErrorKind::RateLimited);
//! assert!(error.is_retryable());
//! assert_eq!(ProviderError::classify(400, "prompt is too long: 210000 tokens").kind(), ErrorKind::ContextOverflow);
//! ```

mod record;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use record::ErrorRecord;

use super::overflow;

/// The maximum number of bytes of a vendor's text that an error stores.
pub const MAX_VENDOR_TEXT: usize = 4_096;

/// A boxed error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason for which a model call produced no complete reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The provider rejected the request.
    #[error("{0}")]
    Api(#[source] Box<ErrorContext>),
    /// The provider did not answer, broke off, or is unavailable. The same request may succeed later.
    #[error("{0}")]
    Network(#[source] Box<ErrorContext>),
    /// The credential is missing, invalid, or lacks permission.
    #[error("{0}")]
    Auth(#[source] Box<ErrorContext>),
    /// The client sent too many requests or tokens in this period.
    #[error("{0}")]
    RateLimited(#[source] Box<ErrorContext>),
    /// The conversation is longer than the model's context window.
    #[error("{0}")]
    ContextOverflow(#[source] Box<ErrorContext>),
    /// Credit or quota is exhausted. Retrying does not help.
    #[error("{0}")]
    Quota(#[source] Box<ErrorContext>),
    /// The model does not exist, or the key has no access to it.
    #[error("{0}")]
    ModelNotFound(#[source] Box<ErrorContext>),
    /// The caller cancelled the call.
    #[error("Request was aborted")]
    Cancelled,
    /// Any other failure: nothing was sent, or the response is invalid.
    #[error("{0}")]
    Other(#[source] Box<ErrorContext>),
}

/// The kind of a [`ProviderError`]. Code branches on the kind, not on the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The kind of [`ProviderError::Api`].
    Api,
    /// The kind of [`ProviderError::Network`].
    Network,
    /// The kind of [`ProviderError::Auth`].
    Auth,
    /// The kind of [`ProviderError::RateLimited`].
    RateLimited,
    /// The kind of [`ProviderError::ContextOverflow`].
    ContextOverflow,
    /// The kind of [`ProviderError::Quota`].
    Quota,
    /// The kind of [`ProviderError::ModelNotFound`].
    ModelNotFound,
    /// The kind of [`ProviderError::Cancelled`].
    Cancelled,
    /// The kind of [`ProviderError::Other`].
    Other,
}

/// The details of a failed call: the target, the HTTP status, and the vendor's text. Never contains a credential.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ErrorContext {
    /// The name of the provider.
    pub provider: Option<String>,
    /// The id of the model.
    pub model: Option<String>,
    /// The HTTP status of the response.
    pub status: Option<u16>,
    /// The vendor's id of the exchange, for support requests.
    pub request_id: Option<String>,
    /// How long the vendor asks the client to wait.
    pub retry_after: Option<Duration>,
    /// The vendor's code or type of the error.
    pub code: Option<String>,
    /// What happened: the vendor's text if there is one, at most [`MAX_VENDOR_TEXT`] bytes.
    pub message: String,
    /// What the user can do about the error.
    pub advice: Option<String>,
    /// The underlying error, if there is one.
    pub source: Option<BoxError>,
}

impl ProviderError {
    /// Creates an error of this kind from a text or from an [`ErrorContext`], which also has a status, a target and advice.
    #[must_use]
    pub fn new(kind: ErrorKind, context: impl Into<ErrorContext>) -> Self {
        let context = Box::new(context.into());
        match kind {
            ErrorKind::Api => Self::Api(context),
            ErrorKind::Network => Self::Network(context),
            ErrorKind::Auth => Self::Auth(context),
            ErrorKind::RateLimited => Self::RateLimited(context),
            ErrorKind::ContextOverflow => Self::ContextOverflow(context),
            ErrorKind::Quota => Self::Quota(context),
            ErrorKind::ModelNotFound => Self::ModelNotFound(context),
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::Other => Self::Other(context),
        }
    }

    /// Classifies a failure by HTTP status and vendor text. A status of 429 is never an overflow; then the known
    /// phrases, status 413, and 400 or 413 without a text decide; then the status alone.
    #[must_use]
    pub fn classify(status: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        let kind = classify_kind(status, &message);
        Self::new(kind, ErrorContext::new(message).with_status(status))
    }

    fn parts(&self) -> (ErrorKind, Option<&ErrorContext>) {
        match self {
            Self::Api(c) => (ErrorKind::Api, Some(c)),
            Self::Network(c) => (ErrorKind::Network, Some(c)),
            Self::Auth(c) => (ErrorKind::Auth, Some(c)),
            Self::RateLimited(c) => (ErrorKind::RateLimited, Some(c)),
            Self::ContextOverflow(c) => (ErrorKind::ContextOverflow, Some(c)),
            Self::Quota(c) => (ErrorKind::Quota, Some(c)),
            Self::ModelNotFound(c) => (ErrorKind::ModelNotFound, Some(c)),
            Self::Cancelled => (ErrorKind::Cancelled, None),
            Self::Other(c) => (ErrorKind::Other, Some(c)),
        }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.parts().0
    }

    /// Returns the details; `None` if the caller cancelled.
    #[must_use]
    pub fn context(&self) -> Option<&ErrorContext> {
        self.parts().1
    }

    /// Changes the details of the error.
    #[must_use]
    pub fn map_context(mut self, change: impl FnOnce(&mut ErrorContext)) -> Self {
        match &mut self {
            Self::Api(c)
            | Self::Network(c)
            | Self::Auth(c)
            | Self::RateLimited(c)
            | Self::ContextOverflow(c)
            | Self::Quota(c)
            | Self::ModelNotFound(c)
            | Self::Other(c) => change(c),
            Self::Cancelled => {}
        }
        self
    }

    /// Returns whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }

    /// Returns the delay that the provider requested.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.context().and_then(|c| c.retry_after)
    }

    /// Returns the HTTP status of the response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.context().and_then(|c| c.status)
    }

    /// Returns the vendor's id of the exchange.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.context().and_then(|c| c.request_id.as_deref())
    }
}

impl ErrorKind {
    /// Returns whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Network)
    }
}

impl ErrorContext {
    /// Creates details with a message, truncated to [`MAX_VENDOR_TEXT`] bytes.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_VENDOR_TEXT {
            let cut = message.floor_char_boundary(MAX_VENDOR_TEXT);
            message.truncate(cut);
            message.push('…');
        }
        Self { message, ..Self::default() }
    }

    /// Sets the provider and the model.
    #[must_use]
    pub fn with_target(mut self, provider: impl Into<String>, model: impl Into<String>) -> Self {
        self.provider = Some(provider.into());
        self.model = Some(model.into());
        self
    }

    /// Sets the HTTP status of the response.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets what the user can do about the error.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Sets the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl<T: Into<String>> From<T> for ErrorContext {
    fn from(message: T) -> Self {
        Self::new(message)
    }
}

/// Formats one line: target, status, message and advice.
impl fmt::Display for ErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.provider, &self.model) {
            (Some(provider), Some(model)) => write!(f, "{provider} ({model})")?,
            (Some(provider), None) => f.write_str(provider)?,
            (None, Some(model)) => write!(f, "the provider of {model}")?,
            (None, None) => f.write_str("the provider")?,
        }
        if let Some(status) = self.status {
            write!(f, " answered {status}")?;
        }
        let message = self.message.trim();
        if !message.is_empty() {
            write!(f, ": {message}")?;
        }
        if let Some(advice) = &self.advice {
            write!(f, " ({advice})")?;
        }
        Ok(())
    }
}

impl std::error::Error for ErrorContext {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|s| &**s as &(dyn std::error::Error + 'static))
    }
}

/// Classifies an HTTP status and a vendor text.
#[must_use]
pub fn classify_kind(status: u16, message: &str) -> ErrorKind {
    if status == 402 || (status == 429 && !overflow::is_context_overflow(status, message)) {
        return if overflow::is_quota_text(message) || status == 402 {
            ErrorKind::Quota
        } else {
            ErrorKind::RateLimited
        };
    }
    if overflow::is_context_overflow(status, message) {
        return ErrorKind::ContextOverflow;
    }
    if overflow::is_spent_text(message) {
        return ErrorKind::Quota;
    }
    match status {
        401 | 403 => ErrorKind::Auth,
        404 => ErrorKind::ModelNotFound,
        408 | 500..=599 => ErrorKind::Network,
        _ => ErrorKind::Api,
    }
}
