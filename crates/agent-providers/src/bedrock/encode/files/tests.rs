use agent_core::MediaContent;
use serde_json::{Value, json};

use super::*;

fn written(file: &Content) -> Value {
    assert!(takes(file));
    let mut out = Vec::new();
    write(&mut out, file, 0);
    serde_json::from_slice(&out).unwrap()
}

fn bytes(mime_type: &str) -> FileSource {
    FileSource::Base64 { data: "JVBERg==".into(), mime_type: mime_type.into() }
}

#[test]
fn documents_have_the_forms_of_the_api() {
    let document = DocumentContent::pdf("JVBERg==")
        .with_title("Q3/report_v2.pdf")
        .with_context("Draft.")
        .with_citing(Citing::On);
    assert_eq!(
        written(&Content::document(document)),
        json!({"document": {"format": "pdf", "name": "Q3 report v2 pdf", "source": {"bytes": "JVBERg=="},
            "context": "Draft.", "citations": {"enabled": true}}})
    );
    let text = Content::document(DocumentContent::text("a text"));
    assert_eq!(
        written(&text),
        json!({"document": {"format": "txt", "name": "document", "source": {"text": "a text"}}})
    );
    let stored =
        FileSource::Url { url: "s3://b/k".into(), mime_type: Some("text/csv; charset=utf-8".into()) };
    assert_eq!(
        written(&Content::document(DocumentContent::new(stored))),
        json!({"document": {"format": "csv", "name": "document", "source": {"s3Location": {"uri": "s3://b/k"}}}})
    );
    let found = SearchResultContent::new("https://a", "A", ["one", "two"]);
    assert_eq!(
        written(&Content::search_result(found)),
        json!({"searchResult": {"source": "https://a", "title": "A", "content": [{"text": "one"}, {"text": "two"}]}})
    );
}

#[test]
fn recordings_have_the_forms_of_the_api() {
    for (content, expect) in [
        (
            Content::Video(MediaContent::new(bytes("video/3gpp"))),
            json!({"video": {"format": "three_gp", "source": {"bytes": "JVBERg=="}}}),
        ),
        (
            Content::Audio(MediaContent::new(bytes("audio/x-wav"))),
            json!({"audio": {"format": "wav", "source": {"bytes": "JVBERg=="}}}),
        ),
    ] {
        assert_eq!(written(&content), expect);
    }
}

#[test]
fn what_the_api_does_not_take_is_known() {
    let url = |url: &str| FileSource::Url { url: url.into(), mime_type: Some("application/pdf".into()) };
    for content in [
        Content::document(DocumentContent::new(bytes("application/zip"))),
        Content::document(DocumentContent::new(url("https://a/b.pdf"))),
        Content::document(DocumentContent::new(FileSource::Uploaded { file_id: "f".into() })),
        Content::Video(MediaContent::new(bytes("audio/wav"))),
        Content::Audio(MediaContent::new(FileSource::Text { text: "la".into() })),
    ] {
        assert!(!takes(&content), "{content:?}");
    }
}
