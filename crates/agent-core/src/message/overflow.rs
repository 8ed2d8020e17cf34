//! Classifies error texts of vendors: context overflow, throttling, and exhausted quota.
//!
//! ```
//! use agent_core::provider::overflow::is_context_overflow;
//! assert!(is_context_overflow(400, "This model's maximum context length is 128000 tokens"));
//! assert!(is_context_overflow(413, ""));
//! assert!(!is_context_overflow(429, "too many tokens per minute"));
//! ```

/// Phrases of an overflow, in lower case. A `#` matches a number, a `*` anything within the sentence.
const PHRASES: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "exceeds the context window",
    "exceeds the context length",
    "input token count*exceeds the maximum",
    "exceeds the maximum number of tokens",
    "maximum prompt length",
    "prompt exceeds max length",
    "reduce the length of the messages",
    "maximum context length",
    "exceeds the limit of #",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "context window exceeded",
    "exceeded model token limit",
    "too large for model with # maximum context length",
    "model_context_window_exceeded",
    "context length exceeded",
    "context_length_exceeded",
    "exceeded max context length",
    "exceeded context length",
    "exceed context limit",
    "exceeds the maximum allowed input length",
    "is longer than the model's context length",
    "but the configured context size is #",
    "range of input length should be",
    "request_too_large",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "`inputs` tokens + `max_new_tokens` must be <= #",
    "too many tokens",
    "token limit exceeded",
    "exceeds model context window",
    "request payload size exceeds the limit",
    // LM Studio; newer versions without the misplaced article.
    "when context the overflows",
    "when context overflows",
    "when the context overflows",
];

/// The phrase of a limit per period that this request alone exceeds. No wait helps, only a shorter request.
const TOO_LARGE_ALONE: &str = "must be reduced in order to run successfully";

/// Phrases of throttling. A text that contains one of them is not an overflow.
const THROTTLING: &[&str] = &[
    "throttling error",
    "throttlingexception",
    "service unavailable",
    "rate limit",
    "rate_limit",
    "too many requests",
    "per minute",
    "per day",
    "tokens per",
    "please wait before trying again",
    "peak load",
];

/// Phrases of exhausted credit, whatever the status of the response.
const SPENT: &[&str] = &[
    "insufficient_quota",
    "insufficient quota",
    "exceeded your current quota",
    "out of credit",
    "credit balance is too low",
    "insufficient balance",
    "balance is insufficient",
    "insufficient credits",
];

/// Phrases that concern credit or quota in a response whose status allows both.
const QUOTA: &[&str] =
    &["billing", "credit balance", "usage limit", "usage_limit", "payment required", "spending limit"];

/// Returns whether a response with this HTTP status and text says that the conversation is too long.
#[must_use]
pub fn is_context_overflow(status: u16, message: &str) -> bool {
    if status == 429 {
        return message.to_lowercase().contains(TOO_LARGE_ALONE);
    }
    if matches!(status, 400 | 413) && message.trim().is_empty() {
        return true;
    }
    (status == 413 && !is_throttling_text(message)) || is_overflow_text(message)
}

/// Returns whether a text alone says that the conversation is too long. Texts about throttling count only if the one request
/// exceeds the limit.
#[must_use]
pub fn is_overflow_text(message: &str) -> bool {
    let text = message.to_lowercase();
    text.contains(TOO_LARGE_ALONE)
        || (!contains_any(&text, THROTTLING) && PHRASES.iter().any(|p| matches_phrase(&text, p)))
}

/// Returns whether a text says that the client sends too many requests or tokens per period.
#[must_use]
pub fn is_throttling_text(message: &str) -> bool {
    let text = message.to_lowercase();
    !text.contains(TOO_LARGE_ALONE) && contains_any(&text, THROTTLING)
}

/// Returns whether a text says that credit or quota is exhausted.
#[must_use]
pub fn is_quota_text(message: &str) -> bool {
    let text = message.to_lowercase();
    contains_any(&text, SPENT) || contains_any(&text, QUOTA)
}

/// Returns whether a text says without doubt that credit is exhausted. Some servers send such texts with the status of
/// another error, such as 401, 403 or 500.
#[must_use]
pub fn is_spent_text(message: &str) -> bool {
    contains_any(&message.to_lowercase(), SPENT)
}

fn contains_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|p| text.contains(p))
}

fn matches_phrase(text: &str, phrase: &str) -> bool {
    if let Some((before, after)) = phrase.split_once('*') {
        return text
            .match_indices(before)
            .filter_map(|(at, _)| text.get(at + before.len()..))
            .any(|rest| rest.split(['.', '\n']).next().is_some_and(|sentence| sentence.contains(after)));
    }
    let Some((before, after)) = phrase.split_once('#') else { return text.contains(phrase) };
    text.match_indices(before).filter_map(|(at, _)| text.get(at + before.len()..)).any(|rest| {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',' || c == '_');
        digits.len() < rest.len() && digits.starts_with(after)
    })
}
