//! Decodes the response, a stream of chunks that each have the format of a whole response. Without I/O and without a
//! clock.
//!
//! The vendor does not number blocks. Consecutive parts of one kind form a block, and a signature ends it, because a
//! part with a signature must be sent back unchanged. A part of an unknown kind is emitted as an opaque block.

mod end;
mod partial;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use agent_core::{
    ApiProtocol, Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StopReason,
    StreamEvent, Usage,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::citation;
use super::computer::{self, Functions};
use super::encode::answer_tool;
use super::error;
use super::wire::{
    CITATIONS, CONTINUATION, Candidate, Chunk, FunctionCall, GROUNDING, PAGES, Part, PromptFeedback,
    RawChunk, Usage as WireUsage,
};
use crate::blocks::Blocks;
use crate::call_ids::{CallIds, Prefix};
use crate::protocol::{Decode, Flow, Frame};
use crate::server_tools::ServerCalls;
use crate::surrogates::Surrogates;
use crate::token_count;
use end::Stop;
use partial::Arguments;

/// The maximum number of metadata values that are stored of one reply.
const MAX_ABOUT: usize = 64;

/// The state between two pieces of one reply.
#[derive(Debug)]
pub(crate) struct Decoder {
    asked: String,
    prefix: Prefix,
    /// The function whose arguments are the answer.
    answer_tool: Option<String>,
    /// The functions of a request with a computer. A call of any other function is an action on it.
    functions: Option<Functions>,
    surrogates: Surrogates,
    begun: bool,
    blocks: Blocks,
    /// The call whose arguments arrive in pieces.
    open: Option<Arguments>,
    ids: CallIds,
    /// Ids given in this reply, which a server may repeat.
    given: BTreeSet<String>,
    /// Metadata of the reply, such as sources and citations. Emitted at its end.
    about: Vec<(&'static str, Value)>,
    stop: Stop,
    /// The calls of the vendor's own tools.
    calls: ServerCalls,
    /// The last reported usage, without the calls.
    usage: Usage,
}

impl Decoder {
    /// Creates a decoder for the response to `request`.
    pub(crate) fn new(request: &ModelRequest) -> Self {
        let id = request.model.id.as_str();
        Self {
            asked: id.rsplit('/').next().unwrap_or_default().to_owned(),
            prefix: match request.model.api {
                ApiProtocol::GoogleVertex => Prefix::Vertex,
                _ => Prefix::Google,
            },
            answer_tool: answer_tool(request),
            functions: Functions::of(request),
            surrogates: Surrogates::default(),
            begun: false,
            blocks: Blocks::default(),
            open: None,
            ids: CallIds::new(&request.history),
            given: BTreeSet::new(),
            about: Vec::new(),
            stop: Stop::default(),
            calls: ServerCalls::default(),
            usage: Usage::default(),
        }
    }

    /// Reads a chunk of the stream or a list of chunks. A response without events is a list, and an error may be in
    /// one.
    fn read(&mut self, json: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        if !json.trim_start().starts_with('[') {
            return self.piece(json, sink);
        }
        // Some relays end a stream with `[DONE]`.
        if json.trim() == "[DONE]" {
            return Ok(());
        }
        let json = &*self.surrogates.mend_whole(json);
        let list: Vec<&RawValue> = serde_json::from_str(json).map_err(unreadable)?;
        list.into_iter().try_for_each(|item| self.piece(item.get(), sink))
    }

    fn piece(&mut self, json: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let cause = match serde_json::from_str::<Chunk<'_>>(json) {
            Ok(chunk) => return self.chunk(&chunk, json, sink),
            Err(cause) => cause,
        };
        if Surrogates::suspected(json) {
            let mended = self.surrogates.mend(json);
            if let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(&mended) {
                return self.chunk(&chunk, &mended, sink);
            }
        }
        Err(unreadable(cause))
    }

