//! Decodes the event stream, without I/O and without a clock.
//!
//! A block of an unknown kind is not an error. It is assembled as in the vendor's own client and emitted as an opaque
//! block, so that it can be sent back to the same model.

mod block;
mod end;

#[cfg(test)]
mod tests;

use agent_core::{CacheMiss, Completion, ErrorKind, EventSink, ModelRequest, ProviderError, StreamEvent};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::encode::response_tool;
use super::{error, extras, wire};
use crate::claude::MAX_OPEN_BLOCKS;
use crate::claude::usage::PartialUsage;
use crate::protocol::{Decode, Flow, Frame};
use crate::rejection::{Spoken, Target, VendorError};
use crate::server_tools::ServerCalls;
use crate::shape::Shape;
use crate::surrogates::Surrogates;
use crate::token_count::{self, Counts};
use block::{Kind, Open};
use end::Stop;

/// The state between two events of one reply.
#[derive(Debug)]
pub(crate) struct Decoder {
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
    /// The container in which the reply ran code.
    container: Option<Value>,
    /// Why the vendor's cache did not cover the prompt.
    cache_miss: Option<CacheMiss>,
    /// Whether the terminal event has been seen.
    complete: bool,
    /// Whether `message_start` has been seen.
    started: bool,
    /// The shape of the most recent delta: the number of its block and the meaning of its text.
    shape: Shape<(u64, Takes)>,
}

/// The meaning of the deltas of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Text,
    Thinking,
    Arguments,
}

