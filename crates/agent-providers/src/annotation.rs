//! Annotations of texts, in Responses and in Chat Completions.

use agent_core::{Citation, CitationSource, CitedRange};
use serde::Deserialize;
use serde_json::Value;

/// The members of all kinds of annotations.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wire {
    #[serde(rename = "type")]
    kind: String,
    url: Option<String>,
    title: Option<String>,
    file_id: Option<String>,
    filename: Option<String>,
    start_index: Option<u32>,
    end_index: Option<u32>,
    /// Chat Completions has the members of a page here.
    url_citation: Option<Box<Wire>>,
}

/// Reads an annotation. One of an unknown form keeps the vendor's form only.
pub(crate) fn read(data: Value) -> Citation {
    let Ok(wire) = Wire::deserialize(&data) else {
        return Citation::new(CitationSource::Other).with_data(data);
    };
    let wire = wire.url_citation.map_or(Wire { url_citation: None, ..wire }, |page| *page);
    let source = match (wire.url, wire.file_id) {
        (Some(url), _) => CitationSource::Url { url },
        (None, Some(file_id)) => CitationSource::File { file_id, name: wire.filename },
        (None, None) => CitationSource::Other,
    };
    let mut citation = Citation::new(source).with_data(data);
    citation.title = wire.title.filter(|title| !title.is_empty());
    citation.range =
        wire.start_index.zip(wire.end_index).map(|(start, end)| CitedRange::characters(start, end));
    citation
}

#[cfg(test)]
mod tests;
