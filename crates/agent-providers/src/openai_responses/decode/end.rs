//! Converts the end of a reply (its stop reason and details) to a completion or an error.

use agent_core::{Completion, ErrorKind, ProviderError, StopReason};

use crate::openai_responses::error;
use crate::openai_responses::wire::Response;

/// The reasons of a reply that an output limit cut.
const CUT: &[&str] = &["", "max_output_tokens", "max_tokens", "length"];

/// The reasons of a reply that steering or the allowed number of messages ended at an item, so that it is complete up to
/// there.
const AT_AN_ITEM: &[&str] = &["steered", "max_messages"];

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

    /// Returns whether a limit cut the reply.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self, Self::Incomplete(reason) if CUT.contains(&reason.as_str()))
    }

    /// Returns whether the reason of the end is one that the vendor documents.
    pub(super) fn is_known(&self) -> bool {
        match self {
            Self::Complete => true,
            Self::Incomplete(reason) => self.is_cut() || AT_AN_ITEM.contains(&reason.as_str()),
        }
    }

    /// Converts the end to a completion or an error. `called` states whether the reply has calls, for a reason that is not
    /// known only whole ones.
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
                cut if CUT.contains(&cut) => {
                    Ok(Completion::new(StopReason::Length).with_vendor_reason(reason_in_full(&reason)))
                }
                whole if AT_AN_ITEM.contains(&whole) => {
                    let stop = if called { StopReason::ToolUse } else { StopReason::Stop };
                    Ok(Completion::new(stop).with_vendor_reason(reason_in_full(&reason)))
                }
                "content_filter" => Err(error::fail(
                    ErrorKind::Api,
                    "the provider's content filter withheld the reply",
                    Some("content_filter"),
                )),
                // Whatever the word means, the model has made its calls.
                _ if called => {
                    Ok(Completion::new(StopReason::ToolUse).with_vendor_reason(reason_in_full(&reason)))
                }
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
