use serde_json::json;

use super::*;

#[test]
fn each_support_cites_each_of_its_sources() {
    let citations = of_grounding(&json!({
        "groundingChunks": [
            {"web": {"uri": "https://a", "title": "A", "domain": "a"}},
            {"retrievedContext": {"title": "b.pdf", "text": "so it is", "fileSearchStore": "stores/1", "pageNumber": 3}},
            {"film": {"second": 4}},
        ],
        "groundingSupports": [
            {"segment": {"endIndex": 4, "text": "Yes."}, "groundingChunkIndices": [0, 1], "confidenceScores": [0.9, 0.8]},
            {"segment": {"startIndex": 5, "endIndex": 9}, "groundingChunkIndices": [2, 7]},
            {"groundingChunkIndices": [0]},
        ],
    }));
    let page = |range: Option<CitedRange>| {
        let mut page = Citation::new(CitationSource::Url { url: "https://a".into() }).with_title("A");
        page.range = range;
        page
    };
    let file = CitationSource::File { file_id: "stores/1".into(), name: Some("b.pdf".into()) };
    assert_eq!(
        citations,
        [
            page(Some(CitedRange::bytes(0, 4))),
            Citation::new(file)
                .with_title("b.pdf")
                .with_cited_text("so it is")
                .with_place(CitedPlace::Pages { start: 3, end: 4 })
                .with_range(CitedRange::bytes(0, 4)),
            Citation::new(CitationSource::Other)
                .with_data(json!({"film": {"second": 4}}))
                .with_range(CitedRange::bytes(5, 9)),
            page(None),
        ]
    );
}

#[test]
fn quotes_of_both_apis_are_read() {
    for name in ["citationSources", "citations"] {
        let quote =
            json!({"startIndex": 3, "endIndex": 9, "uri": "https://a", "title": "A", "license": "mit"});
        let citations = of_quotes(&json!({ name: [quote, {"endIndex": 2}] }));
        assert_eq!(citations[0].source, CitationSource::Url { url: "https://a".into() });
        assert_eq!(
            (citations[0].range, &citations[0].data, citations[0].title.as_deref()),
            (Some(CitedRange::bytes(3, 9)), &quote, Some("A"))
        );
        assert_eq!(citations[1].source, CitationSource::Other);
    }
}

#[test]
fn metadata_of_another_form_has_no_citations() {
    for odd in [
        json!(null),
        json!([]),
        json!({"groundingChunks": {}}),
        json!({"groundingSupports": [{"segment": 3}]}),
    ] {
        assert!(of_grounding(&odd).is_empty() && of_quotes(&odd).is_empty(), "{odd}");
    }
}
