//! Writes the conversation: each unit of history once, with the offset behind which a cache point may go in each of
//! its messages.

use agent_core::{
    AgentMessage, AssistantMessage, Content, Encoded, ErrorKind, ImageContent, Message, ProviderError,
    StreamConfig, ThinkingContent, ToolCall, ToolResultMessage, Unit, UserMessage,
};

use super::CACHE_POINT;
use crate::bedrock::family::Family;
use crate::claude::turns::{Blocks, Mark, Marked, Marks, NO_MARK};
use crate::handoff::{self, Handoff, IMAGE_NOT_SHOWN, IdRule, ImageOut, ThinkingOut};
use crate::json::{self, Members};
use crate::request::refuse;

/// Tool-call ids: `[a-zA-Z0-9_-]`, at most 64 characters.
const IDS: IdRule = IdRule::word(64);

/// A unit that cannot be said, because it holds a picture by its address, or one of a kind that is not taken.
const BY_ADDRESS: u32 = u32::MAX - 1;
const OF_OTHER_KIND: u32 = u32::MAX - 2;

const USER: &[u8] = br#"{"role":"user","content":["#;
const ASSISTANT: &[u8] = br#"{"role":"assistant","content":["#;

/// How a block of text begins.
const TEXT: &[u8] = br#"{"text":"#;

/// What stands before a conversation that begins with a reply, which the API does not take.
const OPENING: &[u8] =
    br#"{"role":"user","content":[{"text":"[the beginning of the conversation is not shown]"}]}"#;

/// What stands for a picture in a result that failed: Claude takes only text there.
const IMAGE_IN_ERROR: &str = "[image left out: an error can only carry text]";

/// Writes the list of messages; with `marked`, the second-to-last one ends a cacheable prefix (REQ-126, D14).
///
/// # Errors
/// When a picture cannot be sent.
pub(super) fn write(
    out: &mut Vec<u8>,
    request: &StreamConfig,
    family: Family,
    marked: bool,
) -> Result<(), ProviderError> {
    let writer = Writer { rules: Handoff::new(request, IDS), family };
    let reasoning = match family {
        Family::Claude => "signed",
        Family::DeepSeek => "none",
        Family::Nova | Family::Other => "any",
    };
    let key = handoff::wire_key(request, &[reasoning]);
    let mut turns = Turns { out, start: 0, marks: Marks::default(), open: None };
    turns.out.push(b'[');
    turns.start = turns.out.len();
    for unit in request.history.units().filter(|u| Handoff::shows(u)) {
        unit.wire().with(key, || writer.unit(unit), |encoded| turns.push(encoded)).map_err(|why| {
            refuse(&request.model, ErrorKind::Other, why, "give the picture as base64: Content::image")
        })?;
    }
    turns.close();
    if let Some(at) = turns.marks.before_last().filter(|_| marked) {
        turns.out.splice(at..at, CACHE_POINT.iter().copied());
    }
    turns.out.push(b']');
    Ok(())
}

/// The messages so far. The API wants the roles to take turns, so what comes from the same side is one message.
struct Turns<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    marks: Marks,
    /// The last message's role, and where a cache point may go in it. It is not counted yet: more may come.
    open: Option<(&'static [u8], Option<usize>)>,
}

impl Turns<'_> {
    fn push(&mut self, unit: &Encoded) -> Result<(), &'static str> {
        match unit.marks() {
            [BY_ADDRESS] => return Err("Bedrock takes no picture by its address"),
            [OF_OTHER_KIND] => return Err("Bedrock takes pictures as png, jpeg, gif and webp only"),
            _ => {}
        }
        let bytes = unit.bytes();
        let Some(first) = role(bytes) else { return Ok(()) };
        if self.out.len() == self.start && first == ASSISTANT {
            self.out.extend_from_slice(OPENING);
            self.open = Some((USER, None));
        }
        let joined = self.open.is_some_and(|(role, _)| role == first);
        let skipped = if joined {
            // Without the end of the one and the beginning of the other.
            self.out.truncate(self.out.len().saturating_sub(2));
            first.len()
        } else {
            0
        };
        if self.out.len() > self.start {
            self.out.push(b',');
        }
        let base = self.out.len();
        self.out.extend_from_slice(bytes.get(skipped..).unwrap_or_default());
        let place = |mark: u32| (mark != NO_MARK).then(|| (base + mark as usize).saturating_sub(skipped));
        let mut side = first;
        for (n, mark) in unit.marks().iter().enumerate() {
            let mark = place(*mark);
            if n == 0 && joined {
                let before = self.open.and_then(|(_, mark)| mark);
                self.open = Some((side, mark.or(before)));
            } else {
                self.close();
                self.open = Some((side, mark));
            }
            // A unit is a user's message, or a reply and the results of its calls.
            side = USER;
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some((_, mark)) = self.open.take() {
            self.marks.push(mark);
        }
    }
}

