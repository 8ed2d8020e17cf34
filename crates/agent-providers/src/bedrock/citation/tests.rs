use serde_json::json;

use super::*;

#[test]
fn each_kind_of_citation_names_its_source_and_place() {
    let document = |index| CitationSource::Document { index, file_id: None };
    for (data, source, place) in [
        (
            json!({"title": "T", "sourceContent": [{"text": "a"}, {"text": "b"}], "location": {"documentChar": {"documentIndex": 1, "start": 3, "end": 9}}}),
            document(1),
            Some(CitedPlace::Characters { start: 3, end: 9 }),
        ),
        (
            json!({"title": "T", "sourceContent": [{"text": "ab"}], "location": {"documentPage": {"documentIndex": 0, "start": 1, "end": 2}}}),
            document(0),
            Some(CitedPlace::Pages { start: 1, end: 2 }),
        ),
        (
            json!({"title": "T", "sourceContent": [{"text": "ab"}], "location": {"documentChunk": {"documentIndex": 2, "start": 0, "end": 1}}}),
            document(2),
            Some(CitedPlace::Parts { start: 0, end: 1 }),
        ),
        (
            json!({"title": "T", "source": "wiki", "sourceContent": [{"text": "ab"}], "location": {"searchResultLocation": {"searchResultIndex": 2, "start": 0, "end": 1}}}),
            CitationSource::SearchResult { index: 2, source: "wiki".into() },
            Some(CitedPlace::Parts { start: 0, end: 1 }),
        ),
        (
            json!({"title": "T", "sourceContent": [{"text": "ab"}], "location": {"web": {"url": "https://a", "domain": "a"}}}),
            CitationSource::Url { url: "https://a".into() },
            None,
        ),
        (
            json!({"title": "T", "sourceContent": [{"text": "ab"}], "location": {"film": {"second": 4}}}),
            CitationSource::Other,
            None,
        ),
    ] {
        let citation = read(data.clone());
        assert_eq!((&citation.source, citation.place), (&source, place), "{data}");
        assert_eq!((citation.title.as_deref(), citation.cited_text.as_deref()), (Some("T"), Some("ab")));
        assert_eq!(citation.data, data);
    }
}

#[test]
fn a_citation_of_another_form_keeps_the_vendors_form() {
    for data in [json!("a"), json!({"title": 3}), json!({"location": []}), json!(null)] {
        let citation = read(data.clone());
        assert_eq!((citation.source, citation.data), (CitationSource::Other, data));
    }
}
