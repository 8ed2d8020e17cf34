//! Encodes one unit of the history as messages, separated by commas. The bytes depend only on the unit and its cache
//! key.

use std::borrow::Cow;

use agent_core::{
    AgentMessage, AssistantMessage, Content, DocumentContent, Encoded, FileSource, ImageContent, Message,
    ModelRequest, ToolCall, ToolCallId, Unit, UserMessage,
};

use super::super::calls::CUSTOM;
use super::super::dialect::{Dialect, Ids, Replay};
use super::super::wire::REASONING_FIELDS;
use crate::handoff::{
    FILES_FROM_TOOLS, Handoff, IdRule, ImageOut, ThinkingOut, data_url, file_text, fits, image_address, text,
    tool_name,
};
use crate::json::{Members, write};

/// The text before images from tool results. They are sent in a user message, because a tool message cannot hold images.
const FROM_TOOLS: &str = "The pictures that the tools above returned:";

pub(super) struct UnitEncoder<'r> {
    dialect: &'r Dialect,
    handoff: Handoff<'r>,
    /// Whether texts of the user and of tools are written as parts, which a breakpoint of the cache can end.
    breakpoints: bool,
}

/// The bytes around the text of a message.
const FRAME_BYTES: usize = 128;

/// The maximum number of bytes that are reserved according to an estimate.
const MAX_RESERVED: usize = 1 << 20;

struct Out {
    bytes: Vec<u8>,
    marks: Vec<u32>,
}

impl Out {
    fn message(&mut self) -> Members<'_> {
        if !self.bytes.is_empty() {
            self.bytes.push(b',');
        }
        self.marks.push(Encoded::NO_MARK);
        Members::open(&mut self.bytes)
    }

    /// The position before the brackets `}]}` that end the last message, if its content is a list of parts.
    fn mark_last_part(&mut self) {
        let at = u32::try_from(self.bytes.len().saturating_sub(3)).unwrap_or(Encoded::NO_MARK);
        if let Some(mark) = self.marks.last_mut() {
            *mark = at;
        }
    }
}

/// Estimates the size of a unit in bytes: a token has about four bytes of text.
fn reserved(unit: &Unit) -> usize {
    let tokens: u64 = unit.entries().iter().map(agent_core::Entry::tokens).sum();
    usize::try_from(tokens).map_or(0, |tokens| tokens.saturating_mul(4)).min(MAX_RESERVED) + FRAME_BYTES
}

