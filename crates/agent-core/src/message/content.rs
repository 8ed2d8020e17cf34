//! The blocks that a message is made of (REQ-001).

use serde::{Deserialize, Serialize};

use super::ToolArguments;
use crate::identity::{ToolCallId, ToolName};

/// One block of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(ImageContent),
    /// What a model thought before it answered.
    Thinking(ThinkingContent),
    /// A model's request to run a tool.
    ToolCall(ToolCall),
    /// A block of a kind that only its provider knows. It is shown to the same model again, byte for byte.
    Opaque(OpaqueContent),
}

/// Text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// A provider's signature over it, for the model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A picture: its bytes in base64, or where it is (D38).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ImageContent {
    /// The bytes.
    #[serde(rename_all = "camelCase")]
    Base64 {
        /// The bytes in standard base64 with padding.
        data: String,
        /// For example `image/png`.
        mime_type: String,
    },
    /// An `https` address that the provider fetches.
    Url {
        /// The address.
        url: String,
    },
}

/// What a model thought.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ThinkingContent {
    /// The readable part; may be empty.
    pub thinking: String,
    /// The provider's signature or encrypted form. It never leaves the model that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Whether the provider withheld the text; then `signature` holds its opaque form.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// A model's request to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolCall {
    /// Names this call; its result carries the same id.
    pub id: ToolCallId,
    /// The tool.
    pub name: ToolName,
    /// The arguments as the model sent them.
    #[serde(flatten)]
    pub arguments: ToolArguments,
    /// A provider's signature over the call, for the model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A block that is carried without being understood (D19).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpaqueContent {
    /// The provider's name of the kind of block.
    pub kind: String,
    /// The block, as it is sent back.
    pub data: serde_json::Value,
}

impl Content {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), signature: None })
    }

    /// A picture from base64 bytes.
    #[must_use]
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::Base64 { data: data.into(), mime_type: mime_type.into() })
    }

    /// A picture at an `https` address.
    #[must_use]
    pub fn image_url(url: impl Into<String>) -> Self {
        Self::Image(ImageContent::Url { url: url.into() })
    }

    /// A thinking block.
    #[must_use]
    pub fn thinking(thinking: impl Into<String>, signature: Option<String>) -> Self {
        Self::Thinking(ThinkingContent { thinking: thinking.into(), signature, redacted: false })
    }

    /// Thinking whose text the provider withheld; `data` is its opaque form.
    #[must_use]
    pub fn redacted_thinking(data: impl Into<String>) -> Self {
        Self::Thinking(ThinkingContent {
            thinking: String::new(),
            signature: Some(data.into()),
            redacted: true,
        })
    }

    /// A tool call.
    #[must_use]
    pub fn tool_call(
        id: impl Into<ToolCallId>,
        name: impl Into<ToolName>,
        arguments: impl Into<ToolArguments>,
    ) -> Self {
        Self::ToolCall(ToolCall::new(id, name, arguments))
    }

    /// A block that is carried without being understood.
    #[must_use]
    pub fn opaque(kind: impl Into<String>, data: serde_json::Value) -> Self {
        Self::Opaque(OpaqueContent { kind: kind.into(), data })
    }

    /// The text, if it is a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(t) => Some(&t.text),
            Self::Image(_) | Self::Thinking(_) | Self::ToolCall(_) | Self::Opaque(_) => None,
        }
    }

    /// The call, if it is one.
    #[must_use]
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match self {
            Self::ToolCall(call) => Some(call),
            Self::Text(_) | Self::Image(_) | Self::Thinking(_) | Self::Opaque(_) => None,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl ToolCall {
    /// A call of `name` with `arguments`.
    #[must_use]
    pub fn new(
        id: impl Into<ToolCallId>,
        name: impl Into<ToolName>,
        arguments: impl Into<ToolArguments>,
    ) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), signature: None }
    }

    /// The same call with a provider's signature.
    #[must_use]
    pub fn with_signature(mut self, signature: Option<String>) -> Self {
        self.signature = signature;
        self
    }
}

/// The text blocks of `content`, joined by `separator`.
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
