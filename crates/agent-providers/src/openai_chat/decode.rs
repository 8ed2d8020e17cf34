//! Decodes the response chunk by chunk, without I/O and without a clock.

mod choice;
mod end;
mod sources;

#[cfg(test)]
mod tests;

use agent_core::provider::ReplyLimit;
use agent_core::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StopReason, StreamEvent,
};
use serde_json::Value;

use super::calls::{Calls, Cut, Piece};
use super::wire::{Body, Chunk, Delta, REASONING_DETAILS, REASONING_FIELDS};
use crate::blocks::Blocks;
use crate::call_ids::CallIds;
use crate::protocol::{Decode, Flow, Frame};
use crate::rejection::VendorError;
use crate::shape::{Shape, Varying};
use crate::surrogates::Surrogates;
use choice::Form;
use end::Ending;
use sources::Sources;

/// The data of the last event.
const DONE: &str = "[DONE]";

/// The members of a chunk that vary between the chunks of one reply without a meaning of their own.
const VARYING: Varying =
    Varying { unread: &["created", "logprobs", "obfuscation", "token_id", "token_ids"], repeated: &["text"] };

/// The state between two chunks.
#[derive(Debug)]
pub(super) struct Decoder {
    begun: bool,
    blocks: Blocks,
    calls: Calls,
    ids: CallIds,
    /// The thinking parts that must be sent back unchanged, with the pieces of one part joined.
    details: Vec<Value>,
    refusal: String,
    sources: Sources,
    reason: Option<String>,
    /// Whether token counts have arrived.
    counted: bool,
    done: bool,
    form: Form,
    surrogates: Surrogates,
    shape: Shape<Usual>,
}

/// Whether a shape may be learned from the bytes of a chunk. Mended bytes are not those of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Learn {
    Shape,
    Nothing,
}

