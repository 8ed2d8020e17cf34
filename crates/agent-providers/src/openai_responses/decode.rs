//! Decodes the event stream, without I/O and without a clock.
//!
//! The vendor sends the output as numbered items, first in pieces and then whole; several may be open at once. The
//! decoder compares the pieces with the whole item, so a missing piece, or an item that only the last event contains,
//! is still emitted. An item of an unknown kind is emitted as an opaque block, so that it can be sent back to the
//! same model.

mod end;
mod item;
mod output;
mod parts;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use agent_core::{CacheMiss, Completion, EventSink, ModelRequest, ProviderError, StreamEvent};
use serde::Deserialize;

use super::error;
use super::wire::{CacheDiagnostics, Event, Part, Response, Usage};
use crate::protocol::{Decode, Flow, Frame};
use crate::rejection::VendorError;
use crate::shape::{Shape, Varying};
use crate::surrogates::Surrogates;
use crate::token_count;
use end::Ending;
use output::{Cut, Output, Place, Wants};
use parts::List;

/// The data of an event that some servers send at the end.
const DONE: &str = "[DONE]";

/// Events without information beyond that of other events.
/// The last event of an item has the annotations of its texts.
const SILENT: &[&str] = &["keepalive", "ping", "response.output_text.annotation.added"];

/// The members of an event that vary between the deltas of one text.
const VARYING: Varying = Varying { unread: &["logprobs", "obfuscation", "sequence_number"], repeated: &[] };

/// The state between two events of one reply.
#[derive(Debug)]
pub(super) struct Decoder {
    model: String,
    begun: bool,
    output: Output,
    ending: Option<Ending>,
    /// Why the vendor's cache did not cover the prompt.
    cache_miss: Option<CacheMiss>,
    surrogates: Surrogates,
    /// The shape of the most recent delta, and the position of its block.
    shape: Shape<Place>,
}

