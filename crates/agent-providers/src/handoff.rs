//! The rules for sending a reply to a model that did not write it.
//!
//! The same rules apply to every protocol. Thinking and signatures are sent only to the model that created them. The ids of a
//! model's own calls go back to it byte for byte; other ids are rewritten to a form that the target accepts. Images become
//! text for models without image input, and blank text is omitted. Each rule depends only on one unit and the request, so
//! that encoded units can be cached (see [`wire_key`]).
//!
//! Failed units ([`UnitKind::Failed`](agent_core::UnitKind::Failed)) are never sent; see [`Handoff::shows`].

use std::borrow::Cow;

use agent_core::{
    AssistantMessage, Content, Encoded, FileSource, History, ImageContent, ModelRequest, OpaqueContent,
    TextContent, ThinkingContent, ToolCallId, Unit, UnitKind, WireKey,
};

use crate::call_ids;
use crate::pictures;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::files;

/// The text that replaces an image for models without image input.
pub(crate) const IMAGE_NOT_SHOWN: &str = "[image left out: this model reads text only]";

/// The text of a result that contains only images.
pub(crate) const IMAGE_ATTACHED: &str = "[see the attached image]";

/// The text before files from tool results, where a result cannot contain them.
pub(crate) const FILES_FROM_TOOLS: &str = "The files that the tools above returned:";

/// The text of an empty result.
pub(crate) const NO_OUTPUT: &str = "[no output]";

/// The length of the hash at the end of a rewritten id: 60 bits, five per character.
const HASH_CHARS: usize = 12;

/// Returns the cache key for the encoded form of a unit or of the tools: everything that the bytes depend on besides the unit
/// itself. `extra` contains the settings that only the protocol knows, such as its dialect.
pub(crate) fn wire_key(request: &ModelRequest, extra: &[&str]) -> WireKey {
    let model = &request.model;
    let images = if model.images { "images" } else { "text-only" };
    let thinking =
        if request.options.foreign_thinking_as_text { "thinking-as-text" } else { "thinking-dropped" };
    WireKey::new(&[model.api.as_str(), &model.provider, &model.id, images, thinking]).and(extra)
}

/// The tool-call ids that a target accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdRule {
    /// The maximum length; at least [`HASH_CHARS`] + 2.
    pub(crate) max: usize,
    /// Returns whether an id may contain a character.
    pub(crate) allow: fn(char) -> bool,
}

impl IdRule {
    /// Returns a rule for ids of `[A-Za-z0-9_-]` with at most `max` characters.
    pub(crate) const fn word(max: usize) -> Self {
        Self { max, allow: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-') }
    }

    fn accepts(&self, id: &str) -> bool {
        let fits = id.len() <= self.max || id.chars().count() <= self.max;
        fits && !id.is_empty() && id.chars().all(self.allow)
    }
}

/// How a thinking block is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThinkingOut {
    /// The block is sent unchanged, with its signature.
    Keep,
    /// The text is sent as an ordinary text block.
    AsText(String),
    /// The block is omitted.
    Drop,
}

/// How an image is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ImageOut {
    /// The image is sent.
    Keep,
    /// This text replaces the image.
    Text(Cow<'static, str>),
}

/// The rules for the target of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handoff<'r> {
    request: &'r ModelRequest,
    ids: IdRule,
}

impl<'r> Handoff<'r> {
    /// Returns the rules for the model of `request`, whose server accepts these ids.
    pub(crate) fn new(request: &'r ModelRequest, ids: IdRule) -> Self {
        Self { request, ids }
    }

    /// Returns whether a unit is sent to models. Failed replies and the program's own notes are not.
    pub(crate) fn shows(unit: &Unit) -> bool {
        match unit.kind() {
            UnitKind::Failed => false,
            _ => unit.first().is_some_and(|m| m.as_llm().is_some()),
        }
    }