/// The meaning of the string that is the whole effect of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usual {
    Text,
    /// Thinking in this field.
    Thought(&'static str),
    /// The same, repeated in the last of the `reasoning_details`.
    Detailed(&'static str),
    /// Arguments of the call with this number.
    Arguments(Option<u64>),
}

impl Usual {
    fn member(self) -> &'static str {
        match self {
            Self::Text => "content",
            Self::Thought(field) | Self::Detailed(field) => field,
            Self::Arguments(_) => "arguments",
        }
    }
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
            sources: Sources::default(),
            reason: None,
            counted: false,
            done: false,
            form: Form::Stream,
            surrogates: Surrogates::default(),
            shape: Shape::new(&VARYING),
        }
    }

    /// Reads a chunk that fits the shape of an earlier one. Returns whether it did.
    fn usual(&mut self, json: &str, sink: &mut EventSink<'_>) -> Result<bool, ReplyLimit> {
        let Some((usual, text)) = self.shape.read(json) else { return Ok(false) };
        match usual {
            Usual::Text => self.blocks.say(&text, sink),
            Usual::Thought(field) => self.blocks.think(&text, field, sink),
            Usual::Detailed(field) => {
                self.blocks.think(&text, field, sink);
                if let Some(Value::String(detail)) = self.details.last_mut().and_then(|d| d.get_mut("text")) {
                    detail.push_str(&text);
                }
            }
            Usual::Arguments(wire) => {
                self.blocks.close(sink);
                let piece = Piece { wire, arguments: &text, ..Piece::default() };
                self.calls.push(&piece, &mut self.blocks.next, sink)?;
            }
        }
        Ok(true)
    }

    fn read(&mut self, json: &str, sink: &mut EventSink<'_>) -> Result<bool, ProviderError> {
        match serde_json::from_str::<Chunk<'_>>(json) {
            Ok(chunk) => self.chunk(json, Learn::Shape, chunk, sink),
            Err(error) if Surrogates::suspected(json) => {
                let mended = self.surrogates.mend(json);
                let chunk = serde_json::from_str::<Chunk<'_>>(&mended).map_err(|_| unreadable(error))?;
                self.chunk(&mended, Learn::Nothing, chunk, sink)
            }
            Err(error) => Err(unreadable(error)),
        }
    }

    /// Applies a chunk and returns whether it listed choices, which only a chunk of usage may lack.
    fn chunk(
        &mut self,
        json: &str,
        learn: Learn,
        chunk: Chunk<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<bool, ProviderError> {
        if let Some(error) = chunk.error.as_deref().and_then(VendorError::of_member) {
            return Err(error.in_stream());
        }
        if chunk.choices.first.is_none() && !chunk.usage.is_present() {
            // Some gateways send the members of the error as the chunk.
            if let Some(error) = VendorError::from_body(json.as_bytes()) {
                return Err(error.in_stream());
            }
            if !chunk.choices.listed {
                sink(StreamEvent::Unrecognised { name: "a chunk of no known form" });
            }
        }
        if !self.begun && chunk.choices.listed {
            self.begun = true;
            sink(StreamEvent::Start { response_id: chunk.id.filled(), model: chunk.model.filled() });
        }
        if chunk.search_results.is_some() || chunk.citations.is_some() {
            self.sources.search(chunk.search_results, chunk.citations);
        }
        let listed = chunk.choices.listed;
        // A shape holds one text and no counts.
        let plain = !chunk.usage.is_present() && !chunk.x_groq.is_present();
        let learns = learn == Learn::Shape && plain && chunk.choices.more.is_empty();
        let frame = learns.then_some(json);
        for choice in chunk.choices.first.into_iter().chain(chunk.choices.more) {
            self.choice(frame, choice, sink)?;
        }
        if let Some(groq) = chunk.x_groq.given() {
            self.count(groq.usage, sink);
        }
        self.count(chunk.usage, sink);
        Ok(listed)
    }

    fn ends_for(&mut self, reason: &str) {
        if !reason.is_empty() {
            self.reason.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Applies a delta. Returns whether each of its reasoning details continued the last one of the reply.
    fn delta(&mut self, delta: &Delta<'_>, sink: &mut EventSink<'_>) -> Result<bool, ReplyLimit> {
        let thoughts = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text];
        // The same text may have several names; the first one is used.
        let thought =
            thoughts.iter().zip(REASONING_FIELDS).find_map(|(text, field)| Some((text.filled()?, field)));
        if let Some((text, field)) = thought {
            // If thinking has its own field, the signature of its block is the name of that field.
            self.blocks.think(text, field, sink);
        }
        let mut joined = true;
        for detail in delta.reasoning_details.iter().flatten() {
            // A shape with details continues the last detail, which may change here.
            self.shape.forget();
            if thought.is_none()
                && let Some(text) =
                    detail.get("text").or_else(|| detail.get("summary")).and_then(Value::as_str)
            {
                self.blocks.think(text, "", sink);
            }
            joined &= self.keep_detail(detail.clone());
        }
        match &delta.content {
            Body::Text(text) => self.blocks.say(text.as_str(), sink),
            Body::Parts(parts) => {
                for part in parts {
                    match &part.thinking {
                        Some(Body::Text(text)) => self.blocks.think(text.as_str(), "", sink),
                        Some(Body::Parts(list)) => {
                            for piece in list {
                                self.blocks.think(piece.text.as_str(), "", sink);
                            }
                        }
                        None => {}
                    }
                    self.blocks.say(part.text.as_str(), sink);
                }
            }
        }
        if delta.annotations.is_some() {
            self.sources.annotate(delta.annotations);
        }
        self.refusal.push_str(delta.refusal.as_str());
        for call in delta.tool_calls.iter().flatten() {
            self.blocks.close(sink);
            self.calls.push(&Piece::of(call), &mut self.blocks.next, sink)?;
        }
        if let Some(function) = &delta.function_call {
            self.blocks.close(sink);
            let (name, arguments) = (function.name.as_str(), &*function.arguments.0);
            self.calls.push(&Piece { name, arguments, ..Piece::default() }, &mut self.blocks.next, sink)?;
        }
        Ok(joined)
    }

    /// Stores a reasoning detail. Returns whether its text was appended to the last one.
    fn keep_detail(&mut self, piece: Value) -> bool {
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
            return true;
        }
        self.details.push(piece);
        false
    }

    /// Returns whether the details contain more than text, which is stored as thinking.
    fn details_matter(&self) -> bool {
        self.details
            .iter()
            .any(|d| d.get("signature").is_some_and(|s| !s.is_null()) || d.get("data").is_some())
    }

    fn end(&mut self, cut: Cut, sink: &mut EventSink<'_>) {
        self.sources.emit(&self.blocks, sink);
        self.blocks.close(sink);
        self.calls.end(cut, &mut self.ids, sink);
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
        if !self.usual(data, sink)? {
            self.read(data, sink)?;
        }
        Ok(Flow::More)
    }

    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        self.form = Form::Whole;
        let listed = self.read(body, sink)?;
        if !listed {
            return Err(
                VendorError::from_body(body.as_bytes()).map_or_else(no_choices, VendorError::in_stream)
            );
        }
        self.done = true;
        Ok(())
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        let ending = match &self.reason {
            None if self.done => Ending::Good(StopReason::Stop),
            None => return Err(end::ended_early()),
            Some(reason) => match Ending::of(reason) {
                // Whatever the word means, the model has made its calls.
                Err(_) if self.calls.are_complete() => Ending::Good(StopReason::ToolUse),
                ending => ending?,
            },
        };
        if !self.refusal.is_empty() {
            return Err(end::refused(&self.refusal));
        }
        match ending {
            Ending::Filtered => Err(end::filtered(self.reason.as_deref())),
            Ending::Broken => Err(end::broke(self.reason.as_deref())),
            Ending::Good(stop) => {
                let called = !self.calls.is_empty();
                // Gateways put a reason into every chunk, so without the end mark a call shows whether the reply is whole.
                if called && !self.done && stop != StopReason::Length && !self.calls.are_complete() {
                    return Err(end::ended_early());
                }
                self.end(if stop == StopReason::Length { Cut::ByLimit } else { Cut::Nowhere }, sink);
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

/// Returns the string that is the whole effect of a delta without a finish reason, when there is exactly one. `joined`
/// states whether the delta's reasoning details continued the last one of the reply.
fn usual<'d>(delta: &'d Delta<'_>, joined: bool) -> Option<(Usual, &'d str)> {
    let Body::Text(content) = &delta.content else { return None };
    if delta.refusal.filled().is_some() || delta.function_call.is_some() {
        return None;
    }
    let thoughts = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text];
    let mut thoughts =
        thoughts.iter().zip(REASONING_FIELDS).filter_map(|(text, field)| Some((text.filled()?, field)));
    let details = delta.reasoning_details.as_deref().unwrap_or_default();
    let calls = delta.tool_calls.as_deref().unwrap_or_default();
    match (content.filled(), thoughts.next(), details, calls) {
        (Some(text), None, [], []) => Some((Usual::Text, text)),
        (None, Some((text, field)), details, []) if thoughts.next().is_none() => match details {
            [] => Some((Usual::Thought(field), text)),
            // A detail is stored with all its members, so a shape must not hide a change of one.
            [detail] if joined && VARYING.unread.iter().all(|name| detail.get(name).is_none()) => {
                let repeats = detail.get("text").and_then(Value::as_str) == Some(text);
                repeats.then_some((Usual::Detailed(field), text))
            }
            _ => None,
        },
        (None, None, [], [call]) => {
            let piece = Piece::of(call);
            let bare = piece.id.is_empty() && piece.name.is_empty() && piece.signature.is_none();
            bare.then_some((Usual::Arguments(piece.wire), piece.arguments))
        }
        _ => None,
    }
}

fn unreadable(error: serde_json::Error) -> ProviderError {
    let context =
        ErrorContext::new(format!("a piece of the answer cannot be read: {error}")).with_source(error);
    ProviderError::new(ErrorKind::Network, context)
}

fn no_choices() -> ProviderError {
    let context = ErrorContext::new("the answer has no `choices` and is none of Chat Completions")
        .with_advice("check base_url and the protocol of this model");
    ProviderError::new(ErrorKind::Api, context)
}
