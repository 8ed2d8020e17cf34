//! The intended differences between our model of a reply and the vendors' models.
//!
//! [`wanted`] turns what a vendor's SDK says of a body into what ours has to say of it. A rule sees the protocol and
//! the fields of that result, never the case; it changes no text, no name and no argument. Each has a name, and the
//! report counts in how many cases it changed something.

mod google;
mod usage;

use agent_core::{ErrorKind, StopReason};
use serde_json::Value;

use super::manifest::{Expected, ExpectedCall, ExpectedError, ExpectedUsage};
pub(super) use usage::contradiction;

/// The vendors' stop words become our five.
const UNIFIED_STOP: &str = "stop: the vendor's word becomes ours";
/// A reply that holds calls stopped for them, and one without did not, whatever the word.
const CALLS_DECIDE: &str = "stop: calls decide between Stop and ToolUse";
/// A complete reply without a stop word stopped.
const NO_WORD: &str = "stop: a complete reply without a word stopped";
/// A refusal is an error with its explanation, not a reply.
const REFUSAL: &str = "stop: a refusal is an error";
/// A stop word that says that the vendor failed in the middle is an error that can be tried again.
const BROKEN: &str = "stop: a word for a failure is a network error";
/// An unknown stop reason is an error that names it.
const UNKNOWN_STOP: &str = "stop: an unknown word is an error";
/// A stream without its terminal event is a retryable error, not a shorter reply.
const CUT: &str = "end: a stream without its end mark is a network error";
/// The stop word came and the end mark did not, or came without the line end that the SDK waits for (ours does not):
/// the fields do not say which. The one is a network error, the other the complete reply.
const UNMARKED: &str = "end: a stop word without an end mark";
/// A body in which the SDK finds nothing at all is an answer of another protocol: an error, not an empty reply.
const NOTHING: &str = "end: an answer in which nothing is found is an error";
/// The vendor's status, type and code become one of our kinds.
const ERROR_KIND: &str = "error: status, type and code become a kind";
/// A vendor that says whether to try again knows it better than its status does.
const SHOULD_RETRY: &str = "error: x-should-retry decides";

/// A prompt that the vendor refused is an error with its reason, not a reply of nothing.
const BLOCKED: &str = "stop: a blocked prompt is an error";
/// Arguments that come in pieces with their places are put together.
const PIECES: &str = "calls: pieces of arguments are put together";

/// Which blocks the signatures of a case are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signed {
    /// Thinking only.
    Thinking,
    /// Every kind.
    EveryBlock,
}

/// What the decoder has to say.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) calls: Vec<ExpectedCall>,
    pub(super) partial_calls: Vec<ExpectedCall>,
    pub(super) signatures: Option<Vec<String>>,
    pub(super) signed: Signed,
    pub(super) redacted: Option<Vec<String>>,
    pub(super) usage: ExpectedUsage,
    pub(super) end: WantedEnd,
}

/// How it has to end.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WantedEnd {
    /// Completely, for this reason, at this stop sequence.
    Complete(StopReason, Option<String>),
    /// So, or with a network error.
    Unmarked(StopReason, Option<String>),
    /// With an error of this kind, whose text holds this.
    Failed(ErrorKind, Option<String>),
}

/// What ours has to say where the vendor's SDK says `expected`, and the rules that made a difference.
pub(super) fn wanted(protocol: &str, expected: &Expected) -> (Wanted, Vec<&'static str>) {
    let mut fired = Vec::new();
    let end = end(protocol, expected, &mut fired);
    let failed = matches!(end, WantedEnd::Failed(..));
    let usage = usage::wanted(protocol, expected, failed, &mut fired);
    let mut calls = expected.tool_calls.clone();
    for call in calls.iter_mut().filter(|call| !call.partial_args.is_empty()) {
        call.arguments = google::assembled(&call.partial_args);
        fired.push(PIECES);
    }
    let wanted = Wanted {
        text: expected.text.clone(),
        thinking: expected.thinking.clone(),
        calls,
        partial_calls: expected.partial_tool_calls.clone(),
        signatures: expected.thinking_signatures.clone(),
        signed: if is_google(protocol) { Signed::EveryBlock } else { Signed::Thinking },
        redacted: expected.redacted_thinking.clone(),
        usage,
        end,
    };
    (wanted, fired)
}

/// Both ways to Gemini.
fn is_google(protocol: &str) -> bool {
    matches!(protocol, "gemini" | "vertex")
}

