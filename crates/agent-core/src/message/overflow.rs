//! Telling from a vendor's text that the conversation was too long (REQ-076, D10).
//!
//! ```
//! use agent_core::provider::overflow::is_context_overflow;
//! assert!(is_context_overflow(400, "This model's maximum context length is 128000 tokens"));
//! assert!(is_context_overflow(413, ""));
//! assert!(!is_context_overflow(429, "too many tokens per minute"));
//! ```

/// Texts that vendors use, in lower case. A `#` stands for a number, a `*` for anything within the sentence.
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
];

/// Texts of throttling, which may hold an overflow phrase and are none.
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

/// Texts that say that money or a quota has run out.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "insufficient quota",
    "exceeded your current quota",
    "billing",
    "out of credit",
    "credit balance",
    "insufficient balance",
    "insufficient credits",
    "usage limit",
    "usage_limit",
    "payment required",
    "spending limit",
];

/// Whether an answer of this status and text says that the conversation was too long.
#[must_use]
pub fn is_context_overflow(status: u16, message: &str) -> bool {
    if status == 429 {
        return false;
    }
    if matches!(status, 400 | 413) && message.trim().is_empty() {
        return true;
    }
    (status == 413 && !is_throttling_text(message)) || is_overflow_text(message)
}

/// Whether a text alone says so.
#[must_use]
pub fn is_overflow_text(message: &str) -> bool {
    let text = message.to_lowercase();
    !contains_any(&text, THROTTLING) && PHRASES.iter().any(|p| matches_phrase(&text, p))
}

/// Whether a text says that too much was asked in too short a time.
#[must_use]
pub fn is_throttling_text(message: &str) -> bool {
    contains_any(&message.to_lowercase(), THROTTLING)
}

/// Whether a text says that money or a quota has run out (B-163).
#[must_use]
pub fn is_quota_text(message: &str) -> bool {
    contains_any(&message.to_lowercase(), QUOTA)
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
