//! Writes the conversation. Each unit of history is encoded once, as one or several contents.

use agent_core::{
    AgentMessage, ApiProtocol, AssistantMessage, Content, Encoded, FileSource, ImageContent, Message,
    ModelRequest, StopReason, ToolCall, ToolCallId, ToolResultMessage, Unit, UserMessage,
};

use crate::call_ids::Prefix;
use crate::google::computer::{self, Action};
use crate::google::generation::Known;
use crate::google::wire::{ABOUT_REPLY, CONTINUATION};
use crate::handoff::{self, Handoff, IMAGE_NOT_SHOWN, IdRule, ImageOut, ThinkingOut};
use crate::json::{self, Members};
use crate::pictures;

/// The rule for call ids. The vendor's own ids are shorter and simpler.
const IDS: IdRule = IdRule::word(64);

/// The longest function name that is sent back.
const MAX_NAME: usize = 64;

/// The signature that the vendor documents for calls that Gemini 3 did not make. Its signature check accepts it.
const SKIP_CHECK: &str = "skip_thought_signature_validator";

/// The text before images from tool results.
const FROM_TOOLS: &str = "The pictures that the tools above returned:";

const USER: &[u8] = br#"{"role":"user","parts":["#;
const MODEL: &[u8] = br#"{"role":"model","parts":["#;
const CLOSE: &[u8] = b"]}";

/// The content inserted before a conversation that begins with a reply, which the API rejects.
const OPENING: &[u8] =
    br#"{"role":"user","parts":[{"text":"[the beginning of the conversation is not shown]"}]},"#;

/// The mark of a unit whose last content is the model's.
const ENDS_WITH_MODEL: u32 = 1;

/// The text that replaces an image whose address does not show its type, for an API that requires the type.
const TYPE_UNKNOWN: &str = "[image left out: its address does not show its type]";

/// A reply that the request continues.
#[derive(Debug, Clone, Copy)]
pub(super) struct Continued<'r> {
    /// The number of units at the end of the history that the reply consists of. They are not sent.
    pub(super) units: usize,
    /// The token that the API sent with the reply.
    pub(super) token: &'r str,
}

/// Returns the reply that the request continues, if the model of the request paused the last one. The API continues it when
/// it receives the same contents again with the token.
pub(super) fn continued(request: &ModelRequest) -> Option<Continued<'_>> {
    let paused = request.continued_reply()?;
    let token = paused.content.iter().find_map(|block| match block {
        Content::Opaque(opaque) if opaque.kind == CONTINUATION => opaque.data.as_str(),
        _ => None,
    })?;
    let is_paused = |unit: &Unit| unit.reply().is_some_and(|r| r.stop_reason == StopReason::Paused);
    let shown = request.history.units().filter(|u| Handoff::shows(u));
    let units = shown.fold(0, |units, unit| if is_paused(unit) { units + 1 } else { 0 });
    Some(Continued { units, token })
}

/// Writes the list of contents, without `left_out` units at its end.
pub(super) fn write(out: &mut Vec<u8>, request: &ModelRequest, left_out: usize, known: Known) {
    let door = match request.model.api {
        ApiProtocol::GoogleVertex => Door::Vertex,
        _ => Door::Gemini,
    };
    let is_computer = computer::is_in(request);
    let writer = Writer { rules: Handoff::new(request, IDS), known, door, is_computer };
    let key = handoff::wire_key(request, &["google contents", if is_computer { "computer" } else { "" }]);
    out.push(b'[');
    let start = out.len();
    let mut after_model = false;
    let shown = || request.history.units().filter(|u| Handoff::shows(u));
    let sent = if left_out == 0 { usize::MAX } else { shown().count().saturating_sub(left_out) };
    for unit in shown().take(sent) {
        unit.wire().with(
            key,
            || writer.unit(unit),
            |encoded| {
                let mut bytes = encoded.bytes();
                if bytes.is_empty() {
                    return;
                }
                if out.len() == start && bytes.starts_with(MODEL) {
                    out.extend_from_slice(OPENING);
                } else if let Some(parts) = bytes.strip_prefix(MODEL).filter(|_| after_model) {
                    // A call must follow the user's turn directly, so consecutive replies are joined.
                    out.truncate(out.len().saturating_sub(CLOSE.len()));
                    out.push(b',');
                    bytes = parts;
                } else if out.len() > start {
                    out.push(b',');
                }
                out.extend_from_slice(bytes);
                after_model = encoded.marks().contains(&ENDS_WITH_MODEL);
            },
        );
    }
    out.push(b']');
}