fn end(protocol: &str, expected: &Expected, fired: &mut Vec<&'static str>) -> WantedEnd {
    if let Some(error) = &expected.error {
        fired.push(ERROR_KIND);
        let kind = error_kind(protocol, error);
        let heeded = heeding_the_vendor(kind, error);
        if heeded != kind {
            fired.push(SHOULD_RETRY);
        }
        return WantedEnd::Failed(heeded, None);
    }
    if let Some(reason) = expected.prompt_feedback.get("block_reason").and_then(Value::as_str) {
        fired.push(BLOCKED);
        return WantedEnd::Failed(ErrorKind::Api, Some(reason.to_owned()));
    }
    let word = expected.stop_reason.as_deref();
    // The stop word is the end mark, so the SDK cannot tell a cut stream from a whole one and says nothing of it.
    if is_google(protocol) && word.is_none() {
        fired.push(CUT);
        return WantedEnd::Failed(ErrorKind::Network, None);
    }
    let unmarked = expected.complete == Some(false);
    if unmarked && word.is_none() {
        fired.push(CUT);
        return WantedEnd::Failed(ErrorKind::Network, None);
    }
    if word.is_some_and(|word| FAILURE_WORDS.contains(&word)) {
        fired.push(BROKEN);
        return WantedEnd::Failed(ErrorKind::Network, None);
    }
    if expected.refusal.is_some()
        || matches!(
            word,
            Some(
                "refusal"
                    | "content_filter"
                    | "incomplete:content_filter"
                    | "sensitive"
                    | "safety"
                    | "content_filtered"
                    | "guardrail_intervened"
            )
        )
    {
        fired.push(REFUSAL);
        return WantedEnd::Failed(ErrorKind::Api, expected.refusal.clone());
    }
    let Some(word) = word else {
        if is_nothing(expected) {
            fired.push(NOTHING);
            return WantedEnd::Failed(ErrorKind::Api, None);
        }
        fired.push(NO_WORD);
        return WantedEnd::Complete(by_calls(StopReason::Stop, expected, fired), None);
    };
    let Some(reason) = stop_reason(word) else {
        fired.push(UNKNOWN_STOP);
        return WantedEnd::Failed(ErrorKind::Api, Some(word.to_owned()));
    };
    fired.push(UNIFIED_STOP);
    let reason = by_calls(reason, expected, fired);
    if unmarked {
        fired.push(UNMARKED);
        return WantedEnd::Unmarked(reason, expected.stop_sequence.clone());
    }
    WantedEnd::Complete(reason, expected.stop_sequence.clone())
}

fn is_nothing(expected: &Expected) -> bool {
    expected.text.is_empty()
        && expected.thinking.is_empty()
        && expected.tool_calls.is_empty()
        && expected.partial_tool_calls.is_empty()
        && expected.usage == ExpectedUsage::default()
}

/// Stop words that say that the vendor, or what the model wrote, failed in the middle.
const FAILURE_WORDS: &[&str] = &[
    "error",
    "network_error",
    "failed",
    "insufficient_system_resource",
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "malformed_model_output",
    "malformed_tool_use",
];

/// The vendors' stop words; no two vendors use one word in two meanings.
fn stop_reason(word: &str) -> Option<StopReason> {
    match word {
        "end_turn" | "stop_sequence" | "pause_turn" | "compaction" | "stop" | "end" | "eos" | "eos_token"
        | "complete" | "completed" | "load" | "unload" | "STOP" | "1" => Some(StopReason::Stop),
        "max_tokens"
        | "MAX_TOKENS"
        | "2"
        | "length"
        | "model_length"
        | "model_context_window_exceeded"
        | "incomplete"
        | "incomplete:max_output_tokens" => Some(StopReason::Length),
        "tool_use" | "tool_calls" | "function_call" | "FUNCTION_CALL" => Some(StopReason::ToolUse),
        _ => None,
    }
}

fn by_calls(reason: StopReason, expected: &Expected, fired: &mut Vec<&'static str>) -> StopReason {
    let decided = match (reason, expected.tool_calls.is_empty()) {
        (StopReason::Stop, false) => StopReason::ToolUse,
        (StopReason::ToolUse, true) => StopReason::Stop,
        (other, _) => other,
    };
    if decided != reason {
        fired.push(CALLS_DECIDE);
    }
    decided
}

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
fn error_kind(protocol: &str, error: &ExpectedError) -> ErrorKind {
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
    if is_google(protocol)
        && let Some(kind) = google::error_kind(status, &said)
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
fn heeding_the_vendor(kind: ErrorKind, error: &ExpectedError) -> ErrorKind {
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
