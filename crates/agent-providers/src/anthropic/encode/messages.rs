//! Writes the conversation: each unit of history once, with the offset at which a cache marker may go into each of
//! its messages.

use agent_core::{
    AgentMessage, AssistantMessage, Content, Encoded, ImageContent, Message, StreamConfig, ThinkingContent,
    ToolCall, ToolResultMessage, Unit, UserMessage,
};

use super::MARKER;
use crate::anthropic::config::is_vendor;
use crate::claude::turns::{Blocks, Mark, Marked, Marks, NO_MARK};
use crate::handoff::{self, Handoff, IMAGE_NOT_SHOWN, IdRule, ImageOut, ThinkingOut};
use crate::json::{self, Members};

/// Tool-call ids: `[A-Za-z0-9_-]`, at most 64 characters.
pub(super) const IDS: IdRule = IdRule::word(64);

/// Stands before a conversation that begins with a reply, which the API does not take.
const OPENING: &[u8] = br#"{"role":"user","content":[{"type":"text","text":"[the beginning of the conversation is not shown]"}]}"#;

/// What stands for a picture in a result that failed: the API takes only text there.
const IMAGE_IN_ERROR: &str = "[image left out: an error can only carry text]";

/// Writes the list of messages; with `marked`, the second-to-last one ends a cacheable prefix (REQ-126, D14).
pub(super) fn write(out: &mut Vec<u8>, request: &StreamConfig, marked: bool) {
    let writer = Writer::new(request);
    let key = handoff::wire_key(request, &[if writer.keeps_unsigned { "unsigned" } else { "signed" }]);
    let mut marks = Marks::default();
    out.push(b'[');
    let start = out.len();
    for unit in request.history.units().filter(|u| Handoff::shows(u)) {
        unit.wire().with(
            key,
            || writer.unit(unit),
            |encoded| {
                if encoded.bytes().is_empty() {
                    return;
                }
                if out.len() > start {
                    out.push(b',');
                } else if encoded.bytes().starts_with(ASSISTANT) {
                    out.extend_from_slice(OPENING);
                    out.push(b',');
                }
                let base = out.len();
                out.extend_from_slice(encoded.bytes());
                for mark in encoded.marks() {
                    marks.push((*mark != NO_MARK).then(|| base + *mark as usize));
                }
            },
        );
    }
    if let Some(at) = marks.before_last().filter(|_| marked) {
        out.splice(at..at, MARKER.iter().copied());
    }
    out.push(b']');
}

/// How a block of text begins.
const TEXT: &[u8] = br#"{"type":"text","text":"#;

/// A marker is a member of the block that it ends.
const MARK: Mark = Mark::Inside;

const USER: &[u8] = br#"{"role":"user","content":["#;
const ASSISTANT: &[u8] = br#"{"role":"assistant","content":["#;

struct Writer<'r> {
    rules: Handoff<'r>,
    /// Whether thinking without a signature is sent back: the vendor refuses it, others who speak its protocol have
    /// no signatures and want it.
    keeps_unsigned: bool,
}

impl<'r> Writer<'r> {
    fn new(request: &'r StreamConfig) -> Self {
        Self { rules: Handoff::new(request, IDS), keeps_unsigned: !is_vendor(&request.model) }
    }

    fn unit(&self, unit: &Unit) -> Encoded {
        let mut blocks = Blocks::new(TEXT, MARK);
        match unit.first().and_then(AgentMessage::as_llm) {
            Some(Message::User(message)) => self.user(&mut blocks, message),
            Some(Message::Assistant(reply)) => {
                self.reply(&mut blocks, reply);
                self.results(&mut blocks, unit.results());
            }
            _ => {}
        }
        Encoded::new(blocks.out, blocks.marks)
    }

    fn user(&self, blocks: &mut Blocks, message: &UserMessage) {
        blocks.open(USER);
        for content in &message.content {
            match content {
                Content::Text(text) => blocks.text(handoff::text(text)),
                Content::Image(image) => self.image(blocks, image),
                _ => {}
            }
        }
        blocks.close();
    }