    fn chunk(
        &mut self,
        chunk: &Chunk<'_>,
        json: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        if chunk.error.is_some_and(|e| e.get() != "null") {
            return Err(error::in_stream(json));
        }
        if !self.begun {
            self.begun = true;
            let model = chunk.model_version.filled().filter(|m| *m != self.asked);
            sink(StreamEvent::Start { response_id: chunk.response_id.filled(), model });
        }
        let mut known = false;
        for candidate in chunk.candidates.iter().flatten() {
            known = true;
            if candidate.index.0 == 0 {
                self.candidate(candidate, json, sink)?;
            } else {
                sink(StreamEvent::Unrecognised { name: "another candidate" });
            }
        }
        token_count::report(chunk.usage_metadata.unreadable(WireUsage::unreadable), sink);
        if let Some(usage) = chunk.usage_metadata.given() {
            known = true;
            if let Some(usage) = usage.disjoint() {
                self.usage = usage;
                sink(StreamEvent::Usage(self.calls.on(usage)));
            }
        }
        if let Some(PromptFeedback { block_reason, block_reason_message }) = &chunk.prompt_feedback {
            known = true;
            self.stop.blocked(block_reason, block_reason_message);
        }
        if !known {
            if let Some(error) = error::unwrapped(json) {
                return Err(error);
            }
            sink(StreamEvent::Unrecognised { name: "a piece of no known form" });
        }
        Ok(())
    }

    fn candidate(
        &mut self,
        candidate: &Candidate<'_>,
        json: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        // The unchanged JSON text of the parts, parsed when a part is needed.
        let mut raw: Option<Vec<Value>> = None;
        let parts =
            candidate.content.as_ref().and_then(|content| content.parts.as_deref()).unwrap_or_default();
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part { call: Some(call), .. } => self.call(call, part.signature.as_str(), sink)?,
                Part { text: Some(text), thought, .. } => {
                    self.say(text.as_str(), part.signature.as_str(), *thought, sink);
                }
                Part { other: Some(kind), .. } => {
                    let raw = raw.get_or_insert_with(|| raw_parts(json));
                    self.carry(kind, raw.get_mut(at).map(Value::take), sink);
                }
                // A part that contains only a signature.
                _ => self.say("", part.signature.as_str(), part.thought, sink),
            }
        }
        for (kind, said) in [
            (GROUNDING, candidate.grounding_metadata),
            (CITATIONS, candidate.citation_metadata),
            (PAGES, candidate.url_context_metadata),
        ] {
            self.note(kind, said, sink);
        }
        self.stop.note(candidate);
        Ok(())
    }

    fn say(&mut self, text: &str, signature: &str, thought: bool, sink: &mut EventSink<'_>) {
        if thought {
            self.blocks.think(text, "", sink);
        } else {
            self.blocks.say(text, sink);
        }
        match (signature, thought) {
            ("", _) => {}
            (signature, true) => self.blocks.sign_thinking(signature, sink),
            (signature, false) => self.blocks.sign_text(signature, sink),
        }
    }

    fn call(
        &mut self,
        call: &FunctionCall<'_>,
        signature: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let continues = call.will_continue == Some(true);
        let pieces = call.partial_args.as_deref().unwrap_or_default();
        let name = call.name.as_str();
        let mut open = if name.is_empty() {
            // More of the call that is open, or its end.
            let Some(open) = self.open.take() else {
                sink(StreamEvent::Unrecognised { name: "a piece of no call" });
                return Ok(());
            };
            open
        } else {
            self.close_call(sink);
            if self.answer_tool.as_deref() == Some(name) {
                self.blocks.say(call.args.map_or("{}", RawValue::get), sink);
                self.blocks.close(sink);
                return Ok(());
            }
            let own = call.args.map(RawValue::get);
            let is_action = self.functions.as_ref().is_some_and(|known| known.is_action(name, own));
            let action = is_action.then(|| computer::arguments(name, own));
            let called = if is_action { computer::TOOL } else { name };
            let index = self.begin_call(call.id.filled(), called, signature, sink);
            let args = action.as_deref().or(own);
            let is_whole = !continues && (own.is_some() || pieces.is_empty());
            if let Some(args) = args.filter(|args| *args != "null" && is_whole) {
                sink(StreamEvent::ToolCallDelta { index, delta: args });
                sink(StreamEvent::BlockEnd { index });
                return Ok(());
            }
            Arguments::new(index, args)
        };
        open.add(pieces)?;
        if continues {
            self.open = Some(open);
        } else {
            open.end(sink);
        }
        Ok(())
    }

    fn begin_call(&mut self, id: Option<&str>, name: &str, signature: &str, sink: &mut EventSink<'_>) -> u32 {
        let index = self.blocks.start(sink);
        let id = match id.filter(|id| !self.given.contains(*id) && !self.ids.is_taken(id)) {
            Some(id) => id.to_owned(),
            None => loop {
                let id = self.ids.numbered(self.prefix);
                if !self.given.contains(&id) {
                    break id;
                }
            },
        };
        sink(StreamEvent::ToolCallStart { index, id: &id, name });
        if !signature.is_empty() {
            sink(StreamEvent::ToolCallSignature { index, delta: signature });
        }
        self.given.insert(id);
        self.stop.called();
        index
    }

    fn close_call(&mut self, sink: &mut EventSink<'_>) {
        if let Some(open) = self.open.take() {
            open.end(sink);
        }
    }

    /// Emits a part that only the vendor understands, unchanged.
    fn carry(&mut self, kind: &str, part: Option<Value>, sink: &mut EventSink<'_>) {
        match part {
            Some(part) => {
                let index = self.blocks.start(sink);
                sink(StreamEvent::Opaque { index, kind, data: &part });
                self.calls.block(index, kind, &part, sink);
                sink(StreamEvent::BlockEnd { index });
            }
            None => sink(StreamEvent::Unrecognised { name: "a part of no known form" }),
        }
    }

    /// Counts the searches that the metadata names, and reports the usage with all calls.
    fn count_searches(&mut self, sink: &mut EventSink<'_>) {
        let named = self.about.iter().filter(|(kind, _)| *kind == GROUNDING);
        let queries = named.filter_map(|(_, data)| data.get("webSearchQueries")?.as_array()).flatten();
        let queries: BTreeSet<String> = queries.filter_map(|q| Some(q.as_str()?.to_owned())).collect();
        self.calls.searched(self.blocks.next_index(), &queries, sink);
        if !self.calls.is_empty() {
            sink(StreamEvent::Usage(self.calls.on(self.usage)));
        }
    }

    /// Stores metadata of the reply once per value, up to `MAX_ABOUT` values.
    fn note(&mut self, kind: &'static str, said: Option<&RawValue>, sink: &mut EventSink<'_>) {
        let Some(said) = said.map(RawValue::get).filter(|s| !matches!(*s, "null" | "{}")) else { return };
        let Ok(value) = serde_json::from_str::<Value>(said) else { return };
        if self.about.iter().any(|(k, v)| *k == kind && *v == value) {
            return;
        }
        if self.about.len() >= MAX_ABOUT {
            sink(StreamEvent::Unrecognised { name: kind });
            return;
        }
        self.about.push((kind, value));
    }
}

