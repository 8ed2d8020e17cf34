//! Converts the finish reason of a reply to a completion or an error.

use agent_core::{ErrorContext, ErrorKind, ProviderError, StopReason};

/// The finish reasons of known servers. A reply with tool calls ends as tool use even if its reason is `stop`.
const REASONS: &[(&str, Ending)] = &[
    ("stop", Ending::Good(StopReason::Stop)),
    ("end", Ending::Good(StopReason::Stop)),
    ("eos", Ending::Good(StopReason::Stop)),
    ("eos_token", Ending::Good(StopReason::Stop)),
    ("end_turn", Ending::Good(StopReason::Stop)),
    ("stop_sequence", Ending::Good(StopReason::Stop)),
    ("complete", Ending::Good(StopReason::Stop)),
    ("completed", Ending::Good(StopReason::Stop)),
    ("length", Ending::Good(StopReason::Length)),
    ("max_tokens", Ending::Good(StopReason::Length)),
    ("model_length", Ending::Good(StopReason::Length)),
    ("tool_calls", Ending::Good(StopReason::ToolUse)),
    ("tool_call", Ending::Good(StopReason::ToolUse)),
    ("tool_use", Ending::Good(StopReason::ToolUse)),
    ("function_call", Ending::Good(StopReason::ToolUse)),
    ("content_filter", Ending::Filtered),
    ("sensitive", Ending::Filtered),
    ("safety", Ending::Filtered),
    ("recitation", Ending::Filtered),
    ("prohibited_content", Ending::Filtered),
    ("error", Ending::Broken),
    ("network_error", Ending::Broken),
    ("insufficient_system_resource", Ending::Broken),
    // vLLM gave the request up.
    ("abort", Ending::Broken),
    // Gemini wrote an invalid call. A retry is likely to differ.
    ("malformed_function_call", Ending::Broken),
    ("unexpected_tool_call", Ending::Broken),
    ("malformed_response", Ending::Broken),
];

/// The meaning of a finish reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The reply is complete.
    Good(StopReason),
    /// The provider withheld the reply.
    Filtered,
    /// The provider failed in the middle of the reply.
    Broken,
}

impl Ending {
    /// Returns the meaning of `reason`, without regard to case.
    ///
    /// # Errors
    /// Returns an error that quotes the reason if no known server sends it.
    pub(super) fn of(reason: &str) -> Result<Self, ProviderError> {
        // Gemini's endpoint writes `function_call_filter: MALFORMED_FUNCTION_CALL`.
        let word = reason.rsplit(": ").next().unwrap_or(reason);
        let known = REASONS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
        known.map(|(_, ending)| *ending).ok_or_else(|| unknown_reason(reason))
    }
}

/// Returns the error for a stream that ended before its finish reason. It can be retried.
pub(super) fn ended_early() -> ProviderError {
    let context = ErrorContext::new("the answer broke off before its end");
    ProviderError::new(ErrorKind::Network, context)
}

fn unknown_reason(reason: &str) -> ProviderError {
    let context = ErrorContext::new(format!("the answer ended for the unknown reason {reason:?}"));
    ProviderError::new(ErrorKind::Api, context)
}

/// Returns the error for a reply that the model refused with this explanation.
pub(super) fn refused(explanation: &str) -> ProviderError {
    let mut context = ErrorContext::new(explanation);
    context.code = Some(String::from("refusal"));
    ProviderError::new(ErrorKind::Api, context)
}

/// Returns the error for a reply that a content filter withheld.
pub(super) fn filtered(reason: Option<&str>) -> ProviderError {
    let mut context = ErrorContext::new("the provider's content filter withheld the answer");
    context.code = reason.map(str::to_owned);
    ProviderError::new(ErrorKind::Api, context)
}

/// Returns the error for a reply during which the provider failed. It can be retried.
pub(super) fn broke(reason: Option<&str>) -> ProviderError {
    let mut context = ErrorContext::new("the provider failed in the middle of the answer");
    context.code = reason.map(str::to_owned);
    ProviderError::new(ErrorKind::Network, context)
}
