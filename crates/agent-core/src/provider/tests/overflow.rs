//! Texts of vendors.

use crate::provider::overflow::{is_context_overflow, is_overflow_text, is_quota_text, is_throttling_text};
use crate::provider::{ErrorKind, ProviderError};

/// What vendors and servers say when a conversation is too long, one text for each way of saying it.
const OVERFLOWS: &[&str] = &[
    "prompt is too long: 213462 tokens > 200000 maximum",
    "Input is too long for requested model.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens.",
    "prompt token count of 135240 exceeds the limit of 128000",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit (2013)",
    "Your request exceeded model token limit: 262144 (requested: 300000)",
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "model_context_window_exceeded",
    "Context length exceeded",
    "code: context_length_exceeded",
    "too many tokens in the prompt",
    "Token limit exceeded for this model",
    "prompt too long; exceeded max context length by 5 tokens",
    "Prompt exceeds max length",
    "request_too_large: Request exceeds the maximum size",
    "exceeds the model's maximum context length of 8192 tokens",
    "context window exceeded",
    "Input length 50000 exceeds the maximum allowed input length of 32768 tokens.",
    "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
    "request has 40000 tokens, but the configured context size is 32768 tokens",
    "prompt too long; exceeded context length",
    "Range of input length should be [1, 30720]",
    "the input length exceeds the context length",
    "Request size exceeds model context window",
    "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length \
     of only 4096 tokens, which is not enough.",
    "Trying to keep the first 6547 tokens when context overflows.",
];

/// A limit per period that one request exceeds: no wait helps.
#[test]
fn a_request_that_alone_exceeds_a_limit_is_too_long() {
    let openai = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35000. The input or \
        output tokens must be reduced in order to run successfully.";
    assert!(is_overflow_text(openai) && !is_throttling_text(openai));
    for status in [400, 413, 429] {
        assert!(is_context_overflow(status, openai), "{status}");
        assert_eq!(ProviderError::classify(status, openai).kind(), ErrorKind::ContextOverflow, "{status}");
    }
}

/// REQ-076, B-160.
#[test]
fn each_way_of_saying_that_a_conversation_is_too_long_is_understood() {
    for text in OVERFLOWS {
        assert!(is_overflow_text(text), "{text}");
        assert!(is_overflow_text(&text.to_uppercase()), "in any case: {text}");
        for status in [400, 422, 500] {
            assert!(is_context_overflow(status, text), "{status} {text}");
            assert_eq!(
                ProviderError::classify(status, *text).kind(),
                ErrorKind::ContextOverflow,
                "{status} {text}"
            );
        }
    }
}

/// REQ-076, B-160.
#[test]
fn throttling_is_no_overflow_whatever_words_it_uses() {
    for text in [
        "ThrottlingException: Too many tokens, please wait before trying again.",
        "Throttling error: too many tokens",
        "Service unavailable: too many tokens",
        "Rate limit reached: too many tokens per minute",
        "rate_limit_exceeded: token limit exceeded",
        "Too many requests, token limit exceeded",
        "Too many tokens per day",
        "Your usage exceeds the maximum usage size allowed during peak load",
    ] {
        assert!(is_throttling_text(text), "{text}");
        assert!(!is_overflow_text(text), "{text}");
        assert_ne!(ProviderError::classify(400, text).kind(), ErrorKind::ContextOverflow, "{text}");
    }
    for text in OVERFLOWS {
        assert!(!is_context_overflow(429, text), "a 429 never is one: {text}");
        assert_ne!(ProviderError::classify(429, *text).kind(), ErrorKind::ContextOverflow, "{text}");
    }
}

/// REQ-076.
#[test]
fn a_refusal_without_a_text_and_a_body_that_is_too_large_are_overflows() {
    assert!(is_context_overflow(400, "") && is_context_overflow(400, " \n") && is_context_overflow(413, ""));
    assert!(is_context_overflow(413, "Payload Too Large"));
    assert!(!is_context_overflow(413, "rate limit"));
    assert!(
        !is_context_overflow(400, "unknown field")
            && !is_context_overflow(404, "")
            && !is_context_overflow(500, "")
    );
}

/// B-164.
#[test]
fn digits_and_words_that_only_look_alike_are_not_matched() {
    for text in [
        "request 4131400 failed",
        "exceeds the limit of your plan",
        "but the configured context size is unknown",
        "The input token count is fine. The image exceeds the maximum size.",
        "exceeds the maximum",
        "max_tokens must be at most 8192",
    ] {
        assert!(!is_overflow_text(text), "{text}");
    }
}

/// B-163.
#[test]
fn money_that_has_run_out_is_told_from_haste() {
    for text in [
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "Your credit balance is too low to access the API",
        "You have hit your usage limit",
        "Insufficient Balance",
    ] {
        assert!(is_quota_text(text), "{text}");
        let error = ProviderError::classify(429, text);
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Quota, false), "{text}");
    }
    assert!(!is_quota_text("slow down"));
}

/// B-163. Texts of real servers, with the statuses that they send.
#[test]
fn a_balance_that_is_spent_is_no_fault_of_the_server_and_no_wrong_key_whatever_the_status() {
    for (status, text) in [
        (500, "insufficient balance (1008)"),
        (401, "Insufficient balance. Manage your billing here: https://example.com/billing"),
        (
            403,
            "The selected model requires paid balance. Your paid balance is insufficient. Please top up and try again.",
        ),
        (400, "Insufficient Balance"),
        (503, "You exceeded your current quota"),
        (404, "insufficient credits"),
    ] {
        let error = ProviderError::classify(status, text);
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Quota, false), "{status} {text}");
    }
    // What only speaks of money may pass.
    for (status, text) in [(500, "the billing service is down"), (503, "usage limit service unavailable")] {
        assert_eq!(ProviderError::classify(status, text).kind(), ErrorKind::Network, "{status} {text}");
    }
    assert_eq!(ProviderError::classify(403, "billing is not enabled for this key").kind(), ErrorKind::Auth);
}
