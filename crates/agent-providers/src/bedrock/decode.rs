//! Decodes the response, without I/O and without a clock.
//!
//! The event types of the AWS SDK are not used. The SDK ends the stream at an unknown member next to a known one and
//! loses the payload of unknown events. This decoder skips unknown members, and it emits an unknown block as an
//! opaque block, so that it can be sent back to the same model.

mod block;
mod end;
mod lines;

#[cfg(test)]
mod tests;

use agent_core::{Completion, ErrorKind, EventSink, ModelRequest, ProviderError, StreamEvent};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::citation;
use super::encode::response_tool;
use super::error;
use super::wire;
use crate::claude::MAX_OPEN_BLOCKS;
use crate::claude::usage::PartialUsage;
use crate::protocol::{Decode, Flow, Frame};
use crate::rejection::{Spoken, Target};
use crate::server_tools::ServerCalls;
use crate::shape::{Shape, Varying};
use crate::surrogates::Surrogates;
use crate::token_count::{self, Counts};
use block::{Kind, Open};
use end::Stop;
use lines::ReadError;

/// The member that the vendor fills with padding.
const VARYING: Varying = Varying { unread: &["p"], repeated: &[] };

/// The state between two events of one reply.
#[derive(Debug)]
pub(super) struct Decoder {
    target: Target,
    /// The name of the tool whose arguments are the answer, if the request has one.
    response_tool: Option<String>,
    surrogates: Surrogates,
    /// The open blocks, almost always one.
    open: Vec<Open>,
    /// The number of blocks begun so far.
    begun: u32,
    /// What the ended blocks are.
    spoken: Spoken,
    usage: PartialUsage,
    /// The calls of the vendor's own tools.
    calls: ServerCalls,
    stop: Stop,
    /// Whether the terminal event has been seen. The tokens come after it.
    complete: bool,
    /// Whether the tokens have been seen.
    counted: bool,
    /// The shape of the most recent delta: the number of its block and the meaning of its text.
    shape: Shape<(u64, Takes)>,
}

/// The meaning of the text of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Text,
    Thinking,
    Signature,
    Arguments,
}

