//! Parses the vendors' error objects and classifies them.
//!
//! The vendors use a few forms: `{"error": {"message", "type", "code"}}`,
//! `{"error": "text"}`, `{"message", "code"}`, `{"detail"}`, and lists of one of these.

#[cfg(test)]
mod tests;

use agent_core::provider::error::classify_kind;
use agent_core::provider::overflow;
#[cfg(any(feature = "anthropic", feature = "bedrock"))]
use agent_core::{Completion, StopReason};
use agent_core::{ErrorContext, ErrorKind, ModelConfig, ModelRequest, ProviderError, ThinkingLevel};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::Rejection;

/// The provider and the model that errors name.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    provider: String,
    model: String,
}

impl Target {
    /// Returns the target of `request`.
    pub(crate) fn of(request: &ModelRequest) -> Self {
        Self { provider: request.model.provider.clone(), model: request.model.id.clone() }
    }

    /// Returns the id of the model.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// Returns an error of this kind with the vendor's code.
    pub(crate) fn fail(&self, kind: ErrorKind, message: &str, code: Option<&str>) -> ProviderError {
        let mut context = ErrorContext::new(message).with_target(&*self.provider, &*self.model);
        context.code = code.map(str::to_owned);
        ProviderError::new(kind, context)
    }
}

/// A vendor's error object.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct VendorError {
    /// The message.
    pub(crate) message: String,
    /// The code, if it is a word.
    pub(crate) code: Option<String>,
    /// The type.
    pub(crate) kind: Option<String>,
    /// The code, if it is an HTTP status.
    pub(crate) status: Option<u16>,
    /// Whether the request was refused for its content.
    pub(crate) refused: bool,
}

/// The code of errors that refuse a request or a reply for its content.
const REFUSAL: &str = "refusal";

/// The members with which OpenRouter describes what its moderation found.
const MODERATION: &[&str] = &["flagged_input", "reasons"];

/// The error kind of each known code and type, in lower case.
const WORDS: &[(&str, ErrorKind)] = &[
    ("insufficient_quota", ErrorKind::Quota),
    ("billing_hard_limit_reached", ErrorKind::Quota),
    ("insufficient_balance", ErrorKind::Quota),
    ("billing_error", ErrorKind::Quota),
    ("context_length_exceeded", ErrorKind::ContextOverflow),
    ("exceed_context_size_error", ErrorKind::ContextOverflow),
    ("model_max_prompt_tokens_exceeded", ErrorKind::ContextOverflow),
    ("model_not_found", ErrorKind::ModelNotFound),
    ("invalid_model", ErrorKind::ModelNotFound),
    ("deploymentnotfound", ErrorKind::ModelNotFound),
    ("not_found_error", ErrorKind::ModelNotFound),
    ("invalid_api_key", ErrorKind::Auth),
    ("authentication_error", ErrorKind::Auth),
    ("permission_error", ErrorKind::Auth),
    ("overloaded_error", ErrorKind::Network),
];

/// Codes that are used only for errors within a stream, which have no HTTP status.
const WORDS_WITHOUT_STATUS: &[(&str, ErrorKind)] = &[
    ("rate_limit_error", ErrorKind::RateLimited),
    ("rate_limit_exceeded", ErrorKind::RateLimited),
    ("too_many_requests", ErrorKind::RateLimited),
    ("invalid_request_error", ErrorKind::Api),
    ("tool_use_failed", ErrorKind::Api),
    ("content_filter", ErrorKind::Api),
    ("server_error", ErrorKind::Network),
    ("api_error", ErrorKind::Network),
    ("timeout_error", ErrorKind::Network),
];

/// Texts of a 400 or 404 for an unknown model.
const NO_MODEL: &[&str] =
    &["not a valid model", "invalid model", "model not found", "does not exist", "model not exist"];

/// Texts of a 400 for an invalid key.
const BAD_KEY: &[&str] =
    &["api key not valid", "invalid api key", "incorrect api key", "invalid authentication"];

/// The maximum number of characters that are quoted of a body that is not an error object.
const MAX_QUOTED: usize = 500;

impl VendorError {
    /// Parses an error body of any known form.
    pub(crate) fn from_body(body: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(body).ok()?;
        Self::from_value(&value)
    }

    /// Parses the member `error` of a chunk; `None` if it reports none. An error of an unknown form is quoted.
    pub(crate) fn of_member(error: &Value) -> Option<Self> {
        is_error(error).then(|| {
            let mut vendor = Self::from_value(error).unwrap_or_default();
            if vendor.message.is_empty() {
                if let Value::Object(object) = error {
                    vendor.fill(object);
                }
                vendor.message = quoted(error.to_string().as_bytes());
            }
            vendor
        })
    }

