//! Writes a unit of history as messages, for both protocols: selects the blocks, their order and what is omitted.

use agent_core::{
    AgentMessage, AssistantMessage, Citation, Content, ImageContent, Message, ModelRequest, TextContent,
    ThinkingContent, ToolCall, ToolResultMessage, Unit, UserMessage,
};

use serde_json::Value;

use super::turns::{Blocks, Mark, Marked};
use crate::handoff::{self, Handoff, IMAGE_NOT_SHOWN, IdRule, ImageOut, ThinkingOut};
use crate::json;

/// Tool-call ids: `[A-Za-z0-9_-]`, at most 64 characters.
pub(crate) const IDS: IdRule = IdRule::word(64);

/// The beginnings of the messages of both roles.
pub(crate) const USER: &[u8] = br#"{"role":"user","content":["#;
pub(crate) const ASSISTANT: &[u8] = br#"{"role":"assistant","content":["#;

/// The replacement for an image in a failed result, where the API accepts only text.
const IMAGE_IN_ERROR: &str = "[image left out: an error can only carry text]";

/// Writes the blocks of a protocol.
pub(crate) trait Form {
    /// The beginning of a text block, up to its text.
    const TEXT: &'static [u8];
    /// The position of a cache marker.
    const MARK: Mark;

    /// Writes an image.
    fn image(&self, out: &mut Vec<u8>, image: &ImageContent);
    /// Returns whether the API takes this document, search result or recording.
    fn takes_file(&self, file: &Content, place: Place) -> bool;
    /// Writes a document, a search result or a recording.
    fn file(&self, out: &mut Vec<u8>, file: &Content);
    /// Returns whether a text is sent back with its citations.
    fn cites(&self) -> bool;
    /// Writes a text with its citations.
    fn cited(&self, out: &mut Vec<u8>, text: &str, citations: &[Citation]);
    /// Returns whether the API accepts this thinking of the same model.
    fn takes(&self, thinking: &ThinkingContent) -> bool;
    /// Writes thinking.
    fn thinking(&self, out: &mut Vec<u8>, thinking: &ThinkingContent);
    /// Returns whether opaque blocks of this kind are a part of the content.
    fn is_content(&self, kind: &str) -> bool;
    /// Writes an opaque block of the same model.
    fn opaque(&self, out: &mut Vec<u8>, data: &Value) {
        json::write(out, data);
    }
    /// Writes a call. `input` is a JSON object and `mark` the signature that the decoder gave the call.
    fn call(&self, out: &mut Vec<u8>, id: &str, name: &str, input: &str, mark: Option<&str>);
    /// Writes a result. `content` is a JSON list of blocks without its brackets.
    fn result(&self, out: &mut Vec<u8>, id: &str, content: &[u8], is_error: bool);
}

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a message of the user.
    Message,
    /// In the result of a call.
    Result,
}

/// The part of a reply that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// The reply without calls of the vendor's tools that have no result.
    WithoutOpenCalls,
}

/// Returns whether a block is a call of one of the vendor's tools whose result is not in the reply.
fn is_open_call(reply: &AssistantMessage, block: &Value) -> bool {
    let is_call =
        matches!(block.get("type").and_then(Value::as_str), Some("server_tool_use" | "mcp_tool_use"));
    let id = block.get("id");
    let is_result = |content: &Content| match content {
        Content::Opaque(other) => other.data.get("tool_use_id") == id,
        _ => false,
    };
    is_call && !reply.content.iter().any(is_result)
}

/// Writes units for the model of one request.
pub(crate) struct Writer<'r, F> {
    pub(crate) rules: Handoff<'r>,
    form: F,
}

impl<'r, F: Form> Writer<'r, F> {
    /// Creates a writer for the model of `request`.
    pub(crate) fn new(request: &'r ModelRequest, form: F) -> Self {
        Self { rules: Handoff::new(request, IDS), form }
    }

    #[cfg(feature = "bedrock")]
    pub(crate) fn form(&self) -> &F {
        &self.form
    }

    /// Returns the messages of a unit: a user message, or a reply with the results of its calls.
    pub(crate) fn unit(&self, unit: &Unit) -> Blocks {
        self.part(unit, Part::Whole)
    }

    /// Returns the messages of a part of a unit.
    pub(crate) fn part(&self, unit: &Unit, part: Part) -> Blocks {
        let mut blocks = Blocks::new(F::TEXT, F::MARK);
        match unit.first().and_then(AgentMessage::as_llm) {
            Some(Message::User(message)) => self.user(&mut blocks, message),
            Some(Message::Assistant(reply)) => {
                self.reply(&mut blocks, reply, part);
                self.results(&mut blocks, reply, unit.results());
            }
            _ => {}
        }
        blocks
    }

