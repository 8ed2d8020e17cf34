//! What a model may see of a reply that it did not write (D20).
//!
//! The same rules hold for every protocol: thinking and signatures stay with the model that made them, tool-call ids
//! are rewritten to what the target accepts, pictures become text for a model without eyes, blank text is left out.
//! Every rule is a function of one unit and the request, so that an encoded unit can be kept (see [`wire_key`]).
//!
//! Failed units ([`UnitKind::Failed`](agent_core::UnitKind::Failed)) are shown to nobody; [`Handoff::shows`] says so.

use std::borrow::Cow;

use agent_core::{
    AssistantMessage, Content, Encoded, History, ImageContent, ModelRequest, OpaqueContent, TextContent,
    ThinkingContent, ToolCallId, Unit, UnitKind, WireKey,
};

#[cfg(test)]
mod tests;

/// What stands for a picture before a model that reads text only (B-140).
pub(crate) const IMAGE_NOT_SHOWN: &str = "[image left out: this model reads text only]";

/// What accompanies a result that holds nothing but pictures (B-142).
pub(crate) const IMAGE_ATTACHED: &str = "[see the attached image]";

/// What stands for a result that holds nothing that could be sent.
pub(crate) const NO_OUTPUT: &str = "[no output]";

/// Characters of the hash that a rewritten id ends with: 60 bits, five a character.
const HASH_CHARS: usize = 12;

/// The key under which the encoded form of a unit or of the tools is kept: everything its bytes depend on besides
/// the unit itself. `extra` holds what only the protocol knows, such as its dialect or its own switches.
pub(crate) fn wire_key(request: &ModelRequest, extra: &[&str]) -> WireKey {
    let model = &request.model;
    let images = if model.images { "images" } else { "text-only" };
    let thinking = if request.foreign_thinking_as_text { "thinking-as-text" } else { "thinking-dropped" };
    WireKey::new(&[model.api.as_str(), &model.provider, &model.id, images, thinking]).and(extra)
}

/// Which tool-call ids a target accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdRule {
    /// The most characters; at least [`HASH_CHARS`] + 2.
    pub(crate) max: usize,
    /// The characters that may stand in one.
    pub(crate) allow: fn(char) -> bool,
}

impl IdRule {
    /// `[A-Za-z0-9_-]`, at most `max` characters.
    pub(crate) const fn word(max: usize) -> Self {
        Self { max, allow: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-') }
    }

    fn accepts(&self, id: &str) -> bool {
        let fits = id.len() <= self.max || id.chars().count() <= self.max;
        fits && !id.is_empty() && id.chars().all(self.allow)
    }
}

/// What becomes of a thinking block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThinkingOut {
    /// It is replayed as it is, signature included.
    Keep,
    /// Its text is shown as text.
    AsText(String),
    /// It is left out.
    Drop,
}

/// What becomes of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageOut {
    /// It is sent.
    Keep,
    /// This text stands for it.
    Text(&'static str),
}

/// The rules for one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handoff<'r> {
    request: &'r ModelRequest,
    ids: IdRule,
}

impl<'r> Handoff<'r> {
    /// The rules for the model of `request`, whose server takes ids of this kind.
    pub(crate) fn new(request: &'r ModelRequest, ids: IdRule) -> Self {
        Self { request, ids }
    }

    /// Whether a unit is shown to a model at all: failed replies and a program's own notes are not (B-139).
    pub(crate) fn shows(unit: &Unit) -> bool {
        match unit.kind() {
            UnitKind::Failed => false,
            _ => unit.first().is_some_and(|m| m.as_llm().is_some()),
        }
    }

    /// Calls `read` with the encoded forms of what is shown of a conversation, oldest first: for a protocol whose form of a
    /// unit does not depend on those around it.
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

    /// Whether the target wrote this reply: provider, protocol and model are all the same.
    pub(crate) fn same_model(&self, reply: &AssistantMessage) -> bool {
        let model = &self.request.model;
        reply.provider == model.provider && reply.model == model.id && reply.api == Some(model.api)
    }