impl Decode for Decoder {
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        self.read(frame.data, sink).map(|()| Flow::More)
    }

    fn ends_with_body(&self) -> bool {
        true
    }

    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        self.read(body, sink)
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        if self.open.is_some() {
            self.stop.call_is_open();
        }
        let completion = self.stop.completion()?;
        if completion.stop_reason != StopReason::Length {
            self.close_call(sink);
        }
        self.blocks.close(sink);
        if completion.stop_reason == StopReason::Paused
            && let Some(token) = self.stop.token()
        {
            self.about.push((CONTINUATION, Value::String(token)));
        }
        self.count_searches(sink);
        for (kind, data) in std::mem::take(&mut self.about) {
            let citations = match kind {
                GROUNDING => citation::of_grounding(&data),
                CITATIONS => citation::of_quotes(&data),
                _ => Vec::new(),
            };
            citations.iter().for_each(|citation| self.blocks.cite(citation, sink));
            let index = self.blocks.start(sink);
            sink(StreamEvent::Opaque { index, kind, data: &data });
            sink(StreamEvent::BlockEnd { index });
        }
        Ok(completion)
    }
}

/// The parts of the first candidate.
fn raw_parts(json: &str) -> Vec<Value> {
    let whole = serde_json::from_str::<RawChunk>(json).unwrap_or_default();
    whole.candidates.into_iter().next().map(|c| c.content.parts).unwrap_or_default()
}

fn unreadable(error: serde_json::Error) -> ProviderError {
    let context =
        ErrorContext::new(format!("a piece of the answer cannot be read: {error}")).with_source(error);
    ProviderError::new(ErrorKind::Network, context)
}