impl Decoder {
    /// Creates a decoder for the response to `request`.
    pub(crate) fn new(request: &ModelRequest) -> Self {
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
            container: None,
            cache_miss: None,
            complete: false,
            started: false,
            shape: Shape::default(),
        }
    }

    /// Reads a delta that differs from an earlier one only in its text. Returns whether it did.
    fn usual(&mut self, json: &str, sink: &mut EventSink<'_>) -> bool {
        if self.complete {
            return false;
        }
        let Some(((at, takes), text)) = self.shape.read(json) else { return false };
        self.open.iter_mut().rfind(|o| o.at == at).is_some_and(|open| open.text(takes, &text, sink))
    }

    fn event(
        &mut self,
        frame: Frame<'_>,
        event: &wire::Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<Flow, ProviderError> {
        let name = event.kind.filled().or(frame.event).unwrap_or_default();
        // Events after the terminal event are ignored, except the start of another reply.
        if self.complete && name != "message_start" {
            return Ok(Flow::More);
        }
        match name {
            "content_block_delta" => match &event.delta {
                Some(delta) => {
                    self.delta(event.index, delta, frame.data, sink)?;
                    if let Some((takes, member, text)) =
                        usual(delta).filter(|_| event.kind.filled().is_some())
                    {
                        self.shape.learn(frame.data, member, text, (event.index, takes));
                    }
                }
                None => sink(StreamEvent::Unrecognised { name }),
            },
            "content_block_start" => match event.content_block {
                Some(block) => self.begin(event.index, block.get(), sink)?,
                None => sink(StreamEvent::Unrecognised { name }),
            },
            "content_block_stop" => self.end(event.index, sink),
            "message_start" => self.start(event.message.as_ref(), sink)?,
            "message_delta" => {
                if let Some(delta) = &event.delta {
                    self.hold(delta.container);
                    self.stop.note(&delta.stop_reason, &delta.stop_sequence, delta.stop_details.as_ref());
                }
                self.count(event.usage, sink);
            }
            "message_stop" => {
                self.complete = true;
            }
            "ping" => {}
            _ if name == "error" || event.error.is_some() => {
                let default = wire::ErrorBody::default();
                let body = event.error.as_ref().unwrap_or(&default);
                return Err(error::event(&self.target, body, event.request_id.filled()));
            }
            _ => sink(StreamEvent::Unrecognised { name }),
        }
        Ok(Flow::More)
    }

    /// Reads `message_start`. A body holds one reply; joining two would join the calls of different steps.
    fn start(
        &mut self,
        message: Option<&wire::Message<'_>>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        if std::mem::replace(&mut self.started, true) {
            let message = "a second message_start follows in the same response; it must hold one reply";
            return Err(self.target.fail(ErrorKind::Network, message, None));
        }
        match message {
            Some(message) => self.message(message, sink),
            None => self.message(&wire::Message::default(), sink),
        }
    }

    /// Reads the message of `message_start` or of a response without streaming. With programmatic tool calling,
    /// `message_start` holds the complete blocks and the stop reason, and only `message_stop` follows.
    fn message(
        &mut self,
        message: &wire::Message<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let model = message.model.filled().filter(|m| *m != self.target.model());
        sink(StreamEvent::Start { response_id: message.id.filled(), model });
        self.count(message.usage, sink);
        for (at, block) in (0..).zip(message.content.iter().flatten()) {
            self.begin(at, block.get(), sink)?;
            self.end(at, sink);
        }
        self.hold(message.container);
        self.diagnose(message.diagnostics);
        self.stop.note(&message.stop_reason, &message.stop_sequence, message.stop_details.as_ref());
        Ok(())
    }

    /// Stores the container of the reply.
    fn hold(&mut self, container: Option<&RawValue>) {
        if let Some(Ok(found @ Value::Object(_))) = container.map(|raw| serde_json::from_str(raw.get())) {
            self.container = Some(found);
        }
    }

    /// Stores the vendor's report about its cache.
    fn diagnose(&mut self, diagnostics: Option<&RawValue>) {
        // A list would be read as the members in their order.
        let report = diagnostics.map(RawValue::get).filter(|json| json.starts_with('{'));
        let Some(Ok(report)) = report.map(serde_json::from_str::<wire::Diagnostics<'_>>) else { return };
        let Some(reason) = report.cache_miss_reason else { return };
        if let Some(kind) = reason.kind.filled() {
            self.cache_miss = Some(CacheMiss::new(kind, reason.cache_missed_input_tokens.known()));
        }
    }

    fn count(&mut self, usage: Counts<wire::Usage<'_>>, sink: &mut EventSink<'_>) {
        token_count::report(usage.unreadable(|_| 0), sink);
        if let Some(usage) = usage.given() {
            self.usage.merge(usage.counts(), sink);
            self.usage.add(usage.extra(&self.usage.counted(), sink));
            if let Some(searches) = usage.searches() {
                self.calls.charged(searches);
            }
            sink(StreamEvent::Usage(self.calls.on(self.usage.total())));
        }
    }

    fn begin(&mut self, index: u64, json: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        // A block that begins where another one is open ends it.
        self.end(index, sink);
        let head: wire::Block<'_> = self.read(json)?;
        let kind = block::kind_of(&head, json, self.response_tool.as_deref());
        self.open_block(index, kind, &head, sink)
    }

    fn open_block(
        &mut self,
        at: u64,
        kind: Kind,
        head: &wire::Block<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        if self.open.len() >= MAX_OPEN_BLOCKS {
            let message = format!("the stream has more than {MAX_OPEN_BLOCKS} blocks open at once");
            return Err(self.target.fail(ErrorKind::Network, &message, None));
        }
        let open = Open { at, index: self.begun, kind };
        self.begun = self.begun.saturating_add(1);
        open.start(head, sink);
        self.open.push(open);
        Ok(())
    }

    fn delta(
        &mut self,
        at: u64,
        delta: &wire::Delta<'_>,
        json: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        if !self.open.iter().any(|o| o.at == at) {
            // Some servers omit the start of a text.
            let kind = match delta.kind.as_str() {
                "text_delta" => Kind::Text,
                "thinking_delta" => Kind::Thinking,
                _ => {
                    sink(StreamEvent::Unrecognised { name: "delta of no block" });
                    return Ok(());
                }
            };
            self.open_block(at, kind, &wire::Block::default(), sink)?;
        }
        if let Some(open) = self.open.iter_mut().rfind(|o| o.at == at) {
            open.delta(delta, json, sink);
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

    fn read<'a, T: Deserialize<'a>>(&self, json: &'a str) -> Result<T, ProviderError> {
        serde_json::from_str(json).map_err(|e| error::unreadable(&self.target, e))
    }
}

impl Decode for Decoder {
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        if self.usual(frame.data, sink) {
            return Ok(Flow::More);
        }
        let cause = match serde_json::from_str::<wire::Event<'_>>(frame.data) {
            Ok(event) => return self.event(frame, &event, sink),
            Err(cause) => cause,
        };
        if Surrogates::suspected(frame.data) {
            let mended = self.surrogates.mend(frame.data);
            if let Ok(event) = serde_json::from_str::<wire::Event<'_>>(&mended) {
                return self.event(Frame { data: &mended, ..frame }, &event, sink);
            }
        }
        // Some relays send an end mark of their own after the reply's.
        if self.complete {
            return Ok(Flow::More);
        }
        // The text of an error without a wrapper stands where an event has its message.
        Err(match VendorError::from_body(frame.data.as_bytes()) {
            Some(error) => error.in_stream(),
            None => error::unreadable(&self.target, cause),
        })
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let body = &*self.surrogates.mend_whole(body);
        if let Ok(wire::ErrorAnswer { error: Some(found), request_id }) = serde_json::from_str(body) {
            return Err(error::event(&self.target, &found, request_id.filled()));
        }
        let message: wire::Message<'_> = self.read(body)?;
        self.message(&message, sink)?;
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
        let completion = self.stop.completion(&self.target, self.spoken)?;
        if let Some(data) = self.container.take() {
            let index = self.begun;
            sink(StreamEvent::Opaque { index, kind: extras::CONTAINER, data: &data });
            sink(StreamEvent::BlockEnd { index });
        }
        Ok(completion.with_cache_miss(self.cache_miss.take()))
    }
}

/// The string that is the whole effect of this delta, and the member that it is the value of.
fn usual<'d>(delta: &'d wire::Delta<'_>) -> Option<(Takes, &'static str, &'d str)> {
    match delta.kind.as_str() {
        "text_delta" => Some((Takes::Text, "text", delta.text.as_str())),
        "thinking_delta" => Some((Takes::Thinking, "thinking", delta.thinking.as_str())),
        "input_json_delta" => Some((Takes::Arguments, "partial_json", delta.partial_json.as_str())),
        _ => None,
    }
}
