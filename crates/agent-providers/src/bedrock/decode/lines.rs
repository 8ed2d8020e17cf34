//! Determines the kind of an event. Frames name it in a header. In lines of JSON, which some gateways send, the event
//! is a member under its name, names itself, or is identified by its members.

use agent_core::{EventSink, ProviderError, StreamEvent};
use serde_json::{Map, Value};

use super::Decoder;
use crate::bedrock::{error, wire};
use crate::protocol::{Decode as _, Flow, Frame};

/// Why an event was not applied.
pub(super) enum ReadError {
    /// The event cannot be parsed.
    Json(serde_json::Error),
    /// The event reports a failure.
    Said(ProviderError),
}

impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl From<ProviderError> for ReadError {
    fn from(error: ProviderError) -> Self {
        Self::Said(error)
    }
}

impl Decoder {
    /// Decodes a body with one event per line.
    pub(super) fn lines(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        for line in body.lines().filter(|l| !l.trim().is_empty()) {
            if self.push(Frame { event: None, data: line }, sink)? == Flow::Done {
                break;
            }
        }
        Ok(())
    }

    /// Reads an event. The header of its frame, the name of its member, or its content identifies its kind.
    pub(super) fn one(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ReadError> {
        let event: wire::Event<'_> = serde_json::from_str(frame.data)?;
        if let Some(name) = frame.event {
            return Ok(self.event(name, frame.data, &event, sink)?);
        }
        let line: wire::Line<'_> = serde_json::from_str(frame.data)?;
        let named = [
            ("messageStart", line.message_start),
            ("contentBlockStart", line.content_block_start),
            ("contentBlockDelta", line.content_block_delta),
            ("contentBlockStop", line.content_block_stop),
            ("messageStop", line.message_stop),
            ("metadata", line.metadata),
        ];
        if let Some((name, json)) = named.into_iter().find_map(|(n, json)| Some((n, json?.get()))) {
            return Ok(self.event(name, json, &serde_json::from_str(json)?, sink)?);
        }
        match bare(&event) {
            Some(name) => Ok(self.event(name, frame.data, &event, sink)?),
            None => self.unnamed(frame.data, sink).map_err(ReadError::Said),
        }
    }

    /// Handles a line without a known event: an exception under its name, or an unknown event.
    fn unnamed(&self, json: &str, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        let members: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
        if let Some((name, value)) = members.iter().find(|(name, _)| name.ends_with("Exception")) {
            return Err(error::exception(&self.target, name, &value.to_string()));
        }
        if members.get("message").is_some_and(Value::is_string) || members.contains_key("__type") {
            return Err(error::exception(&self.target, "", json));
        }
        if let Some(error) = members.get("error").filter(|error| !error.is_null()) {
            return Err(error::exception(&self.target, "", &error.to_string()));
        }
        sink(StreamEvent::Unrecognised {
            name: members.keys().next().map_or("an empty line", String::as_str),
        });
        Ok(Flow::More)
    }
}

/// Returns the name of an event that is not nested in a member, by its `type` or its content.
fn bare<'e>(event: &'e wire::Event<'_>) -> Option<&'e str> {
    if let Some(kind) = event.kind.filled() {
        return Some(kind);
    }
    if event.delta.is_some() {
        Some("contentBlockDelta")
    } else if event.start.is_some() {
        Some("contentBlockStart")
    } else if event.stop_reason.filled().is_some() {
        Some("messageStop")
    } else if event.usage.is_present() {
        Some("metadata")
    } else if event.role.filled().is_some() {
        Some("messageStart")
    } else if event.content_block_index.is_some() {
        Some("contentBlockStop")
    } else {
        None
    }
}
