//! Citations of the API. Replies and requests have them in the same form.

use agent_core::{Citation, CitationSource, CitedPlace};
use serde::Deserialize;
use serde_json::Value;

use crate::json::Members;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Wire {
    title: Option<String>,
    source: Option<String>,
    source_content: Vec<Part>,
    location: Location,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    text: String,
}

/// The place of the cited text. One member is present.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Location {
    web: Option<Web>,
    document_char: Option<Range>,
    document_page: Option<Range>,
    document_chunk: Option<Range>,
    search_result_location: Option<Range>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Web {
    url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Range {
    document_index: u32,
    search_result_index: u32,
    start: u32,
    end: u32,
}

/// Reads a citation. One of an unknown form keeps the vendor's form only.
pub(super) fn read(data: Value) -> Citation {
    let Ok(wire) = Wire::deserialize(&data) else {
        return Citation::new(CitationSource::Other).with_data(data);
    };
    let Location { web, document_char, document_page, document_chunk, search_result_location } =
        wire.location;
    let document = |range: &Range| CitationSource::Document { index: range.document_index, file_id: None };
    let (source, place) = if let Some(Range { start, end, .. }) = document_char {
        (document_char.as_ref().map(document), Some(CitedPlace::Characters { start, end }))
    } else if let Some(Range { start, end, .. }) = document_page {
        (document_page.as_ref().map(document), Some(CitedPlace::Pages { start, end }))
    } else if let Some(Range { start, end, .. }) = document_chunk {
        (document_chunk.as_ref().map(document), Some(CitedPlace::Parts { start, end }))
    } else if let Some(Range { search_result_index: index, start, end, .. }) = search_result_location {
        let source = wire.source.unwrap_or_default();
        (Some(CitationSource::SearchResult { index, source }), Some(CitedPlace::Parts { start, end }))
    } else {
        (web.and_then(|web| web.url).map(|url| CitationSource::Url { url }), None)
    };
    let cited: String = wire.source_content.into_iter().map(|part| part.text).collect();
    let mut citation = Citation::new(source.unwrap_or(CitationSource::Other)).with_data(data);
    citation.title = wire.title;
    citation.cited_text = Some(cited).filter(|text| !text.is_empty());
    citation.place = place;
    citation
}

/// Writes a text with its citations.
pub(super) fn write(out: &mut Vec<u8>, text: &str, citations: &[Citation]) {
    let known: Vec<_> = citations.iter().map(|c| &c.data).filter(|data| data.is_object()).collect();
    let mut block = Members::open(out);
    let mut cited = Members::open(block.key("citationsContent"));
    let list = cited.key("content");
    list.push(b'[');
    let mut part = Members::open(list);
    part.field("text", text);
    part.close();
    list.push(b']');
    cited.field("citations", &known);
    cited.close();
    block.close();
}

#[cfg(test)]
mod tests;
