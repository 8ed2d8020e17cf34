//! The content blocks of a message.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{Citation, DocumentContent, MediaContent, SearchResultContent, ToolArguments};
use crate::identity::{ToolCallId, ToolName};
use crate::tagged::{self, Tagged};
use crate::value_depth;

/// One content block of a message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Content {
    /// A block of text.
    Text(TextContent),
    /// An image, as data or as an address.
    Image(ImageContent),
    /// A document, such as a PDF.
    Document(Box<DocumentContent>),
    /// A result of a search that the program made.
    SearchResult(Box<SearchResultContent>),
    /// A recording of sound.
    Audio(MediaContent),
    /// A film, with or without sound.
    Video(MediaContent),
    /// The model's reasoning before its answer.
    Thinking(ThinkingContent),
    /// A request of the model to run a tool.
    ToolCall(ToolCall),
    /// A block of a kind that only its provider understands. It is sent back to the same model unchanged.
    Opaque(OpaqueContent),
}

/// A block of text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TextContent {
    /// The text of the block.
    pub text: String,
    /// The provider's signature of the text, for the model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The sources of the text, in the order in which the model named them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<Citation>,
}

/// An image, as base64 data or as an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ImageContent {
    /// An image as base64 data.
    #[serde(rename_all = "camelCase")]
    Base64 {
        /// The bytes in standard base64 with padding.
        data: String,
        /// The media type, for example `image/png`.
        mime_type: String,
    },
    /// An `https` address from which the provider fetches the image.
    Url {
        /// The address of the image.
        url: String,
    },
}

/// The reasoning of a model before its answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ThinkingContent {
    /// The readable reasoning; may be empty.
    pub thinking: String,
    /// The provider's signature or encrypted form. It is sent only to the model that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Whether the provider withheld the text. In that case, `signature` holds its opaque form.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// A request of the model to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolCall {
    /// The id of the call; its result carries the same id.
    pub id: ToolCallId,
    /// The name of the tool.
    pub name: ToolName,
    /// The arguments as the model sent them.
    #[serde(flatten)]
    pub arguments: ToolArguments,
    /// The provider's signature of the call, for the model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A block that is stored and sent back without being interpreted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpaqueContent {
    /// The provider's name for this kind of block.
    pub kind: String,
    /// The block as it is sent back.
    pub data: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ContentType {
    Text,
    Image,
    Document,
    SearchResult,
    Audio,
    Video,
    Thinking,
    ToolCall,
    Opaque,
}

impl Tagged for Content {
    const TAG: &'static str = "type";
    type Tag = ContentType;

    fn read<'de, D: Deserializer<'de>>(kind: ContentType, fields: D) -> Result<Self, D::Error> {
        Ok(match kind {
            ContentType::Text => Self::Text(TextContent::deserialize(fields)?),
            ContentType::Image => Self::Image(ImageContent::deserialize(fields)?),
            ContentType::Document => Self::Document(Box::deserialize(fields)?),
            ContentType::SearchResult => Self::SearchResult(Box::deserialize(fields)?),
            ContentType::Audio => Self::Audio(MediaContent::deserialize(fields)?),
            ContentType::Video => Self::Video(MediaContent::deserialize(fields)?),
            ContentType::Thinking => Self::Thinking(ThinkingContent::deserialize(fields)?),
            ContentType::ToolCall => Self::ToolCall(ToolCall::deserialize(fields)?),
            ContentType::Opaque => Self::Opaque(OpaqueContent::deserialize(fields)?),
        })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            id: ToolCallId,
            name: ToolName,
            arguments: Option<Value>,
            #[serde(alias = "arguments_text")]
            arguments_text: Option<String>,
            signature: Option<String>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let arguments = ToolArguments::from_parts(wire.arguments, wire.arguments_text)?;
        Ok(Self { id: wire.id, name: wire.name, arguments, signature: wire.signature })
    }
}

impl Content {
    /// Returns whether the block is an opaque one that is nested deeper than
    /// [`MAX_VALUE_DEPTH`](crate::MAX_VALUE_DEPTH).
    pub(crate) fn is_too_deep(&self) -> bool {
        matches!(self, Self::Opaque(block) if value_depth::is_too_deep(&block.data))
    }

    /// Replaces an opaque block that is nested too deeply by a note.
    pub(crate) fn limit_depth(&mut self) {
        if self.is_too_deep()
            && let Self::Opaque(deep) = std::mem::replace(self, Self::text(value_depth::omitted()))
        {
            value_depth::dismantle(deep.data);
        }
    }

    /// Creates a text block without a signature.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), ..TextContent::default() })
    }

    /// Creates an image block from base64 data.
    #[must_use]
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::Base64 { data: data.into(), mime_type: mime_type.into() })
    }

    /// Creates an image block from an `https` address.
    #[must_use]
    pub fn image_url(url: impl Into<String>) -> Self {
        Self::Image(ImageContent::Url { url: url.into() })
    }

    /// Creates a document block.
    #[must_use]
    pub fn document(document: DocumentContent) -> Self {
        Self::Document(Box::new(document))
    }

    /// Creates a block with a result of a search.
    #[must_use]
    pub fn search_result(result: SearchResultContent) -> Self {
        Self::SearchResult(Box::new(result))
    }

    /// Creates a thinking block.
    #[must_use]
    pub fn thinking(thinking: impl Into<String>, signature: Option<String>) -> Self {
        Self::Thinking(ThinkingContent { thinking: thinking.into(), signature, redacted: false })
    }

    /// Creates a thinking block whose text the provider withheld; `data` is its opaque form.
    #[must_use]
    pub fn redacted_thinking(data: impl Into<String>) -> Self {
        Self::Thinking(ThinkingContent {
            thinking: String::new(),
            signature: Some(data.into()),
            redacted: true,
        })
    }

    /// Creates a tool call block.
    #[must_use]
    pub fn tool_call(
        id: impl Into<ToolCallId>,
        name: impl Into<ToolName>,
        arguments: impl Into<ToolArguments>,
    ) -> Self {
        Self::ToolCall(ToolCall::new(id, name, arguments))
    }

    /// Creates a block that is not interpreted.
    #[must_use]
    pub fn opaque(kind: impl Into<String>, data: Value) -> Self {
        Self::Opaque(OpaqueContent { kind: kind.into(), data })
    }

    /// Returns the text if this is a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(t) => Some(&t.text),
            _ => None,
        }
    }

    /// Returns the call if this is a tool call.
    #[must_use]
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match self {
            Self::ToolCall(call) => Some(call),
            _ => None,
        }
    }
}

impl<T: Into<String>> From<T> for Content {
    fn from(text: T) -> Self {
        Self::text(text)
    }
}

impl ToolCall {
    /// Creates a call of the tool `name`.
    #[must_use]
    pub fn new(
        id: impl Into<ToolCallId>,
        name: impl Into<ToolName>,
        arguments: impl Into<ToolArguments>,
    ) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), signature: None }
    }

    /// Sets the provider's signature of the call.
    #[must_use]
    pub fn with_signature(mut self, signature: Option<String>) -> Self {
        self.signature = signature;
        self
    }
}

/// Returns the text blocks of `content`, joined by `separator`.
pub(crate) fn joined_text(content: &[Content], separator: &str) -> String {
    let mut out = String::new();
    for (i, text) in content.iter().filter_map(Content::as_text).enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    out
}
