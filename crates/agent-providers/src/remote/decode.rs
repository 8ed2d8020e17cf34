//! Decodes the stream events of a reply.

use std::borrow::Cow;

use agent_core::{
    Completion, ErrorContext, ErrorKind, EventSink, OwnedStreamEvent, ProviderError, StreamEvent, Usage,
};
use serde::Deserialize;
use serde_json::Value;

use super::wire::{ERROR_EVENT, into_error};
use crate::protocol::{Decode, Flow, Frame};
use crate::shape::Shape;

/// An event with the members of all kinds of events. A tagged enum would make serde buffer each event first.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: u32,
    #[serde(default, borrow)]
    text: Cow<'a, str>,
    #[serde(default, borrow)]
    signature: Cow<'a, str>,
    #[serde(default, borrow)]
    id: Cow<'a, str>,
    #[serde(default, borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    response_id: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    data: Value,
    /// The kind of an opaque block; `type` is the kind of the event.
    #[serde(default, rename = "kind", borrow)]
    block: Cow<'a, str>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    completion: Option<Completion>,
}

/// The kind and the block of a delta.
#[derive(Debug, Clone, Copy)]
enum Usual {
    Text(u32),
    Thinking(u32),
    Call(u32),
}

/// The state between two events of one reply.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    done: Option<Completion>,
    shape: Shape<Usual>,
}

impl Usual {
    fn event(self, delta: &str) -> StreamEvent<'_> {
        match self {
            Self::Text(index) => StreamEvent::TextDelta { index, delta },
            Self::Thinking(index) => StreamEvent::ThinkingDelta { index, delta },
            Self::Call(index) => StreamEvent::ToolCallDelta { index, delta },
        }
    }
}

impl Decoder {
    fn piece(&mut self, json: &str, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        let piece: Piece<'_> = serde_json::from_str(json).map_err(unreadable)?;
        let (index, signature) = (piece.index, &*piece.signature);
        let usual = match &*piece.kind {
            "text_delta" => Some(Usual::Text(index)),
            "thinking_delta" => Some(Usual::Thinking(index)),
            "tool_call_delta" => Some(Usual::Call(index)),
            _ => None,
        };
        if let Some(usual) = usual {
            self.shape.learn(json, "text", &piece.text, usual);
            sink(usual.event(&piece.text));
            return Ok(Flow::More);
        }
        sink(match &*piece.kind {
            "done" => {
                self.done =
                    Some(piece.completion.ok_or_else(|| broken("the last piece says not how it ended"))?);
                return Ok(Flow::Done);
            }
            "start" => StreamEvent::Start {
                response_id: piece.response_id.as_deref(),
                model: piece.model.as_deref(),
            },
            "text_start" => StreamEvent::TextStart { index },
            "text_signature" => StreamEvent::TextSignature { index, delta: signature },
            "thinking_start" => StreamEvent::ThinkingStart { index },
            "thinking_signature" => StreamEvent::ThinkingSignature { index, delta: signature },
            "redacted_thinking" => {
                let data = piece.data.as_str().unwrap_or_default();
                StreamEvent::RedactedThinking { index, data }
            }
            "tool_call_start" => StreamEvent::ToolCallStart { index, id: &piece.id, name: &piece.name },
            "tool_call_signature" => StreamEvent::ToolCallSignature { index, delta: signature },
            "opaque" => StreamEvent::Opaque { index, kind: &piece.block, data: &piece.data },
            "citation" | "server_tool" => return Ok(rare(json, index, sink)),
            "block_end" => StreamEvent::BlockEnd { index },
            "usage" => StreamEvent::Usage(piece.usage.unwrap_or_default()),
            "unrecognised" => StreamEvent::Unrecognised { name: &piece.name },
            later => StreamEvent::Unrecognised { name: later },
        });
        Ok(Flow::More)
    }
}

/// Emits a piece with a value of its own type.
fn rare(json: &str, index: u32, sink: &mut EventSink<'_>) -> Flow {
    match serde_json::from_str::<OwnedStreamEvent>(json) {
        Ok(OwnedStreamEvent::Citation { citation, .. }) => {
            sink(StreamEvent::Citation { index, citation: &citation });
        }
        Ok(OwnedStreamEvent::ServerTool { call, .. }) => sink(StreamEvent::ServerTool { index, call: &call }),
        _ => sink(StreamEvent::Unrecognised { name: "a piece of no known form" }),
    }
    Flow::More
}

impl Decode for Decoder {
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        if frame.event == Some(ERROR_EVENT) {
            return Err(into_error(serde_json::from_str(frame.data).map_err(unreadable)?));
        }
        if let Some((usual, delta)) = self.shape.read(frame.data) {
            sink(usual.event(&delta));
            return Ok(Flow::More);
        }
        self.piece(frame.data, sink)
    }

    fn whole(&mut self, _body: &str, _sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        Err(broken("the server answered with one JSON body instead of a stream"))
    }

    fn finish(&mut self, _sink: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        self.done.take().ok_or_else(|| broken("the stream ended before the reply was complete"))
    }
}

/// Returns the error of an incomplete or invalid response, which can be retried.
fn broken(message: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Network, ErrorContext::new(message))
}

fn unreadable(error: serde_json::Error) -> ProviderError {
    let context = ErrorContext::new("a piece of the reply cannot be read")
        .with_advice("see that base_url is that of a Looptree server, and that both sides are of one version")
        .with_source(error);
    ProviderError::new(ErrorKind::Network, context)
}