struct Writer<'r> {
    rules: Handoff<'r>,
    known: Known,
    door: Door,
    /// Whether calls of `computer` are sent as the vendor's actions.
    is_computer: bool,
}

/// The API that receives the request. The two differ in few details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Gemini,
    /// It requires the media type of an image that is referenced by address. Some of its versions do not accept call ids, so
    /// an id is returned only if the API sent it.
    Vertex,
}

/// The contents that have been written.
#[derive(Debug, Default)]
struct Out {
    bytes: Vec<u8>,
    /// The positions of the open content and of its first part.
    content: usize,
    first: usize,
}

impl Out {
    fn open(&mut self, head: &[u8]) {
        self.content = self.bytes.len();
        if !self.bytes.is_empty() {
            self.bytes.push(b',');
        }
        self.bytes.extend_from_slice(head);
        self.first = self.bytes.len();
    }

    fn part(&mut self, write: impl FnOnce(&mut Members<'_>)) {
        if self.bytes.len() > self.first {
            self.bytes.push(b',');
        }
        let mut part = Members::open(&mut self.bytes);
        write(&mut part);
        part.close();
    }

    fn text(&mut self, text: Option<&str>) {
        if let Some(text) = text {
            self.part(|part| {
                part.field("text", text);
            });
        }
    }

    /// Ends the content and removes it if it has no part. Returns whether it has one.
    fn close(&mut self) -> bool {
        let is_one = self.bytes.len() > self.first;
        if is_one {
            self.bytes.extend_from_slice(CLOSE);
        } else {
            self.bytes.truncate(self.content);
        }
        is_one
    }
}

impl Writer<'_> {
    fn unit(&self, unit: &Unit) -> Encoded {
        let mut out = Out::default();
        let mut ends_with_model = false;
        match unit.first().and_then(AgentMessage::as_llm) {
            Some(Message::User(message)) => self.user(&mut out, message),
            Some(Message::Assistant(reply)) => {
                ends_with_model = self.reply(&mut out, reply);
                ends_with_model &= !self.results(&mut out, reply, unit);
            }
            Some(_) | None => {}
        }
        Encoded::new(out.bytes, if ends_with_model { vec![ENDS_WITH_MODEL] } else { Vec::new() })
    }

    fn user(&self, out: &mut Out, message: &UserMessage) {
        out.open(USER);
        for content in &message.content {
            match content {
                Content::Text(text) => out.text(handoff::text(text)),
                Content::Image(image) => match self.rules.image(image) {
                    ImageOut::Keep => self.picture(out, image),
                    ImageOut::Text(text) => out.text(Some(&text)),
                },
                other => self.file(out, other),
            }
        }
        out.close();
    }

    /// Writes a document or a recording. The API takes files of any type; what a model does not read, it refuses.
    fn file(&self, out: &mut Out, content: &Content) {
        let source = match content {
            Content::Document(document) => &document.source,
            Content::Audio(media) | Content::Video(media) => &media.source,
            other => return out.text(handoff::file_text(other).as_deref()),
        };
        match source {
            FileSource::Base64 { data, mime_type } if handoff::fits(source) => {
                out.part(|part| write_inline(part, mime_type, data));
            }
            FileSource::Url { url, mime_type }
                if self.takes(mime_type.as_deref().or_else(|| type_of(url))) =>
            {
                self.address(out, url, mime_type.as_deref().or_else(|| type_of(url)));
            }
            FileSource::Uploaded { file_id } if self.takes(None) => self.address(out, file_id, None),
            _ => out.text(handoff::file_text(content).as_deref()),
        }
    }

    /// Returns whether the API takes an address of a file of this type. Vertex AI requires the type.
    fn takes(&self, mime_type: Option<&str>) -> bool {
        mime_type.is_some() || self.door != Door::Vertex
    }

    /// Writes a file that the vendor fetches or stores.
    fn address(&self, out: &mut Out, url: &str, mime_type: Option<&str>) {
        out.part(|part| {
            let mut file = Members::open(part.key("fileData"));
            if let Some(kind) = mime_type {
                file.field("mimeType", kind);
            }
            file.field("fileUri", url);
            file.close();
        });
    }