impl Decoder {
    /// Creates a decoder for the response to `request`.
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            target: Target::of(request),
            response_tool: response_tool(request),
            surrogates: Surrogates::default(),
            open: Vec::new(),
            begun: 0,
            spoken: Spoken::Nothing,
            usage: PartialUsage::default(),
            calls: ServerCalls::default(),
            stop: Stop::default(),
            complete: false,
            counted: false,
            shape: Shape::new(&VARYING),
        }
    }

    /// Reads a delta that differs from an earlier one only in its text. Returns whether it did.
    fn usual(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> bool {
        if self.complete || frame.event != Some("contentBlockDelta") {
            return false;
        }
        let Some(((at, takes), text)) = self.shape.read(frame.data) else { return false };
        self.open.iter_mut().rfind(|o| o.at == at).is_some_and(|open| open.text(takes, &text, sink))
    }

    fn event(
        &mut self,
        name: &str,
        json: &str,
        event: &wire::Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<Flow, ProviderError> {
        if self.complete && name != "metadata" {
            // After the terminal event only the token counts are read.
            return Ok(Flow::More);
        }
        let at = event.content_block_index.unwrap_or_default().0;
        match name {
            "contentBlockDelta" => self.delta(at, event.delta.as_ref(), json, sink)?,
            "contentBlockStart" => self.begin(at, event, sink)?,
            "contentBlockStop" => self.end(at, sink),
            "messageStart" => sink(StreamEvent::Start { response_id: None, model: None }),
            "messageStop" => {
                self.stop.note(&event.stop_reason, event.additional_model_response_fields);
                self.complete = true;
            }
            "metadata" => {
                self.stop.explain(event.trace);
                self.count(event.usage, sink);
            }
            // Some AWS protocols send a frame of this name before the first event. It has no meaning here.
            "initial-response" => {}
            _ => sink(StreamEvent::Unrecognised { name }),
        }
        Ok(if self.complete && self.counted { Flow::Done } else { Flow::More })
    }

    fn count(&mut self, usage: Counts<wire::Usage>, sink: &mut EventSink<'_>) {
        token_count::report(usage.unreadable(|_| 0), sink);
        if let Some(usage) = usage.given() {
            self.counted = true;
            self.usage.merge(usage.counts(), sink);
            sink(StreamEvent::Usage(self.calls.on(self.usage.total())));
        }
    }

    fn begin(
        &mut self,
        at: u64,
        event: &wire::Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        // A block that begins where another one is open ends it.
        self.end(at, sink);
        let Some(start) = event.start else { return Ok(()) };
        let head: wire::Start<'_> = self.read(start.get())?;
        match head.tool_use.filter(|call| call.kind.as_str() != "server_tool_use") {
            Some(call) => {
                let kind = self.call_kind(&call);
                self.open_block(at, kind, Some(&call), sink)
            }
            // An empty start is sent by some gateways before a text.
            None => match block::opaque(start.get()) {
                Some(kind) => self.open_block(at, kind, None, sink),
                None => Ok(()),
            },
        }
    }

    fn call_kind(&self, call: &wire::ToolUse<'_>) -> Kind {
        match &self.response_tool {
            Some(tool) if tool == call.name.as_str() => Kind::Answer,
            _ => Kind::Call,
        }
    }

    fn open_block(
        &mut self,
        at: u64,
        kind: Kind,
        call: Option<&wire::ToolUse<'_>>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        if self.open.len() >= MAX_OPEN_BLOCKS {
            let message = format!("the stream has more than {MAX_OPEN_BLOCKS} blocks open at once");
            return Err(self.target.fail(ErrorKind::Network, &message, None));
        }
        let open = Open { at, index: self.begun, kind };
        self.begun = self.begun.saturating_add(1);
        let (id, name) = call.map_or(("", ""), |c| (c.tool_use_id.as_str(), c.name.as_str()));
        open.start(id, name, sink);
        self.open.push(open);
        Ok(())
    }

    /// Applies every known member of a delta. Unknown members do not prevent the others from being applied.
    fn delta(
        &mut self,
        at: u64,
        delta: Option<&wire::Delta<'_>>,
        json: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let default = wire::Delta::default();
        let delta = delta.unwrap_or(&default);
        let mut known = 0;
        if let Some(text) = &delta.text {
            self.text(at, Takes::Text, text.as_str(), sink)?;
            self.shape.learn(json, "text", text.as_str(), (at, Takes::Text));
            known += 1;
        }
        if let Some(reasoning) = &delta.reasoning_content {
            self.reasoning(at, reasoning, sink)?;
            let only =
                reasoning.signature.filled().is_none() && reasoning.redacted_content.filled().is_none();
            if only && reasoning.reasoning_text.is_none() {
                self.shape.learn(json, "text", reasoning.text.as_str(), (at, Takes::Thinking));
            }
            known += 1;
        }
        if let Some(call) = &delta.tool_use {
            let taken = self.open.iter_mut().rfind(|o| o.at == at);
            if !taken.is_some_and(|open| open.text(Takes::Arguments, call.input.as_str(), sink)) {
                sink(StreamEvent::Unrecognised { name: "arguments of no call" });
            }
            self.shape.learn(json, "input", call.input.as_str(), (at, Takes::Arguments));
            known += 1;
        }
        if let Some(citation) = &delta.citation {
            self.cite(at, citation.clone(), sink)?;
            known += 1;
        }
        if known > 1 {
            // Its text is not its whole effect.
            self.shape.forget();
        }
        if known == 0 {
            self.unknown_delta(at, json, sink);
        }
        Ok(())
    }

    /// Emits a source of the text of a block. A source that comes first begins the block.
    fn cite(&mut self, at: u64, data: Value, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        if !self.open.iter().any(|o| o.at == at) {
            self.open_block(at, Kind::Text, None, sink)?;
        }
        match self.open.iter().rfind(|o| o.at == at && matches!(o.kind, Kind::Text)) {
            Some(open) => {
                sink(StreamEvent::Citation { index: open.index, citation: &citation::read(data) });
            }
            None => sink(StreamEvent::Unrecognised { name: "citation of no text" }),
        }
        Ok(())
    }

    fn unknown_delta(&mut self, at: u64, json: &str, sink: &mut EventSink<'_>) {
        let whole: Map<String, Value> =
            serde_json::from_str::<wire::WholeDelta>(json).map(|w| w.delta).unwrap_or_default();
        let open = self.open.iter_mut().rfind(|o| o.at == at);
        if !open.is_some_and(|open| open.gather(&whole)) {
            let name = whole.keys().next().map_or("an empty delta", String::as_str);
            sink(StreamEvent::Unrecognised { name });
        }
    }

    fn reasoning(
        &mut self,
        at: u64,
        reasoning: &wire::Reasoning<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let nested = wire::ReasoningText::default();
        let nested = reasoning.reasoning_text.as_ref().unwrap_or(&nested);
        for text in [&reasoning.text, &nested.text] {
            if let Some(text) = text.filled() {
                self.text(at, Takes::Thinking, text, sink)?;
            }
        }
        for signature in [&reasoning.signature, &nested.signature] {
            if let Some(signature) = signature.filled() {
                self.text(at, Takes::Signature, signature, sink)?;
            }
        }
        if let Some(data) = reasoning.redacted_content.filled() {
            // Each is a block of its own: pieces of base64 cannot be joined.
            self.end(at, sink);
            let index = self.begun;
            self.open_block(at, Kind::Redacted, None, sink)?;
            sink(StreamEvent::RedactedThinking { index, data });
        }
        Ok(())
    }

    /// Emits a piece of text. The vendor does not announce text and reasoning: the first piece begins a block, and so does a
    /// piece of a different kind than the open block.
    fn text(
        &mut self,
        at: u64,
        takes: Takes,
        delta: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        if let Some(open) = self.open.iter_mut().rfind(|o| o.at == at)
            && open.text(takes, delta, sink)
        {
            return Ok(());
        }
        if delta.is_empty() {
            return Ok(());
        }
        self.end(at, sink);
        let kind = if takes == Takes::Text { Kind::Text } else { Kind::Thinking };
        self.open_block(at, kind, None, sink)?;
        if let Some(open) = self.open.last_mut() {
            open.text(takes, delta, sink);
        }
        Ok(())
    }

    fn end(&mut self, at: u64, sink: &mut EventSink<'_>) {
        if let Some(place) = self.open.iter().rposition(|o| o.at == at) {
            let open = self.open.remove(place);
            self.spoken = open.added_to(self.spoken);
            open.end(&mut self.calls, sink);
        }
    }

    fn whole_block(&mut self, at: u64, json: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let block: wire::Block<'_> = self.read(json)?;
        if let Some(text) = &block.text {
            self.text(at, Takes::Text, text.as_str(), sink)?;
        } else if let Some(reasoning) = &block.reasoning_content {
            self.reasoning(at, reasoning, sink)?;
        } else if let Some(call) = block.tool_use.filter(|call| call.kind.as_str() != "server_tool_use") {
            let kind = self.call_kind(&call);
            self.open_block(at, kind, Some(&call), sink)?;
            if let (Some(open), Some(input)) = (self.open.last_mut(), call.input) {
                open.text(Takes::Arguments, input.get(), sink);
            }
        } else if let Some(cited) = block.citations_content {
            for part in &cited.content {
                self.text(at, Takes::Text, part.text.as_str(), sink)?;
            }
            cited.citations.into_iter().try_for_each(|citation| self.cite(at, citation, sink))?;
        } else if let Some(kind) = block::opaque(json) {
            self.open_block(at, kind, None, sink)?;
        }
        self.end(at, sink);
        Ok(())
    }

    fn read<'a, T: Deserialize<'a>>(&self, json: &'a str) -> Result<T, ProviderError> {
        serde_json::from_str(json).map_err(|e| error::unreadable(&self.target, e))
    }
}

