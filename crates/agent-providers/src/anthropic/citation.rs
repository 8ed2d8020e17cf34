//! Citations of the API.

use agent_core::{Citation, CitationSource, CitedPlace};
use serde::Deserialize;
use serde_json::Value;

/// The members of all kinds of citations. The kinds differ in their places.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wire {
    #[serde(rename = "type")]
    kind: String,
    cited_text: Option<String>,
    title: Option<String>,
    document_title: Option<String>,
    document_index: u32,
    search_result_index: u32,
    file_id: Option<String>,
    source: Option<String>,
    url: Option<String>,
    start_char_index: Option<u32>,
    end_char_index: Option<u32>,
    start_page_number: Option<u32>,
    end_page_number: Option<u32>,
    start_block_index: Option<u32>,
    end_block_index: Option<u32>,
}

/// Reads a citation. One of an unknown form keeps the vendor's form only.
pub(super) fn read(data: Value) -> Citation {
    let Ok(wire) = Wire::deserialize(&data) else {
        return Citation::new(CitationSource::Other).with_data(data);
    };
    let source = match (wire.kind.as_str(), wire.url, wire.source) {
        ("web_search_result_location", Some(url), _) => CitationSource::Url { url },
        ("search_result_location", _, Some(source)) => {
            CitationSource::SearchResult { index: wire.search_result_index, source }
        }
        ("char_location" | "page_location" | "content_block_location", ..) => {
            CitationSource::Document { index: wire.document_index, file_id: wire.file_id }
        }
        _ => CitationSource::Other,
    };
    let place = match (
        wire.start_char_index.zip(wire.end_char_index),
        wire.start_page_number.zip(wire.end_page_number),
        wire.start_block_index.zip(wire.end_block_index),
    ) {
        (Some((start, end)), ..) => Some(CitedPlace::Characters { start, end }),
        (_, Some((start, end)), _) => Some(CitedPlace::Pages { start, end }),
        (.., Some((start, end))) => Some(CitedPlace::Parts { start, end }),
        _ => None,
    };
    let mut citation = Citation::new(source).with_data(data);
    citation.title = wire.title.or(wire.document_title);
    citation.cited_text = wire.cited_text;
    citation.place = place;
    citation
}

#[cfg(test)]
mod tests;