    /// Calls `read` with the encoded form of each unit that is sent, oldest first. Only for protocols in which the form of a
    /// unit does not depend on its neighbours.
    pub(crate) fn each_form(
        history: &History,
        key: WireKey,
        make: impl Fn(&Unit) -> Encoded,
        mut read: impl FnMut(&Encoded),
    ) {
        let make = |unit: &Unit| if Self::shows(unit) { make(unit) } else { Encoded::default() };
        history.encoded(key, make, |form| {
            if !form.bytes().is_empty() {
                read(form);
            }
        });
    }

    /// Returns the vendor's id of the last reply, if the target wrote it.
    pub(crate) fn last_response_id(&self) -> Option<&'r str> {
        let reply = self.request.history.last_reply().filter(|reply| self.same_model(reply))?;
        reply.response_id.as_deref()
    }

    /// Returns whether the target wrote this reply, that is, provider, protocol and model are equal.
    pub(crate) fn same_model(&self, reply: &AssistantMessage) -> bool {
        reply.is_by(&self.request.model)
    }

    /// Returns whether an id goes back unchanged because the target itself wrote it, whatever the rules for other ids are.
    pub(crate) fn is_own_id(&self, reply: &AssistantMessage, id: &ToolCallId) -> bool {
        self.same_model(reply) && !id.as_str().is_empty() && !call_ids::is_made(id.as_str())
    }

    /// Returns the id under which a call of `reply` and its result are sent. An id that the target wrote is unchanged, and so is
    /// an acceptable one. Any other consists of its acceptable characters and a hash of the whole id, so that different ids
    /// remain different. The result depends only on the reply and the id, so a call and its result remain paired.
    pub(crate) fn call_id<'i>(&self, reply: &AssistantMessage, id: &'i ToolCallId) -> Cow<'i, str> {
        if self.is_own_id(reply, id) {
            return Cow::Borrowed(id.as_str());
        }
        let id = id.as_str();
        if self.ids.accepts(id) {
            return Cow::Borrowed(id);
        }
        let keep = self.ids.max.saturating_sub(HASH_CHARS + 1);
        let filler = if (self.ids.allow)('_') { "_" } else { "" };
        let mut out = String::with_capacity(self.ids.max);
        for c in id.chars().take(keep) {
            if (self.ids.allow)(c) {
                out.push(c);
            } else {
                out.push_str(filler);
            }
        }
        out.push_str(filler);
        push_hash(&mut out, id);
        Cow::Owned(out)
    }

    /// Returns how a thinking block is sent.
    pub(crate) fn thinking(&self, reply: &AssistantMessage, block: &ThinkingContent) -> ThinkingOut {
        let blank = block.thinking.trim().is_empty();
        let signed = block.signature.as_ref().is_some_and(|s| !s.is_empty());
        if self.same_model(reply) {
            return if signed || !blank { ThinkingOut::Keep } else { ThinkingOut::Drop };
        }
        if self.request.options.foreign_thinking_as_text && !block.redacted && !blank {
            return ThinkingOut::AsText(block.thinking.clone());
        }
        ThinkingOut::Drop
    }

    /// Returns the signature of a block if the target created it.
    pub(crate) fn signature<'s>(
        &self,
        reply: &AssistantMessage,
        signature: Option<&'s str>,
    ) -> Option<&'s str> {
        signature.filter(|s| !s.is_empty() && self.same_model(reply))
    }

    /// Returns the data of an opaque block if the target created it.
    pub(crate) fn opaque<'b>(
        &self,
        reply: &AssistantMessage,
        block: &'b OpaqueContent,
    ) -> Option<&'b serde_json::Value> {
        self.same_model(reply).then_some(&block.data)
    }

    /// Returns how an image is sent.
    pub(crate) fn image(&self, image: &ImageContent) -> ImageOut {
        if !self.request.model.images {
            return ImageOut::Text(Cow::Borrowed(IMAGE_NOT_SHOWN));
        }
        pictures::fault(image, &self.request.model).map_or(ImageOut::Keep, ImageOut::Text)
    }

    /// Returns the text for a tool result without text: a reference to its images, or a note that there is no output. Returns
    /// `None` if the result has text or its images are replaced by text.
    pub(crate) fn result_note(&self, content: &[Content]) -> Option<&'static str> {
        let speaks = |content: &Content| match content {
            Content::Text(block) => text(block).is_some(),
            Content::Image(image) => self.image(image) != ImageOut::Keep,
            other => file_text(other).is_some(),
        };
        if content.iter().any(speaks) {
            return None;
        }
        let is_picture = |content: &Content| matches!(content, Content::Image(_));
        Some(if content.iter().any(is_picture) { IMAGE_ATTACHED } else { NO_OUTPUT })
    }
}

