//! Converts the end of a reply (its stop reason and details) to a completion or an error.

use agent_core::{Completion, ErrorContext, ErrorKind, ProviderError, StopReason};

use crate::google::wire::{Candidate, SafetyRating};
use crate::json::Text;

/// The finish reasons of a reply that cannot be used. The model wrote an invalid call, or one without tools. A retry is likely
/// to differ.
const MALFORMED: &[&str] = &["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"];

/// The finish reasons of a reply that the vendor withheld.
const WITHHELD: &[&str] = &[
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "LANGUAGE",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
];

/// The finish reason of a reply that a further request continues.
const PAUSED: &str = "CONTINUATION";

/// The finish reason of the reply and its details, as far as they were received.
#[derive(Debug, Default)]
pub(super) struct Stop {
    reason: Option<String>,
    message: Option<String>,
    /// The categories for which a reply was stopped.
    categories: Vec<String>,
    /// The reason why there is no reply, and its explanation.
    blocked: Option<(String, String)>,
    called: bool,
    /// Whether the last call has no end.
    is_open: bool,
    /// The last token with which a further request can continue the reply.
    token: Option<String>,
}

impl Stop {
    /// Stores the finish reason of a piece. The last one applies: old servers send `STOP` in every piece, and with code
    /// execution the vendor sends it in the middle of a reply.
    pub(super) fn note(&mut self, candidate: &Candidate<'_>) {
        if let Some(token) = candidate.continuation_token.filled() {
            self.token = Some(token.to_owned());
        }
        let Some(reason) = candidate.finish_reason.filled().filter(|r| *r != "FINISH_REASON_UNSPECIFIED")
        else {
            return;
        };
        // The vendor writes enumerations as numbers if the request asks for it.
        self.reason = Some(match reason {
            "0" => return,
            "1" => "STOP".to_owned(),
            "2" => "MAX_TOKENS".to_owned(),
            reason => reason.to_owned(),
        });
        self.message = candidate.finish_message.filled().map(str::to_owned);
        let ratings =
            candidate.safety_ratings.map(|r| serde_json::from_str::<Vec<SafetyRating<'_>>>(r.get()));
        let ratings = ratings.and_then(Result::ok).unwrap_or_default();
        let blocked = ratings.iter().filter(|r| r.blocked);
        self.categories = blocked.map(|r| r.category.as_str().to_owned()).collect();
    }

    /// The prompt was refused.
    pub(super) fn blocked(&mut self, reason: &Text<'_>, message: &Text<'_>) {
        if let Some(reason) = reason.filled().filter(|r| *r != "BLOCK_REASON_UNSPECIFIED") {
            self.blocked = Some((reason.to_owned(), message.as_str().to_owned()));
        }
    }

    /// Records that the reply contains a call.
    pub(super) fn called(&mut self) {
        self.called = true;
    }

    /// Returns the token with which a further request can continue the reply.
    pub(super) fn token(&mut self) -> Option<String> {
        self.token.take()
    }

    /// Records that the last call has no end.
    pub(super) fn call_is_open(&mut self) {
        self.is_open = true;
    }

    /// Converts the finish reason to a completion or an error.
    pub(super) fn completion(&mut self) -> Result<Completion, ProviderError> {
        if let Some((reason, message)) = self.blocked.take() {
            return Err(failed(ErrorKind::Api, "the prompt was blocked", &reason, &message));
        }
        let Some(reason) = self.reason.take() else {
            let context = ErrorContext::new("the answer broke off: no finishReason came");
            return Err(ProviderError::new(ErrorKind::Network, context));
        };
        let stop = match reason.as_str() {
            "STOP" if self.called => StopReason::ToolUse,
            "STOP" => StopReason::Stop,
            "MAX_TOKENS" => StopReason::Length,
            // The limit of one request, with a token for the next. Without one, the reply cannot be continued.
            PAUSED if self.token.is_some() => StopReason::Paused,
            PAUSED => StopReason::Length,
            // The vendor sends STOP. Whatever another word means, the model has made its calls.
            reason
                if self.called
                    && !self.is_open
                    && !MALFORMED.contains(&reason)
                    && !WITHHELD.contains(&reason) =>
            {
                StopReason::ToolUse
            }
            _ => return Err(self.failure(&reason)),
        };
        Ok(Completion::new(stop).with_vendor_reason(reason))
    }

    fn failure(&self, reason: &str) -> ProviderError {
        let (kind, what) = match reason {
            reason if MALFORMED.contains(&reason) => (ErrorKind::Network, "the reply cannot be used"),
            reason if WITHHELD.contains(&reason) => (ErrorKind::Api, "the reply was stopped by the vendor"),
            _ => (ErrorKind::Api, "the reply did not end as it should"),
        };
        let mut message = self.message.clone().unwrap_or_default();
        if message.is_empty() {
            message = self.categories.join(", ");
        }
        failed(kind, what, reason, &message)
    }
}

fn failed(kind: ErrorKind, what: &str, reason: &str, message: &str) -> ProviderError {
    let text = if message.is_empty() {
        format!("{what} ({reason})")
    } else {
        format!("{what} ({reason}): {message}")
    };
    let mut context = ErrorContext::new(text);
    context.code = Some(reason.to_owned());
    ProviderError::new(kind, context)
}
