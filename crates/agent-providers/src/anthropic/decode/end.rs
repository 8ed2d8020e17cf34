//! Converts the end of a reply (its stop reason and details) to a completion or an error.

use agent_core::{Completion, ErrorKind, ProviderError, StopReason};

use crate::anthropic::wire;
use crate::json::Text;
use crate::rejection::{self, Spoken, Target};

/// The stop reason of the reply and its details, as far as they were received.
#[derive(Debug, Default)]
pub(super) struct Stop {
    reason: Option<String>,
    sequence: Option<String>,
    explanation: Option<String>,
    category: Option<String>,
}

impl Stop {
    /// Stores the stop reason and its details.
    pub(super) fn note(
        &mut self,
        reason: &Text<'_>,
        sequence: &Text<'_>,
        details: Option<&wire::StopDetails<'_>>,
    ) {
        let put = |slot: &mut Option<String>, said: &Text<'_>| {
            if let Some(text) = said.filled() {
                *slot = Some(text.to_owned());
            }
        };
        put(&mut self.reason, reason);
        put(&mut self.sequence, sequence);
        if let Some(details) = details {
            put(&mut self.explanation, &details.explanation);
            put(&mut self.category, &details.category);
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
            // A compaction is a complete reply; the next request continues from it.
            "end_turn" | "stop_sequence" | "compaction" => StopReason::Stop,
            "pause_turn" => StopReason::Paused,
            "max_tokens" => StopReason::Length,
            // The window became full during the reply, so its text is valid. An empty reply is an overflow.
            "model_context_window_exceeded" if spoken != Spoken::Nothing => StopReason::Length,
            "model_context_window_exceeded" => {
                let message =
                    "the context window was full before the reply began (model_context_window_exceeded)";
                return Err(target.fail(ErrorKind::ContextOverflow, message, Some(&reason)));
            }
            "tool_use" => StopReason::ToolUse,
            "refusal" => return Err(self.refusal(target)),
            // Whatever the word means, the model has made its calls.
            _ if spoken == Spoken::Calls => StopReason::ToolUse,
            other => {
                let message = format!("the reply stopped for the unknown reason {other:?}");
                return Err(target.fail(ErrorKind::Api, &message, Some(&reason)));
            }
        };
        Ok(Completion::new(stop).with_vendor_reason(reason).with_stop_sequence(self.sequence.take()))
    }

    fn refusal(&self, target: &Target) -> ProviderError {
        let mut message = "the model refused to answer".to_owned();
        if let Some(category) = &self.category {
            message.push_str(" (");
            message.push_str(category);
            message.push(')');
        }
        if let Some(explanation) = &self.explanation {
            message.push_str(": ");
            message.push_str(explanation);
        }
        target.fail(ErrorKind::Api, &message, Some("refusal"))
    }
}
