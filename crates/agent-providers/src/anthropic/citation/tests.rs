use serde_json::json;

use super::*;

#[test]
fn each_kind_of_citation_names_its_source_and_place() {
    let document = |index| CitationSource::Document { index, file_id: None };
    for (data, source, place, title) in [
        (
            json!({"type": "char_location", "cited_text": "a", "document_index": 1, "document_title": "T", "start_char_index": 3, "end_char_index": 9}),
            document(1),
            Some(CitedPlace::Characters { start: 3, end: 9 }),
            Some("T"),
        ),
        (
            json!({"type": "page_location", "cited_text": "a", "document_index": 0, "document_title": null, "start_page_number": 1, "end_page_number": 2}),
            document(0),
            Some(CitedPlace::Pages { start: 1, end: 2 }),
            None,
        ),
        (
            json!({"type": "content_block_location", "cited_text": "a", "document_index": 0, "file_id": "f-1", "start_block_index": 0, "end_block_index": 1}),
            CitationSource::Document { index: 0, file_id: Some("f-1".into()) },
            Some(CitedPlace::Parts { start: 0, end: 1 }),
            None,
        ),
        (
            json!({"type": "search_result_location", "cited_text": "a", "search_result_index": 2, "source": "wiki", "title": "W", "start_block_index": 0, "end_block_index": 1}),
            CitationSource::SearchResult { index: 2, source: "wiki".into() },
            Some(CitedPlace::Parts { start: 0, end: 1 }),
            Some("W"),
        ),
        (
            json!({"type": "web_search_result_location", "cited_text": "a", "encrypted_index": "x", "url": "https://a", "title": "A"}),
            CitationSource::Url { url: "https://a".into() },
            None,
            Some("A"),
        ),
    ] {
        let citation = read(data.clone());
        assert_eq!((&citation.source, citation.place), (&source, place));
        assert_eq!((citation.title.as_deref(), citation.cited_text.as_deref()), (title, Some("a")));
        assert_eq!(citation.data, data, "it is sent back as it came");
    }
}

#[test]
fn an_unknown_form_is_kept() {
    for data in
        [json!({"type": "later_location", "cited_text": "a"}), json!(7), json!({"document_index": -1})]
    {
        let citation = read(data.clone());
        assert_eq!((citation.source, citation.data), (CitationSource::Other, data));
    }
}