/// A part of a user message.
enum Part<'c> {
    Text(Cow<'c, str>),
    Image(&'c ImageContent),
    Document(&'c DocumentContent),
    Sound { data: &'c str, format: &'static str },
}

impl<'r> UnitEncoder<'r> {
    pub(super) fn new(request: &'r ModelRequest, dialect: &'r Dialect) -> Self {
        let rule = match dialect.ids {
            Ids::Word(max) => IdRule::word(max),
            Ids::NineAlphanumeric => IdRule::word(64),
        };
        let breakpoints = super::places_breakpoints(request);
        Self { dialect, handoff: Handoff::new(request, rule), breakpoints }
    }

    pub(super) fn encode(&self, unit: &Unit) -> Encoded {
        let mut out = Out {
            bytes: Vec::with_capacity(reserved(unit)),
            marks: Vec::with_capacity(unit.entries().len()),
        };
        match unit.first().and_then(AgentMessage::as_llm) {
            Some(Message::User(message)) => self.user(&mut out, message),
            Some(Message::Assistant(reply)) => {
                self.reply(&mut out, reply);
                self.results(&mut out, reply, unit);
            }
            Some(_) | None => {}
        }
        Encoded::new(out.bytes, out.marks)
    }

    fn user(&self, out: &mut Out, message: &UserMessage) {
        let parts: Vec<Part<'_>> = message.content.iter().filter_map(|c| self.part(c)).collect();
        self.user_parts(out, &parts);
    }

    fn part<'c>(&self, content: &'c Content) -> Option<Part<'c>> {
        match content {
            Content::Text(block) => text(block).map(|t| Part::Text(Cow::Borrowed(t))),
            Content::Image(image) => Some(match self.handoff.image(image) {
                ImageOut::Keep => Part::Image(image),
                ImageOut::Text(instead) => Part::Text(instead),
            }),
            Content::Document(document) if self.dialect.files && takes(&document.source) => {
                Some(Part::Document(document))
            }
            other => match sound(other).filter(|_| self.dialect.files) {
                Some(sound) => Some(sound),
                None => file_text(other).map(Part::Text),
            },
        }
    }

    fn user_parts(&self, out: &mut Out, parts: &[Part<'_>]) {
        let Some(last) = parts.last() else { return };
        let mut message = out.message();
        message.field("role", "user");
        if let [Part::Text(text)] = parts
            && !self.dialect.cache_markers
            && !self.breakpoints
        {
            message.field("content", &**text);
            message.close();
            return;
        }
        let list = message.key("content");
        list.push(b'[');
        for (n, part) in parts.iter().enumerate() {
            if n > 0 {
                list.push(b',');
            }
            let mut object = Members::open(list);
            match part {
                Part::Text(text) => {
                    object.field("type", "text").field("text", &**text);
                }
                Part::Image(image) => {
                    object.field("type", "image_url");
                    let mut url = Members::open(object.key("image_url"));
                    url.field("url", &*image_address(image));
                    url.close();
                }
                Part::Document(document) => write_document(&mut object, document),
                Part::Sound { data, format } => {
                    object.field("type", "input_audio");
                    let mut audio = Members::open(object.key("input_audio"));
                    audio.field("data", *data).field("format", *format);
                    audio.close();
                }
            }
            object.close();
        }
        list.push(b']');
        message.close();
        if matches!(last, Part::Text(_)) {
            out.mark_last_part();
        }
    }

    fn reply(&self, out: &mut Out, reply: &AssistantMessage) {
        let mut said = String::new();
        let mut thought: Option<(&str, String)> = None;
        let mut details: Option<&serde_json::Value> = None;
        for block in &reply.content {
            match block {
                Content::Text(block) => said.push_str(&block.text),
                Content::Thinking(block) => match self.handoff.thinking(reply, block) {
                    ThinkingOut::Keep => {
                        if let Some(field) = self.replay_field(block.signature.as_deref()) {
                            thought.get_or_insert_with(|| (field, String::new())).1.push_str(&block.thinking);
                        }
                    }
                    ThinkingOut::AsText(text) => {
                        said.push_str(&text);
                        said.push_str("\n\n");
                    }
                    ThinkingOut::Drop => {}
                },
                Content::Opaque(block) if block.kind == super::super::wire::REASONING_DETAILS => {
                    details = self.handoff.opaque(reply, block).or(details);
                }
                _ => {}
            }
        }
        let calls: Vec<&ToolCall> = reply.tool_calls().collect();
        if said.trim().is_empty() && calls.is_empty() {
            return;
        }
        let mut message = out.message();
        message.field("role", "assistant");
        if said.trim().is_empty() {
            message.field("content", &());
        } else {
            message.field("content", &said);
        }
        if let Some(details) = details {
            message.field("reasoning_details", details);
        } else if let Some((field, text)) = thought.filter(|(_, t)| !t.is_empty()) {
            message.field(field, &text);
        }
        if !calls.is_empty() {
            let list = message.key("tool_calls");
            list.push(b'[');
            for (n, call) in calls.into_iter().enumerate() {
                if n > 0 {
                    list.push(b',');
                }
                self.call(list, reply, call);
            }
            list.push(b']');
        }
        message.close();
    }

    /// Returns the field in which thinking is sent back. Its signature is the name of the field in which it was
    /// received.
    fn replay_field(&self, signature: Option<&str>) -> Option<&'static str> {
        match self.dialect.replay {
            Replay::Omit => None,
            Replay::Field(field) => Some(field),
            Replay::AsReceived => {
                signature.and_then(|name| REASONING_FIELDS.iter().copied().find(|field| *field == name))
            }
        }
    }

    fn call(&self, out: &mut Vec<u8>, reply: &AssistantMessage, call: &ToolCall) {
        let signature = self.handoff.signature(reply, call.signature.as_deref());
        let mut object = Members::open(out);
        object.field("id", &*self.call_id(reply, &call.id));
        if signature == Some(CUSTOM) {
            object.field("type", "custom");
            let mut custom = Members::open(object.key("custom"));
            custom.field("name", &tool_name(call.name.as_str())).field("input", call.arguments.text());
            custom.close();
            object.close();
            return;
        }
        object.field("type", "function");
        let mut function = Members::open(object.key("function"));
        function.field("name", &tool_name(call.name.as_str()));
        // Servers accept only objects. The result of a call with other arguments is an error that quotes them.
        let arguments = call.arguments.object_text();
        function.field("arguments", arguments);
        function.close();
        if let Some(signature) = signature {
            let extra = object.key("extra_content");
            extra.extend_from_slice(br#"{"google":{"thought_signature":"#);
            write(extra, signature);
            extra.extend_from_slice(b"}}");
        }
        object.close();
    }

    fn results(&self, out: &mut Out, reply: &AssistantMessage, unit: &Unit) {
        let mut pictures: Vec<Part<'_>> = Vec::new();
        for result in unit.results() {
            let mut said = String::new();
            for content in &result.content {
                match self.part(content) {
                    Some(Part::Text(text)) => {
                        if !said.is_empty() {
                            said.push('\n');
                        }
                        said.push_str(&text);
                    }
                    Some(other) => pictures.push(other),
                    None => {}
                }
            }
            if said.is_empty() {
                said.push_str(self.handoff.result_note(&result.content).unwrap_or_default());
            }
            let mut message = out.message();
            message.field("role", "tool").field("tool_call_id", &*self.call_id(reply, &result.tool_call_id));
            if self.dialect.tool_result_name {
                message.field("name", &tool_name(result.tool_name.as_str()));
            }
            if self.breakpoints {
                let parts = message.key("content");
                parts.push(b'[');
                let mut part = Members::open(parts);
                part.field("type", "text").field("text", &said);
                part.close();
                parts.push(b']');
                message.close();
                out.mark_last_part();
            } else {
                message.field("content", &said);
                message.close();
            }
        }
        if !pictures.is_empty() {
            let all = pictures.iter().all(|part| matches!(part, Part::Image(_)));
            let head = if all { FROM_TOOLS } else { FILES_FROM_TOOLS };
            pictures.insert(0, Part::Text(Cow::Borrowed(head)));
            self.user_parts(out, &pictures);
        }
    }

    fn call_id<'i>(&self, reply: &AssistantMessage, id: &'i ToolCallId) -> Cow<'i, str> {
        match self.dialect.ids {
            Ids::NineAlphanumeric if !self.handoff.is_own_id(reply, id) => nine(id.as_str()),
            Ids::Word(_) | Ids::NineAlphanumeric => self.handoff.call_id(reply, id),
        }
    }
}

