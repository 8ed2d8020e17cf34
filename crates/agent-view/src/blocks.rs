//! Content blocks in the form that the script displays.

use agent_core::{
    Citation, CitationSource, CitedPlace, Content, DocumentContent, FileSource, ImageContent, MediaContent,
};
use serde::Serialize;
use serde_json::Value;

/// The pictures that the page shows. Vector graphics are not among them.
const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"];

/// A content block.
#[derive(Debug, Serialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub(crate) enum Block<'s> {
    Text {
        x: &'s str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        cites: Vec<Cite<'s>>,
    },
    Thinking {
        x: &'s str,
        hidden: bool,
    },
    Image {
        mime: &'s str,
        data: &'s str,
    },
    /// Something that has no form in the page: its kind, its name, its address and its text, as far as they are known.
    File {
        what: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'s str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime: Option<&'s str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<&'s str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'s str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<&'s str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        parts: Vec<&'s str>,
    },
    Call {
        id: &'s str,
        name: &'s str,
        args: &'s str,
    },
    Opaque {
        kind: &'s str,
        data: &'s Value,
    },
}

/// A source of a text.
#[derive(Debug, Serialize)]
pub(crate) struct Cite<'s> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'s str>,
    from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    quote: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'s str>,
}

pub(crate) fn blocks(content: &[Content]) -> Vec<Block<'_>> {
    content.iter().map(Block::of).collect()
}

impl<'s> Block<'s> {
    fn of(content: &'s Content) -> Self {
        match content {
            Content::Text(text) => Self::Text {
                x: &text.text,
                cites: text.citations.iter().map(|citation| Cite::of(citation, &text.text)).collect(),
            },
            Content::Thinking(thinking) => {
                Self::Thinking { x: &thinking.thinking, hidden: thinking.redacted }
            }
            Content::ToolCall(call) => {
                Self::Call { id: call.id.as_str(), name: call.name.as_str(), args: call.arguments.text() }
            }
            Content::Image(ImageContent::Base64 { data, mime_type }) => picture(mime_type, data),
            Content::Image(ImageContent::Url { url }) => Self::file("image").at(url),
            Content::Document(document) => Self::document(document),
            Content::SearchResult(result) => match Self::file("search result").at(&result.source) {
                Self::File { what, mime, bytes, url, id, context, .. } => Self::File {
                    what,
                    title: Some(&result.title),
                    mime,
                    bytes,
                    url,
                    id,
                    context,
                    parts: result.parts.iter().map(String::as_str).collect(),
                },
                other => other,
            },
            Content::Audio(media) => Self::media("audio", media),
            Content::Video(media) => Self::media("video", media),
            Content::Opaque(block) => Self::Opaque { kind: &block.kind, data: &block.data },
            _ => Self::file("block of an unknown kind"),
        }
    }

    fn file(what: &'static str) -> Self {
        Self::File {
            what,
            title: None,
            mime: None,
            bytes: None,
            url: None,
            id: None,
            context: None,
            parts: Vec::new(),
        }
    }

    fn at(mut self, address: &'s str) -> Self {
        if let Self::File { url, .. } = &mut self {
            *url = Some(address);
        }
        self
    }

    fn with_source(mut self, source: &'s FileSource) -> Self {
        let Self::File { mime, bytes, url, id, parts, .. } = &mut self else { return self };
        match source {
            FileSource::Base64 { data, mime_type } => {
                *mime = Some(mime_type);
                *bytes = Some(data.len() / 4 * 3);
            }
            FileSource::Text { text } => parts.push(text),
            FileSource::Url { url: address, mime_type } => {
                *url = Some(address);
                *mime = mime_type.as_deref();
            }
            FileSource::Uploaded { file_id } => *id = Some(file_id),
            _ => {}
        }
        self
    }

    fn document(document: &'s DocumentContent) -> Self {
        let mut block = Self::file("document").with_source(&document.source);
        if let Self::File { title, context, .. } = &mut block {
            *title = document.title.as_deref();
            *context = document.context.as_deref();
        }
        block
    }

    fn media(what: &'static str, media: &'s MediaContent) -> Self {
        Self::file(what).with_source(&media.source)
    }
}

/// Returns a picture, or its description if a browser could do more with it than show it.
fn picture<'s>(mime: &'s str, data: &'s str) -> Block<'s> {
    let is_base64 = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'=');
    if PICTURES.contains(&mime) && !data.is_empty() && data.bytes().all(is_base64) {
        return Block::Image { mime, data };
    }
    let mut block = Block::file("image");
    if let Block::File { mime: kind, bytes, .. } = &mut block {
        *kind = Some(mime);
        *bytes = Some(data.len() / 4 * 3);
    }
    block
}

impl<'s> Cite<'s> {
    fn of(citation: &'s Citation, text: &'s str) -> Self {
        let mut url = None;
        let source = match &citation.source {
            CitationSource::Url { url: address } => {
                url = Some(address.as_str());
                "web page".to_owned()
            }
            CitationSource::Document { index, .. } => format!("document {}", index.saturating_add(1)),
            CitationSource::SearchResult { source, .. } => {
                url = Some(source.as_str());
                "search result".to_owned()
            }
            CitationSource::File { file_id, name } => {
                format!("file {}", name.as_deref().unwrap_or(file_id))
            }
            _ => "source of the vendor".to_owned(),
        };
        let place = match citation.place {
            Some(CitedPlace::Characters { start, end }) => format!(", characters {start} to {end}"),
            Some(CitedPlace::Pages { start, end }) if end > start.saturating_add(1) => {
                format!(", pages {start} to {}", end.saturating_sub(1))
            }
            Some(CitedPlace::Pages { start, .. }) => format!(", page {start}"),
            Some(CitedPlace::Parts { start, .. }) => format!(", part {}", start.saturating_add(1)),
            _ => String::new(),
        };
        Self {
            title: citation.title.as_deref(),
            url,
            from: source + &place,
            quote: citation.cited_text.as_deref(),
            part: citation.range.is_some().then(|| citation.cited_part(text)).flatten(),
        }
    }
}
