//! Decodes the response line by line, without I/O and without a clock.

#[cfg(test)]
mod tests;

use agent_core::provider::{MAX_REPLY_CALLS, ReplyLimit};
use agent_core::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StopReason, StreamEvent,
    Usage,
};
use serde::Deserialize;

use super::wire::{Call, Closing, Line, Opening};
use crate::blocks::Blocks;
use crate::call_ids::CallIds;
use crate::protocol::{Decode, Flow, Frame};
use crate::rejection::VendorError;
use crate::surrogates::Surrogates;
use crate::token_count;

/// The state between two lines.
#[derive(Debug)]
pub(super) struct Decoder {
    begun: bool,
    blocks: Blocks,
    called: bool,
    ids: CallIds,
    /// The ids of this reply, because a server may repeat an id.
    given: Vec<String>,
    reason: Option<String>,
    surrogates: Surrogates,
}

impl Decoder {
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            begun: false,
            blocks: Blocks::default(),
            called: false,
            ids: CallIds::new(&request.history),
            given: Vec::new(),
            reason: None,
            surrogates: Surrogates::default(),
        }
    }

    fn read(&mut self, json: &str, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        match serde_json::from_str::<Line<'_>>(json) {
            Ok(line) => self.line(json, &line, sink),
            Err(error) if Surrogates::suspected(json) => {
                let mended = self.surrogates.mend(json);
                let line = serde_json::from_str::<Line<'_>>(&mended).map_err(|_| unreadable(error))?;
                self.line(&mended, &line, sink)
            }
            Err(error) => Err(VendorError::from_body(json.as_bytes())
                .map_or_else(|| unreadable(error), VendorError::in_stream)),
        }
    }

    fn line(&mut self, json: &str, line: &Line<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        if let Some(error) = line.error.and_then(VendorError::of_raw) {
            return Err(VendorError::from_body(json.as_bytes()).unwrap_or(error).in_stream());
        }
        if line.message.is_none() && !line.done {
            sink(StreamEvent::Unrecognised { name: "a line of no known form" });
            return Ok(Flow::More);
        }
        if !self.begun {
            self.begun = true;
            let opening: Opening<'_> = also(json)?;
            sink(StreamEvent::Start { response_id: None, model: opening.model.filled() });
        }
        if let Some(message) = &line.message {
            self.blocks.think(message.thinking.as_str(), "", sink);
            self.blocks.say(message.content.as_str(), sink);
            for call in message.tool_calls.iter().flatten() {
                self.call(call, sink)?;
            }
        }
        if !line.done {
            return Ok(Flow::More);
        }
        let closing: Closing<'_> = also(json)?;
        let (input, output) = (closing.prompt_eval_count, closing.eval_count);
        token_count::report(token_count::unreadable(&[input, output]), sink);
        if input.known().or(output.known()).is_some() {
            sink(StreamEvent::Usage(Usage::new(input.or_zero(), output.or_zero(), 0, 0)));
        }
        self.reason = Some(closing.done_reason.filled().unwrap_or("stop").to_owned());
        Ok(Flow::Done)
    }

    /// A call always arrives complete.
    fn call(&mut self, call: &Call<'_>, sink: &mut EventSink<'_>) -> Result<(), ReplyLimit> {
        if self.given.len() >= MAX_REPLY_CALLS {
            return Err(ReplyLimit::Calls);
        }
        let index = self.blocks.start(sink);
        let id = match call.id.filled().filter(|id| !self.given.iter().any(|g| g == id)) {
            Some(id) => id.to_owned(),
            None => self.ids.fresh(),
        };
        sink(StreamEvent::ToolCallStart { index, id: &id, name: call.function.name.as_str() });
        let arguments = call.function.arguments.map_or("", |a| a.get());
        if !matches!(arguments, "" | "null") {
            sink(StreamEvent::ToolCallDelta { index, delta: arguments });
        }
        sink(StreamEvent::BlockEnd { index });
        self.given.push(id);
        self.called = true;
        Ok(())
    }
}

impl Decode for Decoder {
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        self.read(frame.data.trim(), sink)
    }

    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let first = serde_json::Deserializer::from_str(body).into_iter::<&serde_json::value::RawValue>();
        let mut begun = false;
        for value in first {
            let value = value.map_err(unreadable)?;
            begun = true;
            if self.read(value.get(), sink)? == Flow::Done {
                return Ok(());
            }
        }
        if begun { Ok(()) } else { Err(ended_early()) }
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        let Some(reason) = self.reason.take() else { return Err(ended_early()) };
        let stop = match reason.as_str() {
            "length" => StopReason::Length,
            "stop" | "load" | "unload" if self.called => StopReason::ToolUse,
            "stop" | "load" | "unload" => StopReason::Stop,
            "tool_calls" => StopReason::ToolUse,
            // Whatever the word means, the model has made its calls.
            _ if self.called => StopReason::ToolUse,
            _ => {
                let context =
                    ErrorContext::new(format!("the answer ended for the unknown reason {reason:?}"));
                return Err(ProviderError::new(ErrorKind::Api, context));
            }
        };
        self.blocks.close(sink);
        Ok(Completion::new(stop).with_vendor_reason(reason))
    }
}

/// The further members of a line that has been parsed before.
fn also<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, ProviderError> {
    serde_json::from_str(json).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> ProviderError {
    let context =
        ErrorContext::new(format!("a line of the answer cannot be read: {error}")).with_source(error);
    ProviderError::new(ErrorKind::Network, context)
}

fn ended_early() -> ProviderError {
    ProviderError::new(ErrorKind::Network, ErrorContext::new("the answer broke off before its end"))
}
