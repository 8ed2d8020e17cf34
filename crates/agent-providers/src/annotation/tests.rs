use serde_json::json;

use super::*;

#[test]
fn each_kind_of_annotation_names_its_source() {
    let page = CitationSource::Url { url: "https://a".into() };
    let file = |name: Option<&str>| CitationSource::File { file_id: "f".into(), name: name.map(Into::into) };
    let range = Some(CitedRange::characters(2, 5));
    for (data, source, expect, title) in [
        (
            json!({"type": "url_citation", "url": "https://a", "title": "A", "start_index": 2, "end_index": 5}),
            page.clone(),
            range,
            Some("A"),
        ),
        (
            json!({"type": "url_citation", "url_citation": {"url": "https://a", "title": "", "start_index": 2, "end_index": 5}}),
            page,
            range,
            None,
        ),
        (
            json!({"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 9}),
            file(Some("a.pdf")),
            None,
            None,
        ),
        (
            json!({"type": "container_file_citation", "container_id": "c", "file_id": "f", "filename": "x", "start_index": 2, "end_index": 5}),
            file(Some("x")),
            range,
            None,
        ),
        (json!({"type": "file_path", "file_id": "f", "index": 1}), file(None), None, None),
        (json!({"type": "of_next_year"}), CitationSource::Other, None, None),
        (json!("text"), CitationSource::Other, None, None),
    ] {
        let citation = read(data.clone());
        assert_eq!((citation.source, citation.range, citation.title.as_deref()), (source, expect, title));
        assert_eq!(citation.data, data);
    }
}
