//! Writes the conversation. Each unit of history is encoded once, with the offset of a possible cache marker in each of
//! its messages.

use std::collections::BTreeSet;

use agent_core::provider::RecordedTool;
use agent_core::{
    Citation, Citing, Content, DocumentContent, Encoded, FileSource, History, ImageContent, ModelRequest,
    SearchResultContent, StopReason, ThinkingContent, Unit, UnitKind, WireKey,
};
use serde_json::Value;

use super::SCHEMA;
use crate::anthropic::config::is_vendor;
use crate::anthropic::server_tools::Plan;
use crate::anthropic::{extras, search};
use crate::claude::changes::{self, Change, Places};
use crate::claude::turns::Mark;
use crate::claude::writer::{self, ASSISTANT, Part, Writer};
use crate::handoff::{self, Handoff};
use crate::json::{self, Members};
use crate::marks::Marks;
use crate::pictures;
use crate::tool_schema;

/// The media type of the documents that the API takes as data.
const PDF: &str = "application/pdf";

/// The message inserted before a conversation that begins with a reply, which the API rejects.
const OPENING: &[u8] = br#"{"role":"user","content":[{"type":"text","text":"[the beginning of the conversation is not shown]"}]}"#;

/// Writes the list of messages with these changes of the instructions among them. The cache marker in the second-to-last
/// message of a user or the model ends the cacheable prefix.
pub(super) fn write(
    out: &mut Vec<u8>,
    request: &ModelRequest,
    changes: &[Change<'_>],
    marker: Option<&'static [u8]>,
) {
    let keeps_unsigned = !is_vendor(&request.model);
    let known = search::known_tools(request);
    let is_partial = known.is_some() || has_abandoned(&request.history);
    let writer = Writer::new(request, Form { keeps_unsigned, known });
    let key = handoff::wire_key(request, &[if keeps_unsigned { "unsigned" } else { "signed" }]);
    let mut marks = Marks::default();
    out.push(b'[');
    let start = out.len();
    let mut read = |form: &Encoded| append(out, start, form, &mut marks);
    if !changes.is_empty() {
        write_changed(out, request, changes, (&writer, key), &mut marks);
    } else if is_partial {
        each_part(&request.history, |_, unit, part| {
            let form = writer.part(unit, part).encoded();
            if !form.bytes().is_empty() {
                read(&form);
            }
        });
    } else {
        Handoff::each_form(&request.history, key, |unit| writer.unit(unit).encoded(), read);
    }
    if let Some((at, marker)) = marks.before_last().zip(marker) {
        out.splice(at..at, marker.iter().copied());
    }
    out.push(b']');
}

/// Writes the conversation with changes of the instructions among its messages.
fn write_changed(
    out: &mut Vec<u8>,
    request: &ModelRequest,
    changes: &[Change<'_>],
    (writer, key): (&Writer<'_, Form<'_>>, WireKey),
    marks: &mut Marks,
) {
    let plan = Plan::of(request);
    let start = out.len();
    let mut places = Places::new(changes);
    let mut follows_user = false;
    let system = |out: &mut Vec<u8>, due: &[&Change<'_>]| {
        if !due.is_empty() {
            out.push(b',');
            write_system(out, due, &plan);
        }
    };
    each_part(&request.history, |at, unit, part| {
        places.reach(at);
        let is_reply = unit.reply().is_some();
        if is_reply {
            system(out, &places.take(follows_user));
        }
        let mut read = |form: &Encoded| {
            if !form.bytes().is_empty() {
                append(out, start, form, marks);
                follows_user = !is_reply || unit.kind() == UnitKind::Exchange;
            }
        };
        match part {
            Part::Whole => unit.wire().with(key, || writer.unit(unit).encoded(), read),
            Part::WithoutOpenCalls => read(&writer.part(unit, part).encoded()),
        }
    });
    places.reach(usize::MAX);
    system(out, &places.take(follows_user));
}

/// Appends a message to the list that begins at `start`, and the places for its cache marker.
fn append(out: &mut Vec<u8>, start: usize, form: &Encoded, marks: &mut Marks) {
    if out.len() > start {
        out.push(b',');
    } else if form.bytes().starts_with(ASSISTANT) {
        out.extend_from_slice(OPENING);
        out.push(b',');
    }
    let base = out.len();
    out.extend_from_slice(form.bytes());
    marks.extend(form, base);
}

/// Writes a message of the system with these changes.
fn write_system(out: &mut Vec<u8>, due: &[&Change<'_>], plan: &Plan<'_>) {
    let added = |out: &mut Vec<u8>, tool: &RecordedTool<'_>| {
        out.extend_from_slice(br#"{"type":"tool_addition","tool":{"type":"tool_definition","definition":"#);
        tool_schema::write_declaration(out, tool.name, tool.description, SCHEMA, tool.parameters);
        plan.write_callers(out, tool.callers);
        out.extend_from_slice(b"}}");
    };
    let removed = |out: &mut Vec<u8>, name: &str| {
        out.extend_from_slice(br#"{"type":"tool_removal","tool":{"type":"tool_reference","name":"#);
        json::write(out, name);
        out.extend_from_slice(b"}}");
    };
    changes::write(out, due, br#"{"type":"text","text":"#, added, removed);
}

/// Calls `read` with the position of each unit that is sent, the unit, and the part of it that is sent.
fn each_part<'h>(history: &'h History, mut read: impl FnMut(usize, &'h Unit, Part)) {
    let mut units = history.units().enumerate().filter(|(_, unit)| Handoff::shows(unit)).peekable();
    while let Some((at, unit)) = units.next() {
        let is_paused = unit.reply().is_some_and(|reply| reply.stop_reason == StopReason::Paused);
        let is_abandoned = is_paused && units.peek().is_some_and(|(_, next)| next.reply().is_none());
        read(at, unit, if is_abandoned { Part::WithoutOpenCalls } else { Part::Whole });
    }
}

/// Returns whether the user spoke after a reply that the vendor had paused. The API refuses calls of its own tools without
/// results, except in the last message.
fn has_abandoned(history: &History) -> bool {
    let mut is_any = false;
    each_part(history, |_, _, part| is_any |= part == Part::WithoutOpenCalls);
    is_any
}

/// The vendor's blocks.
struct Form<'r> {
    /// Whether thinking without a signature is sent back: the vendor refuses it, others who speak its protocol have
    /// no signatures and want it.
    keeps_unsigned: bool,
    /// The tools of the request, if results of searches refer to others.
    known: Option<BTreeSet<&'r str>>,
}

impl writer::Form for Form<'_> {
    const TEXT: &'static [u8] = br#"{"type":"text","text":"#;
    /// A marker is a member of the block that it ends.
    const MARK: Mark = Mark::Inside;

    fn image(&self, out: &mut Vec<u8>, image: &ImageContent) {
        write_image(out, image);
    }

    fn takes_file(&self, file: &Content, _place: writer::Place) -> bool {
        match file {
            Content::Document(document) => match &document.source {
                FileSource::Base64 { mime_type, .. } => mime_type == PDF && handoff::fits(&document.source),
                FileSource::Url { mime_type, .. } => mime_type.as_deref().is_none_or(|kind| kind == PDF),
                FileSource::Text { .. } | FileSource::Uploaded { .. } => true,
                _ => false,
            },
            Content::SearchResult(_) => true,
            _ => false,
        }
    }

    fn file(&self, out: &mut Vec<u8>, file: &Content) {
        match file {
            Content::Document(document) => write_document(out, document),
            Content::SearchResult(result) => write_search_result(out, result),
            _ => {}
        }
    }

    fn cites(&self) -> bool {
        true
    }

    fn cited(&self, out: &mut Vec<u8>, text: &str, citations: &[Citation]) {
        let known: Vec<_> = citations.iter().map(|c| &c.data).filter(|data| data.is_object()).collect();
        let mut block = Members::open(out);
        block.field("type", "text").field("text", text).field("citations", &known);
        block.close();
    }

    fn takes(&self, thinking: &ThinkingContent) -> bool {
        let signed = thinking.signature.as_ref().is_some_and(|s| !s.is_empty());
        thinking.redacted || signed || self.keeps_unsigned
    }

    fn thinking(&self, out: &mut Vec<u8>, thinking: &ThinkingContent) {
        let signature = thinking.signature.as_deref().unwrap_or_default();
        let mut block = Members::open(out);
        if thinking.redacted {
            block.field("type", "redacted_thinking").field("data", signature);
        } else {
            block
                .field("type", "thinking")
                .field("thinking", &thinking.thinking)
                .field("signature", signature);
        }
        block.close();
    }

    fn is_content(&self, kind: &str) -> bool {
        kind != extras::CONTAINER
    }

    fn opaque(&self, out: &mut Vec<u8>, data: &Value) {
        match self.known.as_ref().and_then(|known| search::with_known(data, known)) {
            Some(block) => json::write(out, &block),
            None => json::write(out, data),
        }
    }

    fn call(&self, out: &mut Vec<u8>, id: &str, name: &str, input: &str, mark: Option<&str>) {
        let mut block = Members::open(out);
        block.field("type", "tool_use").field("id", id).field("name", name);
        block.key("input").extend_from_slice(input.as_bytes());
        for (name, value) in mark.map(extras::read).unwrap_or_default() {
            block.named(&name, &value);
        }
        block.close();
    }

    fn result(&self, out: &mut Vec<u8>, id: &str, content: &[u8], is_error: bool) {
        let mut block = Members::open(out);
        block.field("type", "tool_result").field("tool_use_id", id);
        if is_error {
            block.field("is_error", &true);
        }
        write_list(block.key("content"), content);
        block.close();
    }
}

fn write_document(out: &mut Vec<u8>, document: &DocumentContent) {
    let mut block = Members::open(out);
    block.field("type", "document");
    let mut source = Members::open(block.key("source"));
    match &document.source {
        FileSource::Base64 { data, mime_type } => {
            source.field("type", "base64").field("media_type", mime_type).field("data", data);
        }
        FileSource::Text { text } => {
            source.field("type", "text").field("media_type", "text/plain").field("data", text);
        }
        FileSource::Url { url, .. } => {
            source.field("type", "url").field("url", url);
        }
        FileSource::Uploaded { file_id } => {
            source.field("type", "file").field("file_id", file_id);
        }
        _ => {}
    }
    source.close();
    if let Some(title) = &document.title {
        block.field("title", title);
    }
    if let Some(context) = &document.context {
        block.field("context", context);
    }
    write_citing(&mut block, document.citing);
    block.close();
}

fn write_search_result(out: &mut Vec<u8>, result: &SearchResultContent) {
    let mut block = Members::open(out);
    block.field("type", "search_result").field("source", &result.source).field("title", &result.title);
    let mut parts = Vec::new();
    for part in &result.parts {
        if !parts.is_empty() {
            parts.push(b',');
        }
        let mut block = Members::open(&mut parts);
        block.field("type", "text").field("text", part);
        block.close();
    }
    write_list(block.key("content"), &parts);
    write_citing(&mut block, result.citing);
    block.close();
}

fn write_citing(block: &mut Members<'_>, citing: Citing) {
    if citing == Citing::On {
        let mut inner = Members::open(block.key("citations"));
        inner.field("enabled", &true);
        inner.close();
    }
}

fn write_list(out: &mut Vec<u8>, items: &[u8]) {
    out.push(b'[');
    out.extend_from_slice(items);
    out.push(b']');
}

fn write_image(out: &mut Vec<u8>, image: &ImageContent) {
    let mut block = Members::open(out);
    block.field("type", "image");
    let mut source = Members::open(block.key("source"));
    match image {
        ImageContent::Base64 { data, mime_type } => {
            let kind = pictures::media_type(data, mime_type);
            source.field("type", "base64").field("media_type", kind).field("data", data);
        }
        ImageContent::Url { url } => {
            source.field("type", "url").field("url", url);
        }
        _ => {}
    }
    source.close();
    block.close();
}