    /// Parses the JSON text of a member `error`.
    pub(crate) fn of_raw(error: &RawValue) -> Option<Self> {
        Self::of_member(&serde_json::from_str(error.get()).ok()?)
    }

    /// Parses an error object of any known form, with or without an enclosing `error`.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Array(list) => list.first().and_then(Self::from_value),
            Value::String(text) if !text.is_empty() => {
                Some(Self { message: text.clone(), ..Self::default() })
            }
            Value::Object(object) => {
                if let Some(inner) = object.get("error").filter(|e| is_error(e)) {
                    let mut error = Self::from_value(inner)?;
                    error.fill(object);
                    return Some(error);
                }
                let mut error = Self::default();
                error.fill(object);
                (!error.message.is_empty()).then_some(error)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    fn fill(&mut self, object: &serde_json::Map<String, Value>) {
        let text = |key: &str| match object.get(key) {
            Some(Value::String(s)) if !s.trim().is_empty() => Some(s.clone()),
            Some(v @ (Value::Object(_) | Value::Array(_))) => Some(v.to_string()),
            _ => None,
        };
        if self.message.is_empty()
            && let Some(message) = text("message").or_else(|| text("detail")).or_else(|| text("errors"))
        {
            self.message = message;
            if let Some(raw) = object.get("metadata").and_then(|m| m.get("raw")).and_then(Value::as_str) {
                self.message.push_str(": ");
                self.message.push_str(raw);
            }
        }
        for key in ["code", "status", "status_code"] {
            match object.get(key) {
                Some(Value::Number(n)) => {
                    let status = n.as_u64().and_then(|n| u16::try_from(n).ok());
                    self.status = self.status.or(status.filter(|s| (400..600).contains(s)));
                }
                Some(Value::String(s)) if key != "status_code" && !s.is_empty() => {
                    self.code.get_or_insert_with(|| s.clone());
                }
                _ => {}
            }
        }
        if let Some(metadata) = object.get("metadata")
            && MODERATION.iter().any(|member| metadata.get(member).is_some())
        {
            self.refused = true;
            self.code = Some(REFUSAL.to_owned());
        }
        if self.kind.is_none() {
            self.kind = object.get("type").and_then(Value::as_str).map(str::to_owned);
        }
    }

    /// Returns the kind of the error, given the HTTP status of the response or `None` for an error within a stream.
    pub(crate) fn meaning(&self, status: Option<u16>) -> ErrorKind {
        if self.refused {
            return ErrorKind::Api;
        }
        if overflow::is_spent_text(&self.message) {
            return ErrorKind::Quota;
        }
        let word = |words: &[(&str, ErrorKind)]| {
            let said = [self.code.as_deref(), self.kind.as_deref()];
            let said = said.into_iter().flatten().map(str::to_lowercase).collect::<Vec<_>>();
            words.iter().find(|(w, _)| said.iter().any(|s| s == w)).map(|(_, kind)| *kind)
        };
        let by_word = word(WORDS).filter(|k| status != Some(429) || *k == ErrorKind::Quota);
        if let Some(kind) = by_word {
            return kind;
        }
        let lower = self.message.to_lowercase();
        let says = |texts: &[&str]| texts.iter().any(|t| lower.contains(t));
        match status.or(self.status) {
            Some(400) if says(BAD_KEY) => ErrorKind::Auth,
            Some(400) if says(NO_MODEL) && lower.contains("model") => ErrorKind::ModelNotFound,
            Some(status) => classify_kind(status, &self.message),
            None if overflow::is_overflow_text(&self.message) => ErrorKind::ContextOverflow,
            None if overflow::is_quota_text(&self.message) => ErrorKind::Quota,
            None if overflow::is_throttling_text(&self.message) => ErrorKind::RateLimited,
            None => word(WORDS_WITHOUT_STATUS).unwrap_or(ErrorKind::Network),
        }
    }

    /// Returns the error of a stream that ended with this object.
    pub(crate) fn in_stream(self) -> ProviderError {
        let kind = self.meaning(None);
        let mut context = ErrorContext::new(if self.message.is_empty() {
            String::from("the answer broke off with an error that has no text")
        } else {
            self.message
        });
        context.status = self.status;
        context.code = self.code.or(self.kind);
        ProviderError::new(kind, context)
    }
}

fn is_error(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(s) => !s.is_empty(),
        Value::Array(a) => !a.is_empty(),
        Value::Object(o) => !o.is_empty(),
    }
}

