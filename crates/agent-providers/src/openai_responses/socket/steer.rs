//! Steering: a message of the user is sent while a reply arrives, and the server begins the next reply with it.
//!
//! The server ends the running reply at an item, or lets it end by itself, and begins its successor without a request. The run
//! sees a short reply; its next request has the message as its new end, and receives the successor instead of sending
//! it again. The history is therefore the same as without steering of the running reply.

use agent_core::provider::SteeringFeed;
use agent_core::{CancellationToken, ModelRequest, ProviderError};
use serde::Deserialize;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::json::{Members, Text};
use crate::openai_responses::{config, encode};
use crate::transport::Lane;

/// The beginning of the type of the events about steering.
const EVENTS: &str = "response.steer.";

/// A message of the user that the server was sent while a reply arrived.
#[derive(Debug)]
pub(super) struct Sent {
    /// The items, as a later request contains them.
    pub(super) items: Vec<u8>,
    /// The message of the connection.
    pub(super) message: String,
}

/// The steering of one reply.
#[derive(Debug, Default)]
pub(super) enum Steering {
    /// No message was sent.
    #[default]
    None,
    /// The server has the message, or may have it.
    Sent(Sent),
    /// The server refused the message, so it enters with the next request.
    Refused,
}

/// How the reply after a steered one begins.
pub(super) enum Successor {
    /// It has begun with this event.
    Begun(Utf8Bytes),
    /// The server has not applied the message. The request is sent.
    Refused,
    /// The server waits for other input, with which the message would have another place than in the conversation.
    Waiting,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
}

/// Returns the messages with which a reply can be steered: at OpenAI itself only.
pub(super) fn feed(request: &ModelRequest) -> Option<SteeringFeed> {
    request.steering.clone().filter(|_| config::has_lanes(&request.model))
}

impl Sent {
    /// Creates the message that steers a reply; `None` if the request cannot express it.
    pub(super) fn new(
        request: &ModelRequest,
        response_id: &str,
        message: &agent_core::AgentMessage,
    ) -> Option<Self> {
        let items = encode::steering(request, message)?;
        let mut out = Vec::with_capacity(items.len() + 128);
        let mut members = Members::open(&mut out);
        members.field("type", "response.steer").field("previous_response_id", response_id);
        let input = members.key("input");
        input.push(b'[');
        input.extend_from_slice(&items);
        input.push(b']');
        members.close();
        Some(Self { items, message: String::from_utf8(out).ok()? })
    }
}

impl Steering {
    /// Reads an event about steering. Returns whether it is one.
    pub(super) fn read(&mut self, text: &str) -> bool {
        if matches!(self, Self::None) {
            return false;
        }
        let kind = kind(text);
        if kind == "response.steer.failed" {
            tracing::debug!(
                "the server has not taken the steering of a reply; it enters with the next request"
            );
            *self = Self::Refused;
        }
        kind.starts_with(EVENTS)
    }
}

fn kind(text: &str) -> String {
    let head: Head<'_> = serde_json::from_str(text).unwrap_or_default();
    head.kind.as_str().to_owned()
}

/// Waits for the beginning of the reply that follows a steered one.
///
/// # Errors
/// Returns the errors of [`Lane::receive`].
pub(super) async fn successor(
    lane: &mut Lane,
    cancel: &CancellationToken,
) -> Result<Successor, ProviderError> {
    loop {
        let text = lane.receive(cancel).await?;
        match kind(text.as_str()).as_str() {
            "response.steer.failed" => return Ok(Successor::Refused),
            "response.steer.pending" => return Ok(Successor::Waiting),
            kind if kind.starts_with(EVENTS) => {}
            _ => return Ok(Successor::Begun(text)),
        }
    }
}
