use serde_json::json;

use super::*;

#[test]
fn a_range_is_read_in_its_unit() {
    let text = "die Größe zählt";
    for (range, expect) in [
        (CitedRange::characters(4, 9), Some("Größe")),
        (CitedRange::bytes(4, 11), Some("Größe")),
        (CitedRange::characters(0, 15), Some(text)),
        (CitedRange::characters(15, 15), Some("")),
        // Outside of the text, inside of a character, and backwards.
        (CitedRange::characters(10, 16), None),
        (CitedRange::bytes(4, 7), None),
        (CitedRange::bytes(0, 99), None),
        (CitedRange::characters(9, 4), None),
    ] {
        let citation = Citation::new(CitationSource::Other).with_range(range);
        assert_eq!(citation.cited_part(text), expect, "{range:?}");
    }
    assert_eq!(Citation::new(CitationSource::Other).cited_part(text), Some(text));
}

#[test]
fn a_citation_has_its_form_as_json() {
    let citation = Citation::new(CitationSource::SearchResult { index: 1, source: "wiki".into() })
        .with_title("W")
        .with_cited_text("so")
        .with_place(CitedPlace::Parts { start: 0, end: 2 })
        .with_range(CitedRange::bytes(0, 2))
        .with_data(json!({"type": "x"}));
    let form = json!({
        "source": {"type": "searchResult", "index": 1, "source": "wiki"},
        "title": "W", "citedText": "so",
        "place": {"unit": "parts", "start": 0, "end": 2},
        "range": {"start": 0, "end": 2, "unit": "bytes"},
        "data": {"type": "x"},
    });
    assert_eq!(serde_json::to_value(&citation).unwrap(), form);
    assert_eq!(serde_json::from_value::<Citation>(form).unwrap(), citation);
    for (source, form) in [
        (CitationSource::Url { url: "u".into() }, json!({"type": "url", "url": "u"})),
        (CitationSource::Document { index: 0, file_id: None }, json!({"type": "document", "index": 0})),
        (CitationSource::File { file_id: "f".into(), name: None }, json!({"type": "file", "fileId": "f"})),
        (CitationSource::Other, json!({"type": "other"})),
    ] {
        assert_eq!(serde_json::to_value(&source).unwrap(), form);
        assert_eq!(serde_json::from_value::<CitationSource>(form).unwrap(), source);
    }
}
