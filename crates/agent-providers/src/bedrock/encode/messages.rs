//! Writes the conversation. Each unit of history is encoded once, with the offset of a possible cache point in each of
//! its messages.

use std::cell::Cell;

use agent_core::provider::RecordedTool;
use agent_core::{Citation, Content, Encoded, ImageContent, Message, ModelRequest, ThinkingContent, Unit};

use super::files;
use crate::bedrock::citation;
use crate::bedrock::family::Family;
use crate::claude::changes::{self, Change, Places};
use crate::claude::turns::Mark;
use crate::claude::writer::{self, ASSISTANT, USER, Writer};
use crate::handoff::{self, Handoff};
use crate::json::{self, Members};
use crate::marks::Marks;
use crate::pictures;

/// The message inserted before a conversation that begins with a reply, which the API rejects.
const OPENING: &[u8] =
    br#"{"role":"user","content":[{"text":"[the beginning of the conversation is not shown]"}]}"#;

/// Writes the list of messages with these changes of the instructions among them. The cache point after the second-to-last
/// message of a user or the model ends the cacheable prefix.
pub(super) fn write(
    out: &mut Vec<u8>,
    request: &ModelRequest,
    changes: &[Change<'_>],
    family: Family,
    cache_point: Option<&'static [u8]>,
) {
    let writer = Writer::new(request, Form { family, documents: Cell::new(0) });
    let reasoning = match family {
        Family::Claude => "signed",
        Family::DeepSeek => "none",
        Family::Nova | Family::Other => "any",
    };
    let key = handoff::wire_key(request, &[reasoning]);
    let mut documents = 0;
    let mut turns = Turns { out, start: 0, marks: Marks::default(), open: None };
    turns.out.push(b'[');
    turns.start = turns.out.len();
    let mut places = Places::new(changes);
    for (at, unit) in request.history.units().enumerate() {
        places.reach(at);
        if !Handoff::shows(unit) {
            continue;
        }
        if unit.reply().is_some() {
            turns.system(&mut places);
        }
        let held = count_documents(unit);
        let key = match held {
            0 => key,
            // The names of documents contain their number.
            _ => handoff::wire_key(request, &[reasoning, &documents.to_string()]),
        };
        writer.form().documents.set(documents);
        documents += held;
        unit.wire().with(key, || writer.unit(unit).encoded(), |encoded| turns.push(encoded));
    }
    turns.system(&mut places);
    turns.close();
    if let Some((at, point)) = turns.marks.before_last().zip(cache_point) {
        turns.out.splice(at..at, point.iter().copied());
    }
    turns.out.push(b']');
}

/// The messages so far. The API requires alternating roles, so consecutive content of one role becomes one message.
struct Turns<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    marks: Marks,
    /// The role of the last message and the position for a cache point. The message may still be extended.
    open: Option<(&'static [u8], Option<usize>)>,
}

impl Turns<'_> {
    fn push(&mut self, unit: &Encoded) {
        let bytes = unit.bytes();
        let Some(first) = role(bytes) else { return };
        if self.out.len() == self.start && first == ASSISTANT {
            self.out.extend_from_slice(OPENING);
            self.open = Some((USER, None));
        }
        let joined = self.open.is_some_and(|(role, _)| role == first);
        let skipped = if joined {
            // Removes the end of the previous message; the beginning of this one is skipped.
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
        let place =
            |mark: u32| (mark != Encoded::NO_MARK).then(|| (base + mark as usize).saturating_sub(skipped));
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
            // A unit is a user message, or a reply with the results of its calls.
            side = USER;
        }
    }

    /// Writes the changes that can be written here, as a message of the system. The API accepts one behind a message of the
    /// user only.
    fn system(&mut self, places: &mut Places<'_, '_>) {
        let due = places.take(self.open.is_some_and(|(role, _)| role == USER));
        if due.is_empty() {
            return;
        }
        self.close();
        self.out.push(b',');
        let reference = |out: &mut Vec<u8>, name: &str| {
            json::write(out, name);
            out.extend_from_slice(b"}}}");
        };
        let added = |out: &mut Vec<u8>, tool: &RecordedTool<'_>| {
            out.extend_from_slice(br#"{"toolAddition":{"tool":{"name":"#);
            reference(out, tool.name);
        };
        let removed = |out: &mut Vec<u8>, name: &str| {
            out.extend_from_slice(br#"{"toolRemoval":{"tool":{"name":"#);
            reference(out, name);
        };
        changes::write(self.out, &due, br#"{"text":"#, added, removed);
    }

    fn close(&mut self) {
        if let Some((_, mark)) = self.open.take() {
            self.marks.push(mark);
        }
    }
}

/// Returns the beginning of a unit, or `None` if it is empty.
fn role(bytes: &[u8]) -> Option<&'static [u8]> {
    [USER, ASSISTANT].into_iter().find(|head| bytes.starts_with(head))
}

/// Returns the number of documents in a unit, also of those that the API does not take.
fn count_documents(unit: &Unit) -> usize {
    let messages = unit.entries().iter().filter_map(|entry| entry.message().as_llm());
    messages.flat_map(Message::content).filter(|content| matches!(content, Content::Document(_))).count()
}

/// Writes the vendor's blocks.
struct Form {
    family: Family,
    /// The number of documents before the next one. The API rejects two documents of one name in a request.
    documents: Cell<usize>,
}

impl writer::Form for Form {
    const TEXT: &'static [u8] = br#"{"text":"#;
    /// A cache point is a block of its own.
    const MARK: Mark = Mark::Behind;

    fn image(&self, out: &mut Vec<u8>, image: &ImageContent) {
        write_image(out, image);
    }

    fn takes_file(&self, file: &Content, place: writer::Place) -> bool {
        // A result has no member for sound.
        let fits = place == writer::Place::Message || !matches!(file, Content::Audio(_));
        fits && files::takes(file)
    }

    fn file(&self, out: &mut Vec<u8>, file: &Content) {
        files::write(out, file, self.documents.get());
        if matches!(file, Content::Document(_)) {
            self.documents.set(self.documents.get().saturating_add(1));
        }
    }

    fn cites(&self) -> bool {
        true
    }

    fn cited(&self, out: &mut Vec<u8>, text: &str, citations: &[Citation]) {
        citation::write(out, text, citations);
    }

    /// Claude rejects reasoning without its signature and DeepSeek any reasoning; other models have no signatures.
    fn takes(&self, thinking: &ThinkingContent) -> bool {
        match self.family {
            Family::Claude => thinking.signature.as_ref().is_some_and(|s| !s.is_empty()),
            Family::DeepSeek => false,
            Family::Nova | Family::Other => true,
        }
    }

    fn thinking(&self, out: &mut Vec<u8>, thinking: &ThinkingContent) {
        let signature = thinking.signature.as_deref().filter(|s| !s.is_empty());
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
    }

    fn is_content(&self, _kind: &str) -> bool {
        true
    }

    fn call(&self, out: &mut Vec<u8>, id: &str, name: &str, input: &str, _mark: Option<&str>) {
        let mut block = Members::open(out);
        let mut tool = Members::open(block.key("toolUse"));
        tool.field("toolUseId", id).field("name", name);
        tool.key("input").extend_from_slice(input.as_bytes());
        tool.close();
        block.close();
    }

    fn result(&self, out: &mut Vec<u8>, id: &str, content: &[u8], is_error: bool) {
        let mut block = Members::open(out);
        let mut tool = Members::open(block.key("toolResult"));
        tool.field("toolUseId", id);
        let list = tool.key("content");
        list.push(b'[');
        list.extend_from_slice(content);
        list.push(b']');
        tool.field("status", if is_error { "error" } else { "success" });
        tool.close();
        block.close();
    }
}

fn write_image(out: &mut Vec<u8>, image: &ImageContent) {
    let ImageContent::Base64 { data, mime_type } = image else { return };
    let mut block = Members::open(out);
    let mut picture = Members::open(block.key("image"));
    picture.field("format", format(pictures::media_type(data, mime_type)).unwrap_or_default());
    let mut source = Members::open(picture.key("source"));
    source.field("bytes", data);
    source.close();
    picture.close();
    block.close();
}

/// Returns the API's name for an image type.
fn format(mime_type: &str) -> Option<&'static str> {
    match mime_type.trim().to_ascii_lowercase().as_str() {
        "image/png" => Some("png"),
        "image/jpeg" | "image/jpg" => Some("jpeg"),
        "image/gif" => Some("gif"),
        "image/webp" => Some("webp"),
        _ => None,
    }
}
