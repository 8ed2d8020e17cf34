//! A provider error as serializable data, without its cause.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ErrorContext, ErrorKind, ProviderError};

/// A [`ProviderError`] as serializable data. The cause is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorRecord {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The message of the error.
    pub message: String,
    /// The name of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The id of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The HTTP status of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The vendor's id of the exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the vendor asks the client to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The vendor's code or type of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the user can do about the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl From<&ProviderError> for ErrorRecord {
    fn from(error: &ProviderError) -> Self {
        let context = error.context();
        let text = |get: fn(&ErrorContext) -> &Option<String>| context.and_then(|c| get(c).clone());
        Self {
            kind: error.kind(),
            message: context.map_or_else(|| error.to_string(), |c| c.message.clone()),
            provider: text(|c| &c.provider),
            model: text(|c| &c.model),
            status: error.status(),
            request_id: text(|c| &c.request_id),
            retry_after_ms: error.retry_after().map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            code: text(|c| &c.code),
            advice: text(|c| &c.advice),
        }
    }
}

impl From<ErrorRecord> for ProviderError {
    fn from(record: ErrorRecord) -> Self {
        let mut context = ErrorContext::new(record.message);
        context.provider = record.provider;
        context.model = record.model;
        context.status = record.status;
        context.request_id = record.request_id;
        context.retry_after = record.retry_after_ms.map(Duration::from_millis);
        context.code = record.code;
        context.advice = record.advice;
        Self::new(record.kind, context)
    }
}
