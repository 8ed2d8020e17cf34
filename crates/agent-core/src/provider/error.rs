//! Why a call to a provider gave no complete reply (REQ-020, D9, D41).
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

/// The most bytes of a vendor's text that an error keeps.
pub const MAX_VENDOR_TEXT: usize = 4_096;

/// Any error as a cause.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no complete reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The provider refused the request.
    #[error("{0}")]
    Api(#[source] Box<ErrorContext>),
    /// No answer, a broken one, or a provider that is down: the same request may succeed later.
    #[error("{0}")]
    Network(#[source] Box<ErrorContext>),
    /// The credential is missing, wrong or not allowed to do this.
    #[error("{0}")]
    Auth(#[source] Box<ErrorContext>),
    /// Too many requests or tokens in this minute.
    #[error("{0}")]
    RateLimited(#[source] Box<ErrorContext>),
    /// The conversation is longer than the model's window.
    #[error("{0}")]
    ContextOverflow(#[source] Box<ErrorContext>),
    /// Credit or quota is used up; waiting does not help.
    #[error("{0}")]
    Quota(#[source] Box<ErrorContext>),
    /// There is no such model there, or not for this key.
    #[error("{0}")]
    ModelNotFound(#[source] Box<ErrorContext>),
    /// The caller cancelled.
    #[error("Request was aborted")]
    Cancelled,
    /// Anything else; nothing was sent, or the answer makes no sense.
    #[error("{0}")]
    Other(#[source] Box<ErrorContext>),
}

/// What a [`ProviderError`] means. This is what code branches on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ErrorKind {
    /// [`ProviderError::Api`].
    Api,
    /// [`ProviderError::Network`].
    Network,
    /// [`ProviderError::Auth`].
    Auth,
    /// [`ProviderError::RateLimited`].
    RateLimited,
    /// [`ProviderError::ContextOverflow`].
    ContextOverflow,
    /// [`ProviderError::Quota`].
    Quota,
    /// [`ProviderError::ModelNotFound`].
    ModelNotFound,
    /// [`ProviderError::Cancelled`].
    Cancelled,
    /// [`ProviderError::Other`].
    Other,
}

/// Who failed, how, and what the vendor said. It never holds a credential.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ErrorContext {
    /// The provider's name.
    pub provider: Option<String>,
    /// The model that was asked.
    pub model: Option<String>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The vendor's id of the exchange, to quote to its support.
    pub request_id: Option<String>,
    /// How long the vendor asks to wait.
    pub retry_after: Option<Duration>,
    /// The vendor's own code or type of the error.
    pub code: Option<String>,
    /// What happened; the vendor's text where there is one, at most [`MAX_VENDOR_TEXT`] bytes.
    pub message: String,
    /// What a person can do about it.
    pub advice: Option<String>,
    /// The cause.
    pub source: Option<BoxError>,
}

impl ProviderError {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, context: ErrorContext) -> Self {
        let context = Box::new(context);
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

    /// An error from a status and the vendor's text (REQ-075, D9, D10): status 429 is never an overflow; then the
    /// phrases, 413, and 400 or 413 without a text; then what the status says.
    #[must_use]
    pub fn classify(status: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        let kind = classify_kind(status, &message);
        Self::new(kind, ErrorContext::new(message).with_status(status))
    }

    /// What it means.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Api(_) => ErrorKind::Api,
            Self::Network(_) => ErrorKind::Network,
            Self::Auth(_) => ErrorKind::Auth,
            Self::RateLimited(_) => ErrorKind::RateLimited,
            Self::ContextOverflow(_) => ErrorKind::ContextOverflow,
            Self::Quota(_) => ErrorKind::Quota,
            Self::ModelNotFound(_) => ErrorKind::ModelNotFound,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Other(_) => ErrorKind::Other,
        }
    }

    /// Who failed, how, and what the vendor said; `None` when the caller cancelled.
    #[must_use]
    pub fn context(&self) -> Option<&ErrorContext> {
        match self {
            Self::Api(c)
            | Self::Network(c)
            | Self::Auth(c)
            | Self::RateLimited(c)
            | Self::ContextOverflow(c)
            | Self::Quota(c)
            | Self::ModelNotFound(c)
            | Self::Other(c) => Some(c),
            Self::Cancelled => None,
        }
    }

    /// The same error with more said about it.
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

    /// Whether the same request may succeed later (REQ-072).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }

    /// The wait that the provider asked for (REQ-073).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.context().and_then(|c| c.retry_after)
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.context().and_then(|c| c.status)
    }

    /// The vendor's id of the exchange.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.context().and_then(|c| c.request_id.as_deref())
    }
}

impl ErrorKind {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Network)
    }
}

impl ErrorContext {
    /// A context that says `message`, cut to [`MAX_VENDOR_TEXT`] bytes.
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

    /// The same, with who failed at what.
    #[must_use]
    pub fn with_target(mut self, provider: impl Into<String>, model: impl Into<String>) -> Self {
        self.provider = Some(provider.into());
        self.model = Some(model.into());
        self
    }

    /// The same, with an HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// The same, with what a person can do.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The same, with a cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// One line: who, status, what happened, what to do.
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

/// What a status and a text mean.
#[must_use]
pub fn classify_kind(status: u16, message: &str) -> ErrorKind {
    if status == 429 || status == 402 {
        return if overflow::is_quota_text(message) || status == 402 {
            ErrorKind::Quota
        } else {
            ErrorKind::RateLimited
        };
    }
    if overflow::is_context_overflow(status, message) {
        return ErrorKind::ContextOverflow;
    }
    match status {
        401 | 403 => ErrorKind::Auth,
        404 => ErrorKind::ModelNotFound,
        408 | 500..=599 => ErrorKind::Network,
        _ => ErrorKind::Api,
    }
}
