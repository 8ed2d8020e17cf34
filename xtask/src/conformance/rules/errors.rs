//! The kind of an error, from what the SDK raised.

use agent_core::ErrorKind;
use serde_json::Value;

use crate::conformance::manifest::ExpectedError;

/// Words of an error that say that the conversation was too long. The list is made from vendors' documentation,
/// apart from the one in agent-core, so that the two check each other.
const OVERFLOW_WORDS: &[&str] = &[
    "context length",
    "context_length",
    "context size",
    "context window",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "maximum prompt length",
    "input token count",
    "prompt token count",
    "model token limit",
    "maximum number of tokens",
    "max_new_tokens` must be",
    "reduce the length of the messages",
];

/// Words that say that money or a quota has run out.
const QUOTA_WORDS: &[&str] =
    &["insufficient_quota", "current quota", "billing", "credit balance", "usage limit", "usage_limit"];

/// Words of a 400 that say that there is no such model, or that the key is wrong.
const NO_MODEL_WORDS: &[&str] = &[
    "invalid_model",
    "model_not_found",
    "model not found",
    "invalid model",
    "not a valid model",
    "model identifier is invalid",
];
const BAD_KEY_WORDS: &[&str] = &["invalid_api_key", "api key not valid", "incorrect api key"];

/// The kind of an error, from what the SDK raised: its HTTP status, or for an error inside of a stream the type and
/// code that the vendor gave.
pub(super) fn error_kind(protocol: &str, error: &ExpectedError) -> ErrorKind {
    let said = [
        error.kind.clone().unwrap_or_default(),
        code(error),
        error.message.clone().unwrap_or_default(),
        error.body.to_string(),
    ]
    .join(" ")
    .to_lowercase();
    let says = |words: &[&str]| words.iter().any(|w| said.contains(w));
    let in_stream = code(error).parse::<i64>().ok();
    let status =
        error.status.filter(|s| (300..600).contains(s)).or(in_stream.filter(|s| (300..600).contains(s)));
    if super::is_google(protocol)
        && let Some(kind) = super::google::error_kind(status, &said)
    {
        return kind;
    }
    match status {
        Some(402) => ErrorKind::Quota,
        Some(429) if says(QUOTA_WORDS) => ErrorKind::Quota,
        Some(429) => ErrorKind::RateLimited,
        Some(401 | 403) => ErrorKind::Auth,
        Some(404) => ErrorKind::ModelNotFound,
        Some(408 | 500..=599) => ErrorKind::Network,
        // A single request above a rate's limit: to wait does not help.
        Some(413) if says(&["rate_limit_exceeded", "tokens per minute"]) => ErrorKind::Api,
        Some(413) => ErrorKind::ContextOverflow,
        Some(400) if error.body == Value::String(String::new()) => ErrorKind::ContextOverflow,
        Some(400) if says(BAD_KEY_WORDS) => ErrorKind::Auth,
        Some(400) if says(QUOTA_WORDS) || said.contains("servicequotaexceeded") => ErrorKind::Quota,
        Some(400 | 422) if says(NO_MODEL_WORDS) => ErrorKind::ModelNotFound,
        Some(_) if says(OVERFLOW_WORDS) => ErrorKind::ContextOverflow,
        Some(_) => ErrorKind::Api,
        // AWS names an exception in the stream; a frame that was changed on the way has no name.
        None if protocol == "bedrock" => match code(error).to_lowercase().as_str() {
            "throttlingexception" => ErrorKind::RateLimited,
            "servicequotaexceededexception" => ErrorKind::Quota,
            "accessdeniedexception" => ErrorKind::Auth,
            "resourcenotfoundexception" => ErrorKind::ModelNotFound,
            _ if says(OVERFLOW_WORDS) => ErrorKind::ContextOverflow,
            "validationexception" => ErrorKind::Api,
            _ => ErrorKind::Network,
        },
        // The Responses API gives its errors a code and no type.
        None => match error.kind.clone().unwrap_or_else(|| code(error)).as_str() {
            "overloaded_error" | "api_error" | "server_error" | "timeout_error" => ErrorKind::Network,
            "rate_limit_error" | "rate_limit_exceeded" => ErrorKind::RateLimited,
            "authentication_error" | "permission_error" => ErrorKind::Auth,
            "insufficient_quota" | "billing_error" => ErrorKind::Quota,
            "not_found_error" => ErrorKind::ModelNotFound,
            _ if says(OVERFLOW_WORDS) => ErrorKind::ContextOverflow,
            // Ollama gives a text only; in mid-stream it is the runner that failed. So it is where OpenAI names no code.
            "" if matches!(protocol, "ollama" | "openai-responses" | "azure-responses") => ErrorKind::Network,
            _ => ErrorKind::Api,
        },
    }
}

/// The kind after the header `x-should-retry`, by which a vendor overrides what its status says.
pub(super) fn heeding_the_vendor(kind: ErrorKind, error: &ExpectedError) -> ErrorKind {
    match (error.headers.get("x-should-retry").map(String::as_str), kind) {
        (Some("true"), ErrorKind::Api) => ErrorKind::Network,
        (Some("false"), ErrorKind::Network | ErrorKind::RateLimited) => ErrorKind::Api,
        _ => kind,
    }
}

fn code(error: &ExpectedError) -> String {
    match &error.code {
        Value::String(code) => code.clone(),
        Value::Number(code) => code.to_string(),
        _ => String::new(),
    }
}
