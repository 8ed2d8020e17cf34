//! Converts the end of a reply (its stop reason and details) to a completion or an error.

use agent_core::{Completion, ErrorKind, ProviderError, StopReason};

use crate::openai_responses::error;
use crate::openai_responses::wire::Response;

/// How a response ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// It is complete.
    Complete,
    /// It is not, for this reason.
    Incomplete(String),
}

impl Ending {
    /// Reads it from the status or, without one, from the name of the last event.
    ///
    /// # Errors
    /// Returns an error if the response failed, was cancelled or has not ended.
    pub(super) fn of(event: &str, response: &Response<'_>) -> Result<Self, ProviderError> {
        let by_event = event.strip_prefix("response.").filter(|name| *name != "done");
        // The name of an event is more reliable than a status, which may be outdated.
        let status = match response.status.filled() {
            Some("in_progress" | "queued") | None => by_event,
            said => said,
        };
        let status = status.or(response.status.filled()).map(str::to_ascii_lowercase);
        match status.as_deref() {
            // The vendor writes `completed`, some servers the other form.
            Some("completed" | "complete") => Ok(Self::Complete),
            Some("incomplete") => {
                let reason = response.incomplete_details.as_ref().map(|d| d.reason.as_str());
                Ok(Self::Incomplete(reason.unwrap_or_default().to_owned()))
            }
            None if response.error.is_none() => Ok(Self::Complete),
            Some("failed") | None => Err(error::failed(response.error)),
            Some("cancelled" | "canceled") => Err(error::fail(
                ErrorKind::Api,
                "the response was cancelled at the server",
                Some("cancelled"),
            )),
            Some(other) => {
                let message = format!("the response is no reply yet; its status is {other:?}");
                Err(error::fail(ErrorKind::Api, &message, Some(other)))
            }
        }
    }

    /// Converts the end to a completion or an error.
    ///
    /// # Errors
    /// Returns an error if the reply was refused or withheld, or stopped for an unknown reason.
    pub(super) fn completion(self, refusal: &str, called: bool) -> Result<Completion, ProviderError> {
        if !refusal.is_empty() {
            return Err(error::fail(ErrorKind::Api, refusal, Some("refusal")));
        }
        match self {
            Self::Complete => {
                let stop = if called { StopReason::ToolUse } else { StopReason::Stop };
                Ok(Completion::new(stop).with_vendor_reason("completed"))
            }
            Self::Incomplete(reason) => match reason.as_str() {
                "" | "max_output_tokens" | "max_tokens" | "length" => {
                    Ok(Completion::new(StopReason::Length).with_vendor_reason(reason_in_full(&reason)))
                }
                // Steering ended it at an item, so it is complete up to there.
                "steered" => {
                    let stop = if called { StopReason::ToolUse } else { StopReason::Stop };
                    Ok(Completion::new(stop).with_vendor_reason("incomplete:steered"))
                }
                "content_filter" => Err(error::fail(
                    ErrorKind::Api,
                    "the provider's content filter withheld the reply",
                    Some("content_filter"),
                )),
                other => {
                    let message = format!("the reply stopped for the unknown reason {other:?}");
                    Err(error::fail(ErrorKind::Api, &message, Some(other)))
                }
            },
        }
    }
}

fn reason_in_full(reason: &str) -> String {
    if reason.is_empty() { "incomplete".to_owned() } else { format!("incomplete:{reason}") }
}