/// What a reply contains at its end.
#[cfg(any(feature = "anthropic", feature = "bedrock"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// No block.
    Nothing,
    /// Blocks, without a call or with one whose end is missing.
    Blocks,
    /// Calls, each with its end.
    Calls,
}

/// Returns the end of a reply that has an end mark and no stop reason.
///
/// # Errors
/// Returns an error that can be retried if the reply is empty.
#[cfg(any(feature = "anthropic", feature = "bedrock"))]
pub(crate) fn unreasoned(target: &Target, spoken: Spoken) -> Result<Completion, ProviderError> {
    if spoken != Spoken::Nothing {
        return Ok(Completion::new(StopReason::Stop));
    }
    Err(target.fail(ErrorKind::Network, "the reply ended without content and without a stop reason", None))
}

/// Parses an error response of any vendor. The transport adds the target, the request id and the delay.
pub(crate) fn read(request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
    let model = &request.model;
    let status = rejection.status;
    if is_html(rejection.body) {
        // A 413 stays an overflow: a shorter conversation has a shorter body.
        let kind = match classify_kind(status, "html") {
            ErrorKind::ModelNotFound => ErrorKind::Api,
            kind => kind,
        };
        let title = html_title(rejection.body).map(|t| format!(" titled {t:?}")).unwrap_or_default();
        let context = ErrorContext::new(format!("the answer is an HTML page{title}, not JSON"))
            .with_status(status)
            .with_advice(match kind {
                ErrorKind::Auth => key_advice(model),
                ErrorKind::Network | ErrorKind::RateLimited => {
                    "a proxy or gateway answered; try again later".to_owned()
                }
                ErrorKind::ContextOverflow => {
                    "a proxy or gateway refused the size of the request; shorten it or raise the limit there"
                        .to_owned()
                }
                _ => "check that base_url is the address of an API, not of a web site".to_owned(),
            });
        return ProviderError::new(kind, context);
    }
    let vendor = VendorError::from_body(rejection.body)
        .unwrap_or_else(|| VendorError { message: quoted(rejection.body), ..VendorError::default() });
    let kind = vendor.meaning(Some(status));
    let mut context = ErrorContext::new(vendor.message).with_status(status);
    context.code = vendor.code.or(vendor.kind);
    context.advice = advice(kind, model).or_else(|| setting(request, &context.message));
    ProviderError::new(kind, context)
}

/// Returns advice for the user about an error of this kind.
pub(crate) fn advice(kind: ErrorKind, model: &ModelConfig) -> Option<String> {
    match kind {
        ErrorKind::Auth => Some(key_advice(model)),
        ErrorKind::ModelNotFound => {
            Some(format!("check the model id {:?}, that this key may use it, and base_url", model.id))
        }
        ErrorKind::Quota => Some(format!("check plan, credit and limits of the {} account", model.provider)),
        _ => None,
    }
}

/// Texts by which servers refuse a member of a request.
const REFUSES: &[&str] =
    &["not support", "unsupported", "unknown", "unrecognized", "not allowed", "not permitted"];

/// Returns advice about the setting that a server refuses in this text, if the request has it.
pub(crate) fn setting(request: &ModelRequest, message: &str) -> Option<String> {
    let text = message.to_lowercase();
    if !REFUSES.iter().any(|phrase| text.contains(phrase)) {
        return None;
    }
    let level = request.options.thinking_level;
    if level != ThinkingLevel::Off && (text.contains("think") || text.contains("reasoning")) {
        let level = level.as_str();
        return Some(format!(
            "the request asks for the thinking level {level}; set the level to off, in the command with --thinking off"
        ));
    }
    let is_heat = request.options.temperature.is_some() && text.contains("temperature");
    is_heat.then(|| "leave out the temperature of the request".to_owned())
}

fn key_advice(model: &ModelConfig) -> String {
    match agent_core::model::key_variable(&model.provider) {
        Some(variable) => {
            format!("check the API key for {}; it is usually kept in {variable}", model.provider)
        }
        None => format!("check the API key for {}", model.provider),
    }
}

/// Returns whether a body is a web page.
pub(crate) fn is_html(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'<')
}

fn html_title(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let lower = text.to_ascii_lowercase();
    let from = lower.find("<title>")? + "<title>".len();
    let len = lower.get(from..)?.find("</title>")?;
    let title = text.get(from..from + len)?.trim();
    (!title.is_empty()).then(|| title.chars().take(100).collect())
}

fn quoted(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.chars().count() > MAX_QUOTED {
        text.chars().take(MAX_QUOTED).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}