/// How a unit begins; `None` for one of nothing.
fn role(bytes: &[u8]) -> Option<&'static [u8]> {
    [USER, ASSISTANT].into_iter().find(|head| bytes.starts_with(head))
}

struct Writer<'r> {
    rules: Handoff<'r>,
    family: Family,
}

impl Writer<'_> {
    fn unit(&self, unit: &Unit) -> Encoded {
        let mut blocks = Blocks::new(TEXT, Mark::Behind);
        match unit.first().and_then(AgentMessage::as_llm) {
            Some(Message::User(message)) => self.user(&mut blocks, message),
            Some(Message::Assistant(reply)) => {
                self.reply(&mut blocks, reply);
                self.results(&mut blocks, unit.results());
            }
            _ => {}
        }
        let shown = unit.entries().iter().filter_map(|e| e.message().as_llm()).flat_map(|m| match m {
            Message::User(message) => message.content.as_slice(),
            Message::ToolResult(result) if !result.is_error => &result.content,
            _ => &[],
        });
        match shown.filter_map(|c| self.unsayable(c)).next() {
            Some(why) => Encoded::new([], [why]),
            None => Encoded::new(blocks.out, blocks.marks),
        }
    }

    /// Why a block cannot be said.
    fn unsayable(&self, content: &Content) -> Option<u32> {
        let Content::Image(image) = content else { return None };
        if self.rules.image(image) != ImageOut::Keep {
            return None;
        }
        match image {
            ImageContent::Base64 { mime_type, .. } if format(mime_type).is_some() => None,
            ImageContent::Base64 { .. } => Some(OF_OTHER_KIND),
            _ => Some(BY_ADDRESS),
        }
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
        let signature = thinking.signature.as_deref().filter(|s| !s.is_empty());
        // Claude refuses reasoning without its signature, DeepSeek any; others have no signatures.
        let taken = match self.family {
            Family::Claude => signature.is_some(),
            Family::DeepSeek => false,
            Family::Nova | Family::Other => true,
        };
        match self.rules.thinking(reply, thinking) {
            ThinkingOut::Keep if taken => blocks.block(Marked::Thinking, |out| {
                let mut block = Members::open(out);
                let mut content = Members::open(block.key("reasoningContent"));
                if thinking.redacted {
                    content.field("redactedContent", signature.unwrap_or_default());
                } else {
                    let mut text = Members::open(content.key("reasoningText"));
                    text.field("text", &thinking.thinking);
                    if let Some(signature) = signature {
                        text.field("signature", signature);
                    }
                    text.close();
                }
                content.close();
                block.close();
            }),
            ThinkingOut::AsText(text) => blocks.text(Some(&text)),
            ThinkingOut::Keep | ThinkingOut::Drop => {}
        }
    }

    fn call(&self, out: &mut Vec<u8>, call: &ToolCall) {
        let mut block = Members::open(out);
        let mut tool = Members::open(block.key("toolUse"));
        tool.field("toolUseId", &self.rules.call_id(&call.id)).field("name", &handoff::tool_name(call));
        // The API takes an object only. Whatever else a model sent was answered with an error that shows it.
        let input = if call.arguments.is_object() { call.arguments.json_text() } else { "{}" };
        tool.key("input").extend_from_slice(input.as_bytes());
        tool.close();
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
        let mut inner = Blocks::new(TEXT, Mark::Behind);
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
        let mut tool = Members::open(block.key("toolResult"));
        tool.field("toolUseId", &self.rules.call_id(&result.tool_call_id));
        let content = tool.key("content");
        content.push(b'[');
        content.extend_from_slice(&inner.out);
        content.push(b']');
        tool.field("status", if result.is_error { "error" } else { "success" });
        tool.close();
        block.close();
    }
}

fn write_image(out: &mut Vec<u8>, image: &ImageContent) {
    let ImageContent::Base64 { data, mime_type } = image else { return };
    let mut block = Members::open(out);
    let mut picture = Members::open(block.key("image"));
    picture.field("format", format(mime_type).unwrap_or_default());
    let mut source = Members::open(picture.key("source"));
    source.field("bytes", data);
    source.close();
    picture.close();
    block.close();
}

/// The API's word for a kind of picture.
fn format(mime_type: &str) -> Option<&'static str> {
    match mime_type.trim().to_ascii_lowercase().as_str() {
        "image/png" => Some("png"),
        "image/jpeg" | "image/jpg" => Some("jpeg"),
        "image/gif" => Some("gif"),
        "image/webp" => Some("webp"),
        _ => None,
    }
}
