//! Documents and other files that a model reads.

use serde::{Deserialize, Serialize};

/// A document for the model: a PDF, a text, or another file.
///
/// The pages under `docs/providers` list the forms that each protocol takes. A text that names the document replaces a form
/// that the model's protocol does not take; a plain text is then sent as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DocumentContent {
    /// The content of the document.
    pub source: FileSource,
    /// The name of the document, which the model sees, for example `report.pdf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the model should know about the document. It is not cited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Whether the model cites the document. Vendors without this setting decide themselves.
    #[serde(default, skip_serializing_if = "Citing::is_off")]
    pub citing: Citing,
}

/// The content of a file: its bytes, its text, or where the vendor finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum FileSource {
    /// The file as base64 data.
    #[serde(rename_all = "camelCase")]
    Base64 {
        /// The bytes in standard base64 with padding.
        data: String,
        /// The media type, for example `application/pdf`.
        mime_type: String,
    },
    /// The file as plain text.
    Text {
        /// The text of the file.
        text: String,
    },
    /// An `https` address from which the vendor fetches the file.
    #[serde(rename_all = "camelCase")]
    Url {
        /// The address of the file.
        url: String,
        /// The media type, which some vendors need.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// A file that was uploaded to the vendor before.
    #[serde(rename_all = "camelCase")]
    Uploaded {
        /// The vendor's id of the file.
        file_id: String,
    },
}

/// Whether the model cites a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Citing {
    /// The model does not cite it.
    #[default]
    Off,
    /// The model cites it. Anthropic requires the same value for all documents of a request.
    On,
}

impl Citing {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
    fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// A result of a search that the program made, which the model can cite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SearchResultContent {
    /// The address or another name of the source.
    pub source: String,
    /// The title of the source.
    pub title: String,
    /// The text, in parts. A citation names parts, so a part should be a paragraph or a section.
    pub parts: Vec<String>,
    /// Whether the model cites the result.
    #[serde(default, skip_serializing_if = "Citing::is_off")]
    pub citing: Citing,
}

/// A recording of sound or a film.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MediaContent {
    /// The content of the recording. A text is not one.
    pub source: FileSource,
}

impl DocumentContent {
    /// Creates a document that the model does not cite.
    #[must_use]
    pub fn new(source: FileSource) -> Self {
        Self { source, title: None, context: None, citing: Citing::Off }
    }

    /// Creates a PDF from base64 data.
    #[must_use]
    pub fn pdf(data: impl Into<String>) -> Self {
        Self::new(FileSource::Base64 { data: data.into(), mime_type: "application/pdf".into() })
    }

    /// Creates a document from a plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(FileSource::Text { text: text.into() })
    }

    /// Sets the name of the document.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets what the model should know about the document.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// Sets whether the model cites the document.
    #[must_use]
    pub fn with_citing(mut self, citing: Citing) -> Self {
        self.citing = citing;
        self
    }
}

impl SearchResultContent {
    /// Creates a result that the model does not cite.
    #[must_use]
    pub fn new(
        source: impl Into<String>,
        title: impl Into<String>,
        parts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            source: source.into(),
            title: title.into(),
            parts: parts.into_iter().map(Into::into).collect(),
            citing: Citing::Off,
        }
    }

    /// Sets whether the model cites the result.
    #[must_use]
    pub fn with_citing(mut self, citing: Citing) -> Self {
        self.citing = citing;
        self
    }
}

impl MediaContent {
    /// Creates a recording from its content.
    #[must_use]
    pub fn new(source: FileSource) -> Self {
        Self { source }
    }
}

impl FileSource {
    /// Returns the size of the data or text in bytes; 0 where the vendor has the file.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Base64 { data, .. } => data.len(),
            Self::Text { text } => text.len(),
            Self::Url { .. } | Self::Uploaded { .. } => 0,
        }
    }

    /// Returns the media type, if it is known. That of a text is `text/plain`.
    #[must_use]
    pub fn mime_type(&self) -> Option<&str> {
        match self {
            Self::Base64 { mime_type, .. } => Some(mime_type),
            Self::Text { .. } => Some("text/plain"),
            Self::Url { mime_type, .. } => mime_type.as_deref(),
            Self::Uploaded { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
