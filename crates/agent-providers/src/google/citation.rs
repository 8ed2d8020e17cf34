//! Sources of a reply: grounding and citation metadata.

use agent_core::{Citation, CitationSource, CitedPlace, CitedRange};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Grounding {
    grounding_chunks: Vec<Value>,
    grounding_supports: Vec<Support>,
}

/// A part of the reply with the numbers of its sources.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Support {
    segment: Segment,
    grounding_chunk_indices: Vec<usize>,
}

/// A part of a text, in bytes. The vendor leaves out a start of 0.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Segment {
    start_index: u32,
    end_index: Option<u32>,
}

/// A source. One member is present, whose kind determines the names of the others.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Chunk {
    web: Option<Source>,
    maps: Option<Source>,
    image: Option<Source>,
    retrieved_context: Option<Source>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Source {
    uri: Option<String>,
    source_uri: Option<String>,
    title: Option<String>,
    text: Option<String>,
    document_name: Option<String>,
    file_search_store: Option<String>,
    page_number: Option<u32>,
}

/// The sources of texts that the reply quotes. The Gemini API and Vertex AI name the list differently.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Quotes {
    #[serde(alias = "citations")]
    citation_sources: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Quote {
    #[serde(flatten)]
    segment: Segment,
    uri: Option<String>,
    title: Option<String>,
}

/// Returns one citation for each source of each supported part of the text.
pub(super) fn of_grounding(metadata: &Value) -> Vec<Citation> {
    let Ok(grounding) = Grounding::deserialize(metadata) else { return Vec::new() };
    let chunks: Vec<Citation> = grounding.grounding_chunks.into_iter().map(of_chunk).collect();
    let supports = grounding.grounding_supports.iter();
    supports
        .flat_map(|support| {
            support.grounding_chunk_indices.iter().filter_map(|number| {
                let citation = chunks.get(*number)?.clone();
                Some(with_range(citation, &support.segment))
            })
        })
        .collect()
}

/// Returns the citations of texts that the reply quotes.
pub(super) fn of_quotes(metadata: &Value) -> Vec<Citation> {
    let Ok(quotes) = Quotes::deserialize(metadata) else { return Vec::new() };
    quotes.citation_sources.into_iter().map(of_quote).collect()
}

fn of_chunk(data: Value) -> Citation {
    let chunk = Chunk::deserialize(&data).unwrap_or_default();
    let found = [chunk.web, chunk.maps, chunk.image, chunk.retrieved_context].into_iter().flatten().next();
    let Some(found) = found else { return Citation::new(CitationSource::Other).with_data(data) };
    let file = found.document_name.or(found.file_search_store);
    let source = match (found.uri.or(found.source_uri), file) {
        (Some(url), _) => CitationSource::Url { url },
        (None, Some(file_id)) => CitationSource::File { file_id, name: found.title.clone() },
        (None, None) => return Citation::new(CitationSource::Other).with_data(data),
    };
    let mut citation = Citation::new(source);
    citation.title = found.title;
    citation.cited_text = found.text;
    citation.place =
        found.page_number.map(|page| CitedPlace::Pages { start: page, end: page.saturating_add(1) });
    citation
}

fn of_quote(data: Value) -> Citation {
    let quote = Quote::deserialize(&data).unwrap_or_default();
    let source = quote.uri.map_or(CitationSource::Other, |url| CitationSource::Url { url });
    let mut citation = with_range(Citation::new(source), &quote.segment);
    citation.title = quote.title;
    citation.with_data(data)
}

fn with_range(mut citation: Citation, segment: &Segment) -> Citation {
    citation.range = segment.end_index.map(|end| CitedRange::bytes(segment.start_index, end));
    citation
}

#[cfg(test)]
mod tests;
