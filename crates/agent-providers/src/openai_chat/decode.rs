//! Reads the answer, chunk by chunk. No I/O, no clock.

mod usual;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use agent_core::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StopReason, StreamEvent,
};
use serde_json::Value;

use super::calls::{Calls, Piece};
use super::quick;
use super::wire::{Body, Chunk, Delta, REASONING_DETAILS, REASONING_FIELDS, Thinking};
use crate::blocks::Blocks;
use crate::call_ids::CallIds;
use crate::protocol::{Decode, Flow, Frame};
use crate::rejection::VendorError;
use crate::shape::Shape;
use crate::surrogates::Surrogates;
use usual::{SHAPES, Usual, usual};

/// The data of the last event.
const DONE: &str = "[DONE]";

/// What the reasons mean. A reply that holds calls stopped for them whatever is said here.
const REASONS: &[(&str, Ending)] = &[
    ("stop", Ending::Good(StopReason::Stop)),
    ("end", Ending::Good(StopReason::Stop)),
    ("eos", Ending::Good(StopReason::Stop)),
    ("eos_token", Ending::Good(StopReason::Stop)),
    ("end_turn", Ending::Good(StopReason::Stop)),
    ("stop_sequence", Ending::Good(StopReason::Stop)),
    ("complete", Ending::Good(StopReason::Stop)),
    ("completed", Ending::Good(StopReason::Stop)),
    ("length", Ending::Good(StopReason::Length)),
    ("max_tokens", Ending::Good(StopReason::Length)),
    ("model_length", Ending::Good(StopReason::Length)),
    ("tool_calls", Ending::Good(StopReason::ToolUse)),
    ("tool_use", Ending::Good(StopReason::ToolUse)),
    ("function_call", Ending::Good(StopReason::ToolUse)),
    ("content_filter", Ending::Filtered),
    ("sensitive", Ending::Filtered),
    ("safety", Ending::Filtered),
    ("error", Ending::Broken),
    ("network_error", Ending::Broken),
    ("insufficient_system_resource", Ending::Broken),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The reply is complete.
    Good(StopReason),
    /// The provider withheld it.
    Filtered,
    /// The provider failed in the middle of it.
    Broken,
}

/// State between two chunks.
#[derive(Debug)]
pub(super) struct Decoder {
    begun: bool,
    blocks: Blocks,
    calls: Calls,
    ids: CallIds,
    /// Thinking parts that must be sent back as they came, pieces of one part joined.
    details: Vec<Value>,
    refusal: String,
    reason: Option<String>,
    counted: bool,
    done: bool,
    surrogates: Surrogates,
    shape: Option<Arc<Shape<Usual>>>,
    opening: quick::Opening,
}