    fn image(&self, blocks: &mut Blocks, image: &ImageContent) {
        match self.rules.image(image) {
            ImageOut::Keep => blocks.block(Marked::Yes, |out| write_image(out, image)),
            ImageOut::Text(text) => blocks.text(Some(text)),
        }
    }

    fn reply(&self, blocks: &mut Blocks, reply: &AssistantMessage) {
        blocks.open(ASSISTANT);
        for content in &reply.content {
            match content {
                Content::Text(text) => blocks.text(handoff::text(text)),
                Content::Thinking(thinking) => self.thinking(blocks, reply, thinking),
                Content::ToolCall(call) => blocks.block(Marked::Yes, |out| self.call(out, call)),
                Content::Opaque(opaque) => {
                    if let Some(data) = self.rules.opaque(reply, opaque) {
                        blocks.block(Marked::No, |out| json::write(out, data));
                    }
                }
                Content::Image(_) => blocks.text(Some(IMAGE_NOT_SHOWN)),
                _ => {}
            }
        }
        blocks.close();
    }

    fn thinking(&self, blocks: &mut Blocks, reply: &AssistantMessage, thinking: &ThinkingContent) {
        let signature = thinking.signature.as_deref().unwrap_or_default();
        match self.rules.thinking(reply, thinking) {
            ThinkingOut::Keep if thinking.redacted => blocks.block(Marked::Thinking, |out| {
                let mut block = Members::open(out);
                block.field("type", "redacted_thinking").field("data", signature);
                block.close();
            }),
            ThinkingOut::Keep if !signature.is_empty() || self.keeps_unsigned => {
                blocks.block(Marked::Thinking, |out| {
                    let mut block = Members::open(out);
                    block
                        .field("type", "thinking")
                        .field("thinking", &thinking.thinking)
                        .field("signature", signature);
                    block.close();
                });
            }
            ThinkingOut::AsText(text) => blocks.text(Some(&text)),
            ThinkingOut::Keep | ThinkingOut::Drop => {}
        }
    }

    fn call(&self, out: &mut Vec<u8>, call: &ToolCall) {
        let mut block = Members::open(out);
        block
            .field("type", "tool_use")
            .field("id", &self.rules.call_id(&call.id))
            .field("name", &handoff::tool_name(call));
        // The API takes an object only. Whatever else a model sent was answered with an error that shows it.
        let input = if call.arguments.is_object() { call.arguments.json_text() } else { "{}" };
        block.key("input").extend_from_slice(input.as_bytes());
        block.close();
    }

    /// All results of a reply are one user message (B-141).
    fn results<'m>(&self, blocks: &mut Blocks, results: impl Iterator<Item = &'m ToolResultMessage>) {
        blocks.open(USER);
        for result in results {
            blocks.block(Marked::Yes, |out| self.result(out, result));
        }
        blocks.close();
    }

    fn result(&self, out: &mut Vec<u8>, result: &ToolResultMessage) {
        let mut inner = Blocks::new(TEXT, MARK);
        for content in &result.content {
            match content {
                Content::Text(text) => inner.text(handoff::text(text)),
                Content::Image(_) if result.is_error => inner.text(Some(IMAGE_IN_ERROR)),
                Content::Image(image) => self.image(&mut inner, image),
                _ => {}
            }
        }
        let note =
            self.rules.result_note(&result.content).filter(|_| !result.is_error || inner.out.is_empty());
        inner.text(note);

        let mut block = Members::open(out);
        block.field("type", "tool_result").field("tool_use_id", &self.rules.call_id(&result.tool_call_id));
        if result.is_error {
            block.field("is_error", &true);
        }
        let content = block.key("content");
        content.push(b'[');
        content.extend_from_slice(&inner.out);
        content.push(b']');
        block.close();
    }
}

fn write_image(out: &mut Vec<u8>, image: &ImageContent) {
    let mut block = Members::open(out);
    block.field("type", "image");
    let mut source = Members::open(block.key("source"));
    match image {
        ImageContent::Base64 { data, mime_type } => {
            source.field("type", "base64").field("media_type", mime_type).field("data", data);
        }
        ImageContent::Url { url } => {
            source.field("type", "url").field("url", url);
        }
        _ => {}
    }
    source.close();
    block.close();
}