    /// The id under which a call and its result are sent (B-134, B-135). An id that the target accepts stays. Any
    /// other is made of its acceptable characters and a hash of the whole, so that two ids which look alike after
    /// the cut are still two. It depends on nothing but the id, so call and result stay paired.
    pub(crate) fn call_id<'i>(&self, id: &'i ToolCallId) -> Cow<'i, str> {
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

    /// What becomes of a thinking block (B-131..B-133).
    pub(crate) fn thinking(&self, reply: &AssistantMessage, block: &ThinkingContent) -> ThinkingOut {
        let blank = block.thinking.trim().is_empty();
        let signed = block.signature.as_ref().is_some_and(|s| !s.is_empty());
        if self.same_model(reply) {
            return if signed || !blank { ThinkingOut::Keep } else { ThinkingOut::Drop };
        }
        if self.request.foreign_thinking_as_text && !block.redacted && !blank {
            return ThinkingOut::AsText(block.thinking.clone());
        }
        ThinkingOut::Drop
    }

    /// The signature over a block, for the model that made it and for no other.
    pub(crate) fn signature<'s>(
        &self,
        reply: &AssistantMessage,
        signature: Option<&'s str>,
    ) -> Option<&'s str> {
        signature.filter(|s| !s.is_empty() && self.same_model(reply))
    }

    /// A block that only its provider knows, for the model that made it and for no other.
    pub(crate) fn opaque<'b>(
        &self,
        reply: &AssistantMessage,
        block: &'b OpaqueContent,
    ) -> Option<&'b serde_json::Value> {
        self.same_model(reply).then_some(&block.data)
    }

    /// What becomes of a picture (B-140).
    pub(crate) fn image(&self, _image: &ImageContent) -> ImageOut {
        if self.request.model.images { ImageOut::Keep } else { ImageOut::Text(IMAGE_NOT_SHOWN) }
    }

    /// The text to send with a tool result that has none of its own (B-142): what points at its pictures, or says
    /// that there is no output. `None` when the result has text, or gets some in place of its pictures.
    pub(crate) fn result_note(&self, content: &[Content]) -> Option<&'static str> {
        if content.iter().any(|c| matches!(c, Content::Text(t) if text(t).is_some())) {
            return None;
        }
        let pictures = content.iter().any(|c| matches!(c, Content::Image(_)));
        match (pictures, self.request.model.images) {
            (true, true) => Some(IMAGE_ATTACHED),
            (true, false) => None,
            (false, _) => Some(NO_OUTPUT),
        }
    }
}

/// The text of a block; `None` when it is blank, which no provider takes (B-143).
pub(crate) fn text(block: &TextContent) -> Option<&str> {
    (!block.text.trim().is_empty()).then_some(block.text.as_str())
}

/// A picture as an address, as OpenAI's protocols want it: its own, or one that holds its bytes.
pub(crate) fn image_address(image: &ImageContent) -> Cow<'_, str> {
    match image {
        ImageContent::Base64 { data, mime_type } => Cow::Owned(format!("data:{mime_type};base64,{data}")),
        ImageContent::Url { url } => Cow::Borrowed(url),
        _ => Cow::Borrowed(""),
    }
}

/// The longest tool name that is sent back.
const MAX_TOOL_NAME: usize = 64;

/// The name of a tool as every vendor takes it: `[A-Za-z0-9_-]{1,64}`. Another vendor's model may have called a tool
/// that never was, by any name.
pub(crate) fn tool_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().take(MAX_TOOL_NAME).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// Appends a hash of `text`, as [`HASH_CHARS`] characters that every id rule allows.
fn push_hash(out: &mut String, text: &str) {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        hash ^= u64::from(byte);
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The high bits of this hash are poor for short texts; two multiplications with shifts spread them.
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
