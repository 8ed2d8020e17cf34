//! The intended differences between our model of a reply and the vendors' models.
//!
//! [`wanted`] turns what a vendor's SDK says of a body into what ours has to say of it. A rule sees the protocol and
//! the fields of that result, never the case; it changes no text, no name and no argument. Each has a name, and the
//! report counts in how many cases it changed something.

mod errors;
mod google;
mod usage;

use agent_core::{ErrorKind, StopReason};
use serde_json::Value;

use super::manifest::{Expected, ExpectedCall, ExpectedUsage};
use errors::{error_kind, heeding_the_vendor};
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
    pub(super) server_items: Option<Vec<String>>,
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
        server_items: expected.server_items.clone(),
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
        if !expected.tool_calls.is_empty() && !is_withheld(word) {
            fired.push(CALLS_DECIDE);
            return WantedEnd::Complete(StopReason::ToolUse, expected.stop_sequence.clone());
        }
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
    "UNEXPECTED_TOOL_CALL",
    "malformed_model_output",
    "malformed_tool_use",
];

/// The vendors' stop words; no two vendors use one word in two meanings.
fn stop_reason(word: &str) -> Option<StopReason> {
    match word {
        "end_turn"
        | "stop_sequence"
        | "compaction"
        | "stop"
        | "end"
        | "eos"
        | "eos_token"
        | "complete"
        | "completed"
        | "incomplete:max_messages"
        | "incomplete:steered"
        | "load"
        | "unload"
        | "STOP"
        | "1" => Some(StopReason::Stop),
        "max_tokens"
        | "MAX_TOKENS"
        | "2"
        | "length"
        | "model_length"
        | "model_context_window_exceeded"
        | "incomplete"
        | "incomplete:max_output_tokens" => Some(StopReason::Length),
        "tool_use" | "tool_calls" | "tool_call" | "function_call" | "FUNCTION_CALL" => {
            Some(StopReason::ToolUse)
        }
        "pause_turn" | "CONTINUATION" => Some(StopReason::Paused),
        _ => None,
    }
}

/// Gemini's words for a reply that it withheld. Its calls are not executed.
fn is_withheld(word: &str) -> bool {
    let words = ["RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR"];
    words.contains(&word) || word.contains("SAFETY") || word.starts_with("IMAGE_")
}

fn by_calls(reason: StopReason, expected: &Expected, fired: &mut Vec<&'static str>) -> StopReason {
    let decided = match (reason, expected.tool_calls.is_empty()) {
        (StopReason::Stop | StopReason::Paused, false) => StopReason::ToolUse,
        (StopReason::ToolUse, true) => StopReason::Stop,
        (other, _) => other,
    };
    if decided != reason {
        fired.push(CALLS_DECIDE);
    }
    decided
}
