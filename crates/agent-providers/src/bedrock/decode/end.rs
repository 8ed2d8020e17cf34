//! Converts the end of a reply (its stop reason and details) to a completion or an error.

use agent_core::{Completion, ErrorKind, ProviderError, StopReason};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bedrock::wire;
use crate::json::Text;
use crate::rejection::{self, Spoken, Target};

/// The stop reasons of a reply that failed or was withheld.
const FAILURES: &[&str] = &[
    "model_context_window_exceeded",
    "guardrail_intervened",
    "content_filtered",
    "malformed_model_output",
    "malformed_tool_use",
];

/// The stop reason of the reply and its details, as far as they were received.
#[derive(Debug, Default)]
pub(super) struct Stop {
    reason: Option<String>,
    sequence: Option<String>,
    /// A guardrail's explanation of its intervention.
    explanation: Option<String>,
}

impl Stop {
    /// Stores the stop reason and the stop sequence.
    pub(super) fn note(&mut self, reason: &Text<'_>, fields: Option<&RawValue>) {
        self.reason = reason.filled().map(str::to_owned);
        self.sequence = fields.and_then(stop_sequence);
    }

    /// Stores the explanation of a guardrail from a trace.
    pub(super) fn explain(&mut self, trace: Option<&RawValue>) {
        let trace = trace.and_then(|trace| serde_json::from_str::<wire::Trace<'_>>(trace.get()).ok());
        let guardrail = trace.as_ref().and_then(|t| t.guardrail.as_ref());
        if let Some(reason) = guardrail.and_then(|g| g.action_reason.filled()) {
            self.explanation = Some(reason.to_owned());
        }
    }

    /// Returns whether a limit cut the reply, so that an open block is not whole.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self.reason.as_deref(), Some("max_tokens" | "model_context_window_exceeded"))
    }

    /// Converts the stop reason of a reply that contains this.
    pub(super) fn completion(
        &mut self,
        target: &Target,
        spoken: Spoken,
    ) -> Result<Completion, ProviderError> {
        let Some(reason) = self.reason.take() else {
            return rejection::unreasoned(target, spoken);
        };
        let stop = match reason.as_str() {
            "end_turn" | "stop_sequence" => StopReason::Stop,
            "max_tokens" => StopReason::Length,
            // The window became full during the reply, so its text is valid. An empty reply is an overflow.
            "model_context_window_exceeded" if spoken != Spoken::Nothing => StopReason::Length,
            "tool_use" => StopReason::ToolUse,
            // Whatever the word means, the model has made its calls.
            reason if spoken == Spoken::Calls && !FAILURES.contains(&reason) => StopReason::ToolUse,
            _ => return Err(self.failure(target, &reason)),
        };
        Ok(Completion::new(stop).with_vendor_reason(reason).with_stop_sequence(self.sequence.take()))
    }

    fn failure(&self, target: &Target, reason: &str) -> ProviderError {
        let (kind, message) = match reason {
            "model_context_window_exceeded" => {
                (ErrorKind::ContextOverflow, "the context window was full before the reply began".to_owned())
            }
            "guardrail_intervened" => (ErrorKind::Api, "a guardrail intervened in the reply".to_owned()),
            "content_filtered" => (ErrorKind::Api, "a content filter stopped the reply".to_owned()),
            // The service could not parse the output of the model. A retry may succeed.
            "malformed_model_output" | "malformed_tool_use" => {
                (ErrorKind::Network, "the model's output was malformed".to_owned())
            }
            other => (ErrorKind::Api, format!("the reply stopped for the unknown reason {other:?}")),
        };
        let explanation = self.explanation.as_ref().map(|e| format!(": {e}")).unwrap_or_default();
        target.fail(kind, &format!("{message} ({reason}){explanation}"), Some(reason))
    }
}

/// Returns the stop sequence among the additional members of a reply. The service copies these from the model's own API,
/// so they may have any form, also that of a string with JSON.
fn stop_sequence(fields: &RawValue) -> Option<String> {
    let fields: Value = serde_json::from_str(fields.get()).ok()?;
    let inner = fields.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let sequence = inner.as_ref().unwrap_or(&fields).get("stop_sequence")?.as_str()?;
    (!sequence.is_empty()).then(|| sequence.to_owned())
}
