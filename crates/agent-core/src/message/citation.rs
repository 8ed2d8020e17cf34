//! Citations: where a text of a model comes from.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A source of a text that the model wrote.
///
/// ```
/// use agent_core::{Citation, CitationSource};
///
/// let citation = Citation::new(CitationSource::Url { url: "https://example.com".into() })
///     .with_title("Example")
///     .with_range(agent_core::CitedRange::characters(4, 9));
/// assert_eq!(citation.cited_part("die Größe zählt"), Some("Größe"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Citation {
    /// Where the text comes from.
    pub source: CitationSource,
    /// The title of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text of the source that is cited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cited_text: Option<String>,
    /// The place of the cited text in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<CitedPlace>,
    /// The part of the block's text that has this source; the whole text if it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<CitedRange>,
    /// The citation in the vendor's own form, which is sent back to the model that wrote it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// The source of a citation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum CitationSource {
    /// A page on the web.
    Url {
        /// The address of the page.
        url: String,
    },
    /// A document of the request.
    Document {
        /// The number of the document in the request, from 0.
        index: u32,
        /// The vendor's id of an uploaded document.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_id: Option<String>,
    },
    /// A search result of the request.
    SearchResult {
        /// The number of the search result in the request, from 0.
        index: u32,
        /// The source that the search result names.
        source: String,
    },
    /// A file that the vendor stores.
    File {
        /// The vendor's id of the file.
        file_id: String,
        /// The name of the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A source of another kind. [`Citation::data`] describes it.
    Other,
}

/// A place in a source. `start` is the first and `end` the one after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "unit", rename_all = "camelCase")]
#[non_exhaustive]
pub enum CitedPlace {
    /// Characters of a text, from 0.
    Characters {
        /// The number of the first character.
        start: u32,
        /// The one after the last.
        end: u32,
    },
    /// Pages of a PDF, from 1.
    Pages {
        /// The number of the first page.
        start: u32,
        /// The one after the last.
        end: u32,
    },
    /// Parts of a document or a search result, from 0.
    Parts {
        /// The number of the first part.
        start: u32,
        /// The one after the last.
        end: u32,
    },
}

/// A part of a text, in the unit in which the vendor counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CitedRange {
    /// The first unit, from 0.
    pub start: u32,
    /// The unit after the last.
    pub end: u32,
    /// What `start` and `end` count.
    pub unit: RangeUnit,
}

/// What a [`CitedRange`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RangeUnit {
    /// Counts Unicode scalar values.
    Characters,
    /// Counts bytes of UTF-8.
    Bytes,
}

impl Citation {
    /// Creates a citation of this source.
    #[must_use]
    pub fn new(source: CitationSource) -> Self {
        Self { source, title: None, cited_text: None, place: None, range: None, data: Value::Null }
    }

    /// Sets the title of the source.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the text of the source that is cited.
    #[must_use]
    pub fn with_cited_text(mut self, text: impl Into<String>) -> Self {
        self.cited_text = Some(text.into());
        self
    }

    /// Sets the place of the cited text in the source.
    #[must_use]
    pub fn with_place(mut self, place: CitedPlace) -> Self {
        self.place = Some(place);
        self
    }

    /// Sets the part of the block's text that has this source.
    #[must_use]
    pub fn with_range(mut self, range: CitedRange) -> Self {
        self.range = Some(range);
        self
    }

    /// Sets the citation in the vendor's own form.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = data;
        self
    }

    /// Returns the size of the texts in bytes.
    pub(crate) fn text_size(&self) -> usize {
        let source = match &self.source {
            CitationSource::Url { url } => url.len(),
            CitationSource::SearchResult { source, .. } => source.len(),
            CitationSource::Document { file_id, .. } => file_id.as_deref().map_or(0, str::len),
            CitationSource::File { file_id, name } => file_id.len() + name.as_deref().map_or(0, str::len),
            CitationSource::Other => 0,
        };
        let texts = [&self.title, &self.cited_text];
        texts.into_iter().flatten().fold(source, |sum, text| sum.saturating_add(text.len()))
    }

    /// Returns the part of the block's text that has this source: all of it without a range, and `None` if the range is
    /// outside of the text.
    #[must_use]
    pub fn cited_part<'t>(&self, text: &'t str) -> Option<&'t str> {
        match &self.range {
            None => Some(text),
            Some(range) => text.get(range.bytes_in(text)?),
        }
    }
}

impl CitedRange {
    /// Creates a range of Unicode scalar values.
    #[must_use]
    pub fn characters(start: u32, end: u32) -> Self {
        Self { start, end, unit: RangeUnit::Characters }
    }

    /// Creates a range of bytes of UTF-8.
    #[must_use]
    pub fn bytes(start: u32, end: u32) -> Self {
        Self { start, end, unit: RangeUnit::Bytes }
    }

    /// Returns the range in bytes; `None` if it is outside of the text.
    #[must_use]
    pub fn bytes_in(&self, text: &str) -> Option<Range<usize>> {
        let (start, end) = (usize::try_from(self.start).ok()?, usize::try_from(self.end).ok()?);
        let (start, end) = match self.unit {
            RangeUnit::Bytes => (start, end),
            RangeUnit::Characters => (offset(text, start)?, offset(text, end)?),
        };
        text.get(start..end).map(|_| start..end)
    }
}

/// Returns the offset of a character, or of the end of the text.
fn offset(text: &str, character: usize) -> Option<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(character)
}

#[cfg(test)]
mod tests;
