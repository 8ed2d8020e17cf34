//! Applies one choice of a chunk or of a whole body, and token counts.

use agent_core::provider::ReplyLimit;
use agent_core::{EventSink, StreamEvent};

use super::{Decoder, usual};
use crate::openai_chat::usage::Usage;
use crate::openai_chat::wire::{Body, Choice, Delta};
use crate::prompt_usage::Reply;
use crate::token_count::{self, Counts};

/// How the reply arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As a stream in which no delta has contained anything yet.
    Stream,
    /// As a stream of deltas.
    Deltas,
    /// As one JSON body.
    Whole,
}

impl Decoder {
    /// Applies a choice. `frame` holds the chunk's bytes when a shape may be learned from them.
    pub(super) fn choice(
        &mut self,
        frame: Option<&str>,
        choice: Choice<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ReplyLimit> {
        let reason = choice.finish_reason.filled();
        let frame = frame.filter(|_| !choice.usage.is_present() && reason.is_none());
        if let Some(delta) = self.news(choice.delta, choice.message) {
            let joined = self.delta(&delta, sink)?;
            if let Some(frame) = frame
                && let Some((usual, text)) = usual(&delta, joined)
            {
                self.shape.learn(frame, usual.member(), text, usual);
            }
        }
        if let Some(reason) = reason {
            self.ends_for(reason);
        }
        self.count(choice.usage, sink);
        Ok(())
    }

    /// Returns what a choice adds to the reply. A whole body has it in `message`, and a stream in `delta`. Some servers
    /// repeat in the `message` of a chunk what the deltas contained; only the rest of it is new.
    fn news<'a>(
        &mut self,
        delta: Option<Box<Delta<'a>>>,
        message: Option<Box<Delta<'a>>>,
    ) -> Option<Box<Delta<'a>>> {
        let delta = delta.filter(|delta| !delta.is_empty());
        let message = message.filter(|message| !message.is_empty());
        if self.form == Form::Whole {
            return message.or(delta);
        }
        if delta.is_some() {
            self.form = Form::Deltas;
            return delta;
        }
        let mut message = message?;
        if self.form == Form::Deltas {
            if self.blocks.spoke() {
                message.content = Body::default();
            }
            if self.blocks.thought() {
                message.forget_thinking();
            }
            if !self.calls.is_empty() {
                message.tool_calls = None;
                message.function_call = None;
            }
        }
        Some(message)
    }

    /// Emits token counts. Counts of 0 do not replace others, because some gateways end a stream with empty ones.
    pub(super) fn count(&mut self, usage: Counts<Box<Usage>>, sink: &mut EventSink<'_>) {
        token_count::report(usage.unreadable(|usage| usage.unreadable()), sink);
        let Some(usage) = usage.given() else { return };
        let silent = !self.blocks.spoke() && self.calls.is_empty();
        let usage = usage.disjoint(if silent { Reply::OnlyThinking } else { Reply::Visible });
        if !self.counted || !usage.is_zero() {
            sink(StreamEvent::Usage(usage));
        }
        self.counted = true;
    }
}