    fn picture(&self, out: &mut Out, image: &ImageContent) {
        match image {
            ImageContent::Base64 { data, mime_type } => out.part(|part| {
                write_inline(part, pictures::media_type(data, mime_type), data);
            }),
            ImageContent::Url { url } if self.takes(type_of(url)) => self.address(out, url, type_of(url)),
            ImageContent::Url { .. } => out.text(Some(TYPE_UNKNOWN)),
            _ => {}
        }
    }

    fn reply(&self, out: &mut Out, reply: &AssistantMessage) -> bool {
        let mut first_call = true;
        out.open(MODEL);
        for content in &reply.content {
            match content {
                Content::Text(text) => {
                    let signature = self.rules.signature(reply, text.signature.as_deref());
                    // A signature may belong to a part without text. It is sent back as well.
                    if let Some(signature) = signature {
                        out.part(|part| {
                            part.field("text", &text.text).field("thoughtSignature", signature);
                        });
                    } else {
                        out.text(handoff::text(text));
                    }
                }
                Content::Thinking(thinking) => match self.rules.thinking(reply, thinking) {
                    ThinkingOut::Keep => out.part(|part| {
                        part.field("text", &thinking.thinking).field("thought", &true);
                        if let Some(signature) = thinking.signature.as_deref().filter(|s| !s.is_empty()) {
                            part.field("thoughtSignature", signature);
                        }
                    }),
                    ThinkingOut::AsText(text) => out.text(Some(&text)),
                    ThinkingOut::Drop => {}
                },
                Content::ToolCall(call) => {
                    self.call(out, reply, call, std::mem::take(&mut first_call));
                }
                Content::Opaque(opaque) if !ABOUT_REPLY.contains(&opaque.kind.as_str()) => {
                    if let Some(data) = self.rules.opaque(reply, opaque).filter(|d| d.is_object()) {
                        if out.bytes.len() > out.first {
                            out.bytes.push(b',');
                        }
                        json::write(&mut out.bytes, data);
                    }
                }
                Content::Image(_) => out.text(Some(IMAGE_NOT_SHOWN)),
                _ => {}
            }
        }
        out.close()
    }

    fn call(&self, out: &mut Out, reply: &AssistantMessage, call: &ToolCall, first: bool) {
        let own = self.rules.signature(reply, call.signature.as_deref());
        // The vendor signs only the first call of a step. Calls of another model have no signature.
        let needed = self.known.is_third() && (first || !self.rules.same_model(reply));
        let signature = own.or_else(|| needed.then_some(SKIP_CHECK));
        out.part(|part| {
            let mut function = Members::open(part.key("functionCall"));
            self.id(&mut function, reply, &call.id);
            if let Some(action) = self.action(reply, call) {
                function.field("name", &name(action.name)).field("args", &action.arguments);
            } else {
                function.field("name", &name(call.name.as_str()));
                // The API accepts only an object. The result of a call with other arguments is an error that quotes them.
                let args = call.arguments.object_text();
                function.key("args").extend_from_slice(args.as_bytes());
            }
            function.close();
            if let Some(signature) = signature {
                part.field("thoughtSignature", signature);
            }
        });
    }