/// Returns whether the API takes a document. A text is sent as text.
fn takes(source: &FileSource) -> bool {
    matches!(source, FileSource::Base64 { .. } | FileSource::Uploaded { .. }) && fits(source)
}

fn write_document(object: &mut Members<'_>, document: &DocumentContent) {
    object.field("type", "file");
    let mut file = Members::open(object.key("file"));
    match &document.source {
        FileSource::Base64 { data, mime_type } => {
            let title = document.title.as_deref().unwrap_or("document");
            file.field("filename", title).field("file_data", &data_url(mime_type, data));
        }
        FileSource::Uploaded { file_id } => {
            file.field("file_id", file_id);
        }
        _ => {}
    }
    file.close();
}

/// Returns a sound in one of the two forms that the API takes.
fn sound(content: &Content) -> Option<Part<'_>> {
    let Content::Audio(media) = content else { return None };
    let FileSource::Base64 { data, mime_type } = &media.source else { return None };
    let format = match mime_type.trim().to_ascii_lowercase().as_str() {
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        _ => return None,
    };
    Some(Part::Sound { data, format })
}

/// Returns an id of nine letters and digits: the id itself if it has this form, otherwise a hash of it.
fn nine(id: &str) -> Cow<'_, str> {
    const LEN: usize = 9;
    const DIGITS: u64 = 36;
    if id.len() == LEN && id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^= hash >> 32;
    let mut out = String::with_capacity(LEN);
    for _ in 0..LEN {
        let digit = u32::try_from(hash % DIGITS).unwrap_or_default();
        out.push(char::from_digit(digit, 36).unwrap_or('0'));
        hash /= DIGITS;
    }
    Cow::Owned(out)
}