impl Decoder {
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            begun: false,
            blocks: Blocks::default(),
            calls: Calls::default(),
            ids: CallIds::new(&request.history),
            details: Vec::new(),
            refusal: String::new(),
            reason: None,
            counted: false,
            done: false,
            surrogates: Surrogates::default(),
            shape: None,
            opening: quick::Opening::default(),
        }
    }

    /// Reads a chunk that differs from an earlier one in a piece of text only. Whether it was one.
    fn usual(&mut self, json: &str, sink: &mut EventSink<'_>) -> bool {
        // A reply begins with a chunk that is read in full.
        if !self.begun {
            return false;
        }
        let Some(frame) = self.frame(json) else { return false };
        let known = self.shape.as_ref().and_then(|shape| shape.read(frame));
        let found = if known.is_none() && !self.opening.is_empty() { SHAPES.find(frame) } else { None };
        let Some((usual, text)) = known.or_else(|| found.as_ref()?.read(frame)) else { return false };
        if found.is_some() {
            self.shape = found;
        }
        match usual {
            Usual::Text => self.blocks.say(&text, sink),
            Usual::Thought(field) => self.blocks.think(&text, field, sink),
            Usual::Arguments(wire) => {
                self.blocks.close(sink);
                let piece = Piece { wire, arguments: &text, ..Piece::default() };
                self.calls.push(&piece, &mut self.blocks.next, sink);
            }
            Usual::Reason => self.ends_for(&text),
        }
        true
    }

    /// What a shape is to fit: what stands behind the opening, or all of it where no opening is known.
    fn frame<'j>(&self, json: &'j str) -> Option<&'j str> {
        if self.opening.is_empty() { Some(json) } else { self.opening.behind(json) }
    }

    fn read(&mut self, json: &str, sink: &mut EventSink<'_>) -> Result<bool, ProviderError> {
        if let Some(rest) = self.opening.behind(json) {
            if let Some(chunk) = quick::rest(rest) {
                return self.chunk(Some(rest), chunk, sink);
            }
        } else if let Some((chunk, opening)) = quick::whole(json) {
            // What names the reply is asked for until it has begun.
            if let Some(opening) = opening.filter(|_| self.begun || chunk.choices.listed) {
                self.opening = opening;
            }
            return self.chunk(None, chunk, sink);
        }
        // In a shape only what was read from behind the opening may stand behind one.
        let frame = self.opening.is_empty().then_some(json);
        match serde_json::from_str::<Chunk<'_>>(json) {
            Ok(chunk) => self.chunk(frame, chunk, sink),
            Err(error) if Surrogates::suspected(json) => {
                let mended = self.surrogates.mend(json);
                let chunk = serde_json::from_str::<Chunk<'_>>(&mended).map_err(|_| unreadable(error))?;
                self.chunk(None, chunk, sink)
            }
            Err(error) => Err(unreadable(error)),
        }
    }

    /// Takes a chunk. Whether it listed choices, which only a chunk of usage may lack. A shape may be learned from `frame`.
    fn chunk(
        &mut self,
        frame: Option<&str>,
        chunk: Chunk<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<bool, ProviderError> {
        if let Some(error) = chunk.error.as_deref().and_then(VendorError::from_value) {
            return Err(error.in_stream());
        }
        if !self.begun && chunk.choices.listed {
            self.begun = true;
            sink(StreamEvent::Start { response_id: chunk.id.filled(), model: chunk.model.filled() });
        }
        let listed = chunk.choices.listed;
        let mut usage = chunk.usage;
        if let Some(choice) = chunk.choices.first {
            usage = usage.or(choice.usage);
            let reason = choice.finish_reason.filled();
            if let Some(delta) = choice.delta.or(choice.message) {
                self.delta(&delta, sink);
                if usage.is_none()
                    && let Some(frame) = frame
                    && let Some((usual, text)) = usual(&delta, reason)
                {
                    self.learn(frame, usual, text);
                }
            }
            if let Some(reason) = reason {
                self.ends_for(reason);
            }
        }
        if let Some(usage) = usage {
            self.counted = true;
            sink(StreamEvent::Usage(usage.disjoint()));
        }
        Ok(listed)
    }

    fn ends_for(&mut self, reason: &str) {
        if !reason.is_empty() {
            self.reason.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// A shape without what names the reply serves later replies, too.
    fn learn(&mut self, frame: &str, usual: Usual, text: &str) {
        if !self.opening.is_empty() {
            self.shape = SHAPES.learn(frame, usual.member(), text, usual);
        } else if self.begun {
            let shape = self.shape.get_or_insert_default();
            Arc::make_mut(shape).learn(frame, usual.member(), text, usual);
        }
    }

    fn delta(&mut self, delta: &Delta<'_>, sink: &mut EventSink<'_>) {
        let thoughts = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text];
        // The same text may come under several names; the first is taken.
        let thought =
            thoughts.iter().zip(REASONING_FIELDS).find_map(|(text, field)| Some((text.filled()?, field)));
        if let Some((text, field)) = thought {
            // The signature of a thinking block is the field that it came in, where it has one of its own.
            self.blocks.think(text, field, sink);
        }
        for detail in delta.reasoning_details.iter().flatten() {
            if thought.is_none()
                && let Some(text) =
                    detail.get("text").or_else(|| detail.get("summary")).and_then(Value::as_str)
            {
                self.blocks.think(text, "", sink);
            }
            self.keep_detail(detail.clone());
        }
        match &delta.content {
            Body::Text(text) => self.blocks.say(text.as_str(), sink),
            Body::Parts(parts) => {
                for part in parts {
                    match &part.thinking {
                        Some(Thinking::Text(text)) => self.blocks.think(text, "", sink),
                        Some(Thinking::List(list)) => {
                            for piece in list {
                                self.blocks.think(&piece.text, "", sink);
                            }
                        }
                        None => {}
                    }
                    self.blocks.say(part.text.as_str(), sink);
                }
            }
        }
        self.refusal.push_str(delta.refusal.as_str());
        for call in delta.tool_calls.iter().flatten() {
            self.blocks.close(sink);
            self.calls.push(&Piece::of(call), &mut self.blocks.next, sink);
        }
    }

    /// Pieces of one text part are joined, everything else is kept as it came.
    fn keep_detail(&mut self, piece: Value) {
        if let Some(last) = self.details.last_mut()
            && last.get("type") == piece.get("type")
            && last.get("index") == piece.get("index")
            && let (Some(Value::String(text)), Some(more)) =
                (last.get_mut("text"), piece.get("text").and_then(Value::as_str))
        {
            text.push_str(more);
            if let (Some(last), Value::Object(piece)) = (last.as_object_mut(), piece) {
                for (key, value) in piece {
                    if key != "text" && !value.is_null() {
                        last.insert(key, value);
                    }
                }
            }
            return;
        }
        self.details.push(piece);
    }

    /// Whether the details hold more than text that is kept as thinking anyway.
    fn details_matter(&self) -> bool {
        self.details
            .iter()
            .any(|d| d.get("signature").is_some_and(|s| !s.is_null()) || d.get("data").is_some())
    }

    fn end(&mut self, sink: &mut EventSink<'_>) {
        self.blocks.close(sink);
        self.calls.end(&mut self.ids, sink);
        if self.details_matter() {
            let data = Value::Array(std::mem::take(&mut self.details));
            sink(StreamEvent::Opaque { index: self.blocks.next, kind: REASONING_DETAILS, data: &data });
            self.blocks.next += 1;
        }
    }
}

impl Decode for Decoder {
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        let data = frame.data.trim_ascii();
        if data == DONE {
            self.done = true;
            return Ok(Flow::Done);
        }
        if data.is_empty() {
            return Ok(Flow::More);
        }
        if frame.event == Some("error") {
            return Err(VendorError::from_body(data.as_bytes())
                .unwrap_or_else(|| VendorError { message: data.to_owned(), ..VendorError::default() })
                .in_stream());
        }
        if !self.usual(data, sink) {
            self.read(data, sink)?;
        }
        Ok(Flow::More)
    }

    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let listed = self.read(body, sink)?;
        if !listed {
            return Err(
                VendorError::from_body(body.as_bytes()).map_or_else(no_choices, VendorError::in_stream)
            );
        }
        self.done = true;
        Ok(())
    }

    /// Usage comes after the reason, and after both only `[DONE]`, which some servers do not send.
    fn is_complete(&self) -> bool {
        self.reason.is_some() && self.counted
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        let ending = match &self.reason {
            None if self.done => Ending::Good(StopReason::Stop),
            None => return Err(ended_early()),
            Some(reason) => match REASONS.iter().find(|(name, _)| reason.eq_ignore_ascii_case(name)) {
                Some((_, ending)) => *ending,
                None => return Err(unknown_reason(reason)),
            },
        };
        if !self.refusal.is_empty() {
            return Err(refused(&self.refusal));
        }
        match ending {
            Ending::Filtered => Err(filtered(self.reason.as_deref())),
            Ending::Broken => Err(broke(self.reason.as_deref())),
            Ending::Good(stop) => {
                let called = !self.calls.is_empty();
                self.end(sink);
                let stop = if called && stop == StopReason::Stop { StopReason::ToolUse } else { stop };
                let completion = Completion::new(stop);
                Ok(match self.reason.take() {
                    Some(reason) => completion.with_vendor_reason(reason),
                    None => completion,
                })
            }
        }
    }
}