    fn user(&self, blocks: &mut Blocks, message: &UserMessage) {
        blocks.open(USER);
        for content in &message.content {
            self.given(blocks, content, Place::Message);
        }
        blocks.close();
    }

    /// Writes a block of a user message or a result.
    fn given(&self, blocks: &mut Blocks, content: &Content, place: Place) {
        match content {
            Content::Text(text) => blocks.text(handoff::text(text)),
            Content::Image(image) => self.image(blocks, image),
            file if self.form.takes_file(file, place) => {
                blocks.block(Marked::Yes, |out| self.form.file(out, file));
            }
            other => blocks.text(handoff::file_text(other).as_deref()),
        }
    }

    fn image(&self, blocks: &mut Blocks, image: &ImageContent) {
        match self.rules.image(image) {
            ImageOut::Keep => blocks.block(Marked::Yes, |out| self.form.image(out, image)),
            ImageOut::Text(text) => blocks.text(Some(&text)),
        }
    }

    fn reply(&self, blocks: &mut Blocks, reply: &AssistantMessage, part: Part) {
        blocks.open(ASSISTANT);
        for content in &reply.content {
            match content {
                Content::Text(text) => self.text(blocks, reply, text),
                Content::Thinking(thinking) => self.thinking(blocks, reply, thinking),
                Content::ToolCall(call) => blocks.block(Marked::Yes, |out| self.call(out, reply, call)),
                Content::Opaque(opaque) if self.form.is_content(&opaque.kind) => {
                    if let Some(data) = self.rules.opaque(reply, opaque)
                        && (part == Part::Whole || !is_open_call(reply, data))
                    {
                        blocks.block(Marked::No, |out| self.form.opaque(out, data));
                    }
                }
                Content::Image(_) => blocks.text(Some(IMAGE_NOT_SHOWN)),
                _ => {}
            }
        }
        blocks.close();
    }

    /// Writes a text, with its sources for the model that named them.
    fn text(&self, blocks: &mut Blocks, reply: &AssistantMessage, content: &TextContent) {
        let text = handoff::text(content);
        match text.filter(|_| !content.citations.is_empty() && self.rules.same_model(reply)) {
            Some(cited) if self.form.cites() => {
                blocks.block(Marked::Yes, |out| self.form.cited(out, cited, &content.citations));
            }
            _ => blocks.text(text),
        }
    }

    fn thinking(&self, blocks: &mut Blocks, reply: &AssistantMessage, thinking: &ThinkingContent) {
        match self.rules.thinking(reply, thinking) {
            ThinkingOut::Keep if self.form.takes(thinking) => {
                blocks.block(Marked::Thinking, |out| self.form.thinking(out, thinking));
            }
            ThinkingOut::AsText(text) => blocks.text(Some(&text)),
            ThinkingOut::Keep | ThinkingOut::Drop => {}
        }
    }

    fn call(&self, out: &mut Vec<u8>, reply: &AssistantMessage, call: &ToolCall) {
        // The API accepts only an object. The result of a call with other arguments is an error that quotes them.
        let input = call.arguments.object_text();
        let mark = self.rules.signature(reply, call.signature.as_deref());
        let (id, name) = (self.rules.call_id(reply, &call.id), handoff::tool_name(call.name.as_str()));
        self.form.call(out, &id, &name, input, mark);
    }

    /// All results of a reply form one user message.
    fn results<'m>(
        &self,
        blocks: &mut Blocks,
        reply: &AssistantMessage,
        results: impl Iterator<Item = &'m ToolResultMessage>,
    ) {
        blocks.open(USER);
        for result in results {
            blocks.block(Marked::Yes, |out| self.result(out, reply, result));
        }
        blocks.close();
    }

    fn result(&self, out: &mut Vec<u8>, reply: &AssistantMessage, result: &ToolResultMessage) {
        let mut inner = Blocks::new(F::TEXT, F::MARK);
        for content in &result.content {
            match content {
                Content::Text(text) => inner.text(handoff::text(text)),
                Content::Image(_) if result.is_error => inner.text(Some(IMAGE_IN_ERROR)),
                file if result.is_error => inner.text(handoff::file_text(file).as_deref()),
                other => self.given(&mut inner, other, Place::Result),
            }
        }
        let note =
            self.rules.result_note(&result.content).filter(|_| !result.is_error || inner.out.is_empty());
        inner.text(note);
        let id = self.rules.call_id(reply, &result.tool_call_id);
        self.form.result(out, &id, &inner.out, result.is_error);
    }
}