impl Decoder {
    /// Creates a decoder for the response to `request`.
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            model: request.model.id.clone(),
            begun: false,
            output: Output::new(request),
            ending: None,
            cache_miss: None,
            surrogates: Surrogates::default(),
            shape: Shape::new(&VARYING),
        }
    }

    /// Reads a delta that differs from an earlier one only in its text. Returns whether it did.
    fn usual(&mut self, json: &str, sink: &mut EventSink<'_>) -> bool {
        let Some((place, text)) = self.shape.read(json) else { return false };
        self.output.more(place, &text, sink)
    }

    fn event(
        &mut self,
        frame: Frame<'_>,
        event: &Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<Flow, ProviderError> {
        let name = event.kind.filled().or(frame.event).unwrap_or_default();
        let output = &mut self.output;
        let text = event.text.as_str();
        let mut usual = None;
        match name {
            "response.output_text.delta" => {
                usual = output.text(Wants::Message, List::Content, event, sink)?
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_summary.delta" => {
                usual = output.text(Wants::Reasoning, List::Summary, event, sink)?;
            }
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                usual = output.text(Wants::Reasoning, List::Content, event, sink)?;
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                usual = output.arguments(event, sink)?;
            }
            "response.refusal.delta" => output.refuse(event.delta.as_str()),
            "response.refusal.done" => output.refused(event.refusal.as_str()),
            "response.output_text.done" => {
                output.whole_text(Wants::Message, List::Content, event, text, sink)?;
            }
            "response.reasoning_summary_text.done" | "response.reasoning_summary.done" => {
                output.whole_text(Wants::Reasoning, List::Summary, event, text, sink)?;
            }
            "response.reasoning_text.done" | "response.reasoning.done" => {
                output.whole_text(Wants::Reasoning, List::Content, event, text, sink)?;
            }
            "response.content_part.added" | "response.reasoning_part.added" => {
                output.announce(List::Content, event);
            }
            "response.reasoning_summary_part.added" => output.announce(List::Summary, event),
            "response.content_part.done"
            | "response.reasoning_part.done"
            | "response.reasoning_summary_part.done" => {
                output.whole_part(event, event.part.as_ref().unwrap_or(&Part::default()), sink)?;
            }
            "response.shell_call_command.delta" | "response.apply_patch_call_operation_diff.delta"
                if output.local_piece(event, sink) => {}
            "response.function_call_arguments.start" => output.bare_call(event, sink)?,
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                output.whole_arguments(event, sink)?;
            }
            "response.output_item.added" => match event.item {
                Some(item) => output.begin(event.output_index.map(|i| i.0), item, sink)?,
                None => sink(StreamEvent::Unrecognised { name }),
            },
            "response.output_item.done" => match event.item {
                Some(item) => output.end(event.output_index.map(|i| i.0), item, sink)?,
                None => sink(StreamEvent::Unrecognised { name }),
            },
            "response.created" | "response.in_progress" | "response.queued" => {
                self.start(event.response.as_ref().unwrap_or(&Response::default()), sink);
            }
            "response.completed"
            | "response.complete"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                self.terminal(name, event.response.as_ref().unwrap_or(&Response::default()), sink)?;
                return Ok(Flow::Done);
            }
            _ if name == "error" || (name.is_empty() && event.error.is_some()) => {
                // The received output is preserved, including the encrypted forms.
                output.seal(sink);
                return Err(error::event(frame.data));
            }
            "" if VendorError::from_body(frame.data.as_bytes()).is_some() => {
                output.seal(sink);
                return Err(error::event(frame.data));
            }
            _ if SILENT.contains(&name) || output.is_progress(event) => {}
            _ => sink(StreamEvent::Unrecognised { name }),
        }
        if let Some(place) = usual.filter(|_| event.kind.filled().is_some() && event.output_index.is_some()) {
            self.shape.learn(frame.data, "delta", event.delta.as_str(), place);
        }
        Ok(Flow::More)
    }

    fn start(&mut self, response: &Response<'_>, sink: &mut EventSink<'_>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let model = response.model.filled().filter(|m| *m != self.model);
        sink(StreamEvent::Start { response_id: response.id.filled(), model });
    }

    /// Applies the last event: the output that has not arrived yet, the token counts and the end of the reply.
    fn terminal(
        &mut self,
        name: &str,
        response: &Response<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        self.start(response, sink);
        self.output.recover(response.output.as_deref().unwrap_or_default(), sink)?;
        self.output.seal(sink);
        token_count::report(response.usage.unreadable(Usage::unreadable), sink);
        if let Some(usage) = response.usage.given() {
            let usage = usage.disjoint(self.output.reply());
            sink(StreamEvent::Usage(self.output.calls.on(usage)));
        }
        self.cache_miss = response.prompt_cache_diagnostics.and_then(|raw| cache_miss(raw.get()));
        self.ending = Some(Ending::of(name, response)?);
        Ok(())
    }

    /// Reads an event and first replaces unpaired surrogates if it contains any.
    fn read_event(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        let read = serde_json::from_str::<Event<'_>>(frame.data);
        // Items and responses are read later, so nothing has looked into them yet.
        let unread = read.as_ref().is_ok_and(|event| event.item.is_some() || event.response.is_some());
        if Surrogates::suspected(frame.data)
            && (unread || read.is_err())
            && let Cow::Owned(mended) = self.surrogates.mend_whole(frame.data)
            && let Ok(event) = serde_json::from_str::<Event<'_>>(&mended)
        {
            return self.event(Frame { data: &mended, ..frame }, &event, sink);
        }
        self.event(frame, &read.map_err(error::unreadable)?, sink)
    }
}

impl Decode for Decoder {
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        if self.usual(frame.data, sink) {
            return Ok(Flow::More);
        }
        let data = frame.data.trim();
        if data.is_empty() || data == DONE {
            return Ok(Flow::More);
        }
        self.read_event(Frame { data, ..frame }, sink)
    }

    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let body = &*self.surrogates.mend_whole(body);
        let response: Response<'_> = read(body)?;
        if response.output.is_none() {
            return Err(match response.error {
                Some(_) => error::event(body),
                None => error::no_output(),
            });
        }
        self.terminal("", &response, sink)
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        let Some(ending) = self.ending.take() else {
            self.output.seal(sink);
            return Err(error::cut());
        };
        let called = if ending.is_known() { self.output.called() } else { self.output.called_whole() };
        self.output.finish(if ending.is_cut() { Cut::ByLimit } else { Cut::Nowhere }, sink);
        let completion = ending.completion(self.output.refusal(), called)?;
        Ok(completion.with_cache_miss(self.cache_miss.take()))
    }
}

/// Reads the vendor's report about its cache; `None` if the cache applied.
fn cache_miss(json: &str) -> Option<CacheMiss> {
    // A list would be read as the members in their order.
    let report: CacheDiagnostics<'_> = serde_json::from_str(json).ok().filter(|_| json.starts_with('{'))?;
    let kind = report.kind.filled().filter(|kind| *kind != "cache_hit")?;
    Some(CacheMiss::new(report.reason.filled().unwrap_or(kind), report.cache_missed_tokens.known()))
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, ProviderError> {
    serde_json::from_str(json).map_err(error::unreadable)
}