impl Decode for Decoder {
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        if self.usual(frame, sink) {
            return Ok(Flow::More);
        }
        let cause = match self.one(frame, sink) {
            Ok(flow) => return Ok(flow),
            Err(ReadError::Said(error)) => return Err(error),
            Err(ReadError::Json(cause)) => cause,
        };
        if Surrogates::suspected(frame.data) {
            let mended = self.surrogates.mend(frame.data);
            match self.one(Frame { data: &mended, ..frame }, sink) {
                Ok(flow) => return Ok(flow),
                Err(ReadError::Said(error)) => return Err(error),
                Err(ReadError::Json(_)) => {}
            }
        }
        if self.complete { Ok(Flow::More) } else { Err(error::unreadable(&self.target, cause)) }
    }

    fn has_ended(&self) -> bool {
        self.complete
    }

    fn failed(&mut self, frame: Frame<'_>) -> ProviderError {
        error::exception(&self.target, frame.event.unwrap_or_default(), frame.data)
    }

    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let body = &*self.surrogates.mend_whole(body);
        let reply = match serde_json::from_str::<wire::Whole<'_>>(body) {
            Ok(reply) if reply.output.is_some() || reply.stop_reason.filled().is_some() => reply,
            // Not a single value, or not a reply: the only event of a stream, or an error.
            _ => return self.lines(body, sink),
        };
        let Some(message) = reply.output.and_then(|o| o.message) else { return self.lines(body, sink) };
        sink(StreamEvent::Start { response_id: None, model: None });
        for (at, block) in (0..).zip(message.content.unwrap_or_default()) {
            self.whole_block(at, block.get(), sink)?;
        }
        self.stop.note(&reply.stop_reason, reply.additional_model_response_fields);
        self.stop.explain(reply.trace);
        self.count(reply.usage, sink);
        self.complete = true;
        Ok(())
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        if !self.complete {
            return Err(error::cut(&self.target));
        }
        for open in std::mem::take(&mut self.open) {
            self.spoken = Spoken::Blocks;
            if !(self.stop.is_cut() && open.is_call()) {
                open.end(&mut self.calls, sink);
            }
        }
        self.stop.completion(&self.target, self.spoken)
    }
}