/// Returns the text in the place of a file that an API does not take. A text and a search result lose nothing; of other files
/// the model learns only that they are missing. Returns `None` for a block of another kind.
pub(crate) fn file_text(content: &Content) -> Option<Cow<'_, str>> {
    match content {
        Content::Document(document) => Some(match (&document.source, &document.title) {
            (FileSource::Text { text }, None) => Cow::Borrowed(text),
            (FileSource::Text { text }, Some(title)) => Cow::Owned(format!("{title}\n\n{text}")),
            (_, Some(title)) => {
                Cow::Owned(format!("[document left out: {title}; this API does not take it]"))
            }
            (_, None) => Cow::Borrowed("[document left out: this API does not take it]"),
        }),
        Content::SearchResult(result) => {
            Some(format!("{} ({})\n\n{}", result.title, result.source, result.parts.join("\n\n")).into())
        }
        Content::Audio(_) => Some("[sound left out: this API does not take it]".into()),
        Content::Video(_) => Some("[film left out: this API does not take it]".into()),
        _ => None,
    }
}

/// Returns the text of a block, or `None` if it is blank, which no provider accepts.
pub(crate) fn text(block: &TextContent) -> Option<&str> {
    (!block.text.trim().is_empty()).then_some(block.text.as_str())
}

/// The maximum length of a document as base64. Its request has the conversation, too, and the vendors refuse requests of more
/// than 32 to 50 MB.
const MAX_DOCUMENT: usize = 30 << 20;

/// Returns whether a file is not too large for a request, and not empty.
pub(crate) fn fits(source: &FileSource) -> bool {
    !matches!(source, FileSource::Base64 { data, .. } if data.is_empty() || data.len() > MAX_DOCUMENT)
}

/// Returns base64 data as a URL.
pub(crate) fn data_url(mime_type: &str, data: &str) -> String {
    format!("data:{mime_type};base64,{data}")
}

/// Returns an image as a URL for OpenAI's protocols: its own URL or a `data:` URL with its bytes.
pub(crate) fn image_address(image: &ImageContent) -> Cow<'_, str> {
    match image {
        ImageContent::Base64 { data, mime_type } => {
            Cow::Owned(data_url(pictures::media_type(data, mime_type), data))
        }
        ImageContent::Url { url } => Cow::Borrowed(url),
        _ => Cow::Borrowed(""),
    }
}

/// The maximum length of a tool name that is sent.
const MAX_TOOL_NAME: usize = 64;

/// Returns a tool name in the form that every vendor accepts: `[A-Za-z0-9_-]{1,64}`. A model may have called a tool that
/// does not exist, with any name.
pub(crate) fn tool_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().take(MAX_TOOL_NAME).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// Appends a hash of `text` as [`HASH_CHARS`] characters that every id rule accepts.
fn push_hash(out: &mut String, text: &str) {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        hash ^= u64::from(byte);
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The high bits of this hash vary little for short texts. Two multiplications with shifts distribute them.
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    for _ in 0..HASH_CHARS {
        let digit = u8::try_from(hash & 31).unwrap_or_default();
        out.push(char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }));
        hash >>= 5;
    }
}