fn unreadable(error: serde_json::Error) -> ProviderError {
    let context =
        ErrorContext::new(format!("a piece of the answer cannot be read: {error}")).with_source(error);
    ProviderError::new(ErrorKind::Network, context)
}

fn ended_early() -> ProviderError {
    let context = ErrorContext::new("the answer broke off before its end");
    ProviderError::new(ErrorKind::Network, context)
}

fn no_choices() -> ProviderError {
    let context = ErrorContext::new("the answer has no `choices` and is none of Chat Completions")
        .with_advice("check base_url and the protocol of this model");
    ProviderError::new(ErrorKind::Api, context)
}

fn unknown_reason(reason: &str) -> ProviderError {
    let context = ErrorContext::new(format!("the answer ended for the unknown reason {reason:?}"));
    ProviderError::new(ErrorKind::Api, context)
}

fn refused(explanation: &str) -> ProviderError {
    let mut context = ErrorContext::new(explanation);
    context.code = Some(String::from("refusal"));
    ProviderError::new(ErrorKind::Api, context)
}

fn filtered(reason: Option<&str>) -> ProviderError {
    let mut context = ErrorContext::new("the provider's content filter withheld the answer");
    context.code = reason.map(str::to_owned);
    ProviderError::new(ErrorKind::Api, context)
}

fn broke(reason: Option<&str>) -> ProviderError {
    let mut context = ErrorContext::new("the provider failed in the middle of the answer");
    context.code = reason.map(str::to_owned);
    ProviderError::new(ErrorKind::Network, context)
}
