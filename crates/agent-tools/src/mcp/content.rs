//! The content that a server returns.

use serde_json::Value;

use super::MAX_RESULT_BLOCKS;
use super::limits::McpLimit;

/// The result of a tool call, as the server returned it.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct McpToolCallResult {
    /// The blocks, in the server's order.
    pub content: Vec<McpContent>,
    /// The structured result for programs, if the tool has one.
    pub structured_content: Option<Value>,
    /// Whether the tool reported a failure.
    pub is_error: bool,
}

/// One block of a result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum McpContent {
    /// A block of text.
    Text(String),
    /// An image in base64.
    Image {
        /// The bytes in base64.
        data: String,
        /// The media type, for example `image/png`.
        mime_type: String,
    },
    /// An audio recording in base64.
    Audio {
        /// The bytes in base64.
        data: String,
        /// The media type, for example `audio/wav`.
        mime_type: String,
    },
    /// A document that is embedded in the result.
    Resource(McpResource),
    /// A link to a document that the client can request from the server.
    ResourceLink {
        /// The URI of the document, which the server defines.
        uri: String,
        /// The name of the resource.
        name: String,
        /// The description from the server.
        description: Option<String>,
        /// The media type, for example `text/markdown`.
        mime_type: Option<String>,
    },
    /// A block of a kind that this version does not know, unchanged.
    Other(Value),
}

/// A document that a server embeds in a result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpResource {
    /// The URI of the document, which the server defines.
    pub uri: String,
    /// The media type, for example `text/markdown`.
    pub mime_type: Option<String>,
    /// The content of the document.
    pub body: McpResourceBody,
}

/// The content of a document.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum McpResourceBody {
    /// The text of the document.
    Text(String),
    /// The document's bytes in base64.
    Blob(String),
}

/// The reason why a result cannot be used.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The rule of the protocol that it violates.
    Broken(&'static str),
    TooLarge(McpLimit),
}

impl McpToolCallResult {
    /// Returns the text blocks, joined by line feeds.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            McpContent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Reads the result of `tools/call`.
    ///
    /// # Errors
    /// Returns the rule of the protocol that the result violates, or the limit that it exceeds.
    pub(super) fn read(mut value: Value) -> Result<Self, Unreadable> {
        let broken = |why| Err(Unreadable::Broken(why));
        let Some(result) = value.as_object_mut() else { return broken("the result is not an object") };
        if result.contains_key("inputRequests") || result.contains_key("task") {
            return broken("the result is not one of a finished call");
        }
        let content = match result.remove("content") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(blocks)) if blocks.len() > MAX_RESULT_BLOCKS => {
                return Err(Unreadable::TooLarge(McpLimit::ResultBlocks));
            }
            Some(Value::Array(blocks)) => blocks.into_iter().map(McpContent::read).collect(),
            Some(_) => return broken("`content` is not a list"),
        };
        Ok(Self {
            content,
            structured_content: result.remove("structuredContent").filter(|value| !value.is_null()),
            is_error: result.get("isError").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}

impl McpContent {
    /// Reads a block. A block of an unknown kind, or one that lacks a required member, becomes `Other`.
    fn read(value: Value) -> Self {
        Self::known(&value).unwrap_or(Self::Other(value))
    }

    fn known(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        match value.get("type")?.as_str()? {
            "text" => Some(Self::Text(text("text")?)),
            "image" => Some(Self::Image { data: text("data")?, mime_type: text("mimeType")? }),
            "audio" => Some(Self::Audio { data: text("data")?, mime_type: text("mimeType")? }),
            "resource" => McpResource::known(value.get("resource")?).map(Self::Resource),
            "resource_link" => Some(Self::ResourceLink {
                uri: text("uri")?,
                name: text("name")?,
                description: text("description"),
                mime_type: text("mimeType"),
            }),
            _ => None,
        }
    }
}

impl McpResource {
    fn known(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let body = match (text("text"), text("blob")) {
            (Some(text), _) => McpResourceBody::Text(text),
            (None, Some(blob)) => McpResourceBody::Blob(blob),
            (None, None) => return None,
        };
        Some(Self { uri: text("uri")?, mime_type: text("mimeType"), body })
    }
}