    /// Returns the action of a call on a computer.
    fn action<'m>(&self, reply: &AssistantMessage, call: &'m ToolCall) -> Option<Action<'m>> {
        computer::of_call(reply, call).filter(|_| self.is_computer)
    }

    /// Writes the id of a call. Omits an id that this crate generated because the server sent none.
    fn id(&self, members: &mut Members<'_>, reply: &AssistantMessage, id: &ToolCallId) {
        let made = Prefix::ALL.iter().any(|prefix| prefix.made(id.as_str()));
        if !made && (self.door == Door::Gemini || self.rules.same_model(reply)) {
            members.field("id", &self.rules.call_id(reply, id));
        }
    }

    /// Writes all results of a reply as one content. Images that a result cannot contain follow in another one. Returns
    /// whether there is a result.
    fn results(&self, out: &mut Out, reply: &AssistantMessage, unit: &Unit) -> bool {
        let mut outside: Vec<&Content> = Vec::new();
        out.open(USER);
        for result in unit.results() {
            self.result(out, reply, result, &mut outside);
        }
        let any = out.close();
        if !outside.is_empty() {
            out.open(USER);
            let pictures = outside.iter().all(|content| matches!(content, Content::Image(_)));
            out.text(Some(if pictures { FROM_TOOLS } else { handoff::FILES_FROM_TOOLS }));
            for content in outside {
                match content {
                    Content::Image(image) => self.picture(out, image),
                    other => self.file(out, other),
                }
            }
            out.close();
        }
        any
    }

    fn result<'m>(
        &self,
        out: &mut Out,
        reply: &AssistantMessage,
        result: &'m ToolResultMessage,
        outside: &mut Vec<&'m Content>,
    ) {
        let call = reply.tool_calls().find(|call| call.id == result.tool_call_id);
        let action = call.and_then(|call| self.action(reply, call));
        let takes_images = self.known.is_third() || action.is_some();
        let mut said = String::new();
        let mut inside: Vec<(&str, &str)> = Vec::new();
        let mut say = |text: &str| {
            if !said.is_empty() {
                said.push('\n');
            }
            said.push_str(text);
        };
        for content in &result.content {
            match content {
                Content::Text(text) => {
                    if let Some(text) = handoff::text(text) {
                        say(text);
                    }
                }
                Content::Image(image) => match (self.rules.image(image), image) {
                    (ImageOut::Text(text), _) => say(&text),
                    (ImageOut::Keep, ImageContent::Base64 { data, mime_type }) if takes_images => {
                        inside.push((pictures::media_type(data, mime_type), data));
                    }
                    (ImageOut::Keep, _) => outside.push(content),
                },
                Content::Document(document) if !matches!(document.source, FileSource::Text { .. }) => {
                    outside.push(content);
                }
                Content::Audio(_) | Content::Video(_) => outside.push(content),
                other => say(&handoff::file_text(other).unwrap_or_default()),
            }
        }
        let shows_screen = action.is_some() && !result.is_error && !inside.is_empty();
        if said.is_empty() && !shows_screen {
            said.push_str(self.rules.result_note(&result.content).unwrap_or_default());
        }
        out.part(|part| {
            let mut function = Members::open(part.key("functionResponse"));
            self.id(&mut function, reply, &result.tool_call_id);
            let called = action.as_ref().map_or(result.tool_name.as_str(), |action| action.name);
            function.field("name", &name(called));
            let mut response = Members::open(function.key("response"));
            match &action {
                Some(action) => action.write_response(&mut response, result, &said),
                None => _ = response.field(if result.is_error { "error" } else { "output" }, &said),
            }
            response.close();
            if !inside.is_empty() {
                let parts = function.key("parts");
                for (n, (mime_type, data)) in inside.into_iter().enumerate() {
                    parts.push(if n == 0 { b'[' } else { b',' });
                    let mut part = Members::open(parts);
                    write_inline(&mut part, mime_type, data);
                    part.close();
                }
                parts.push(b']');
            }
            function.close();
        });
    }
}

fn write_inline(part: &mut Members<'_>, mime_type: &str, data: &str) {
    let mut inline = Members::open(part.key("inlineData"));
    inline.field("mimeType", mime_type).field("data", data);
    inline.close();
}

/// Returns the media type that the extension in an address indicates, as the vendor names it.
fn type_of(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let ending = path.rsplit('/').next()?.rsplit_once('.')?.1.to_ascii_lowercase();
    Some(match ending.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "avif" => "image/avif",
        "bmp" => "image/bmp",
        "pdf" => "application/pdf",
        "txt" => "text/plain",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "md" => "text/markdown",
        "mp3" => "audio/mp3",
        "wav" => "audio/wav",
        "flac" => "audio/flac",
        "ogg" => "audio/ogg",
        "aac" => "audio/aac",
        "mp4" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        "mpeg" | "mpg" => "video/mpeg",
        _ => return None,
    })
}

/// Returns a function name that the API accepts, because another model may have called a function with an invalid name.
/// Call and result get the same name.
fn name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let mut out = String::with_capacity(name.len());
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.push('_');
    }
    out.extend(name.chars().map(|c| if fits(c) { c } else { '_' }));
    out.truncate(MAX_NAME);
    out
}
