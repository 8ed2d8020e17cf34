use serde_json::{Value, json};

use super::*;
use crate::message::Content;

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a table reads better without references")]
fn check(content: Content, form: Value) {
    assert_eq!(serde_json::to_value(&content).unwrap(), form);
    assert_eq!(serde_json::from_value::<Content>(form).unwrap(), content);
}

#[test]
fn files_have_their_forms_as_json() {
    check(
        Content::document(
            DocumentContent::pdf("QUJD").with_title("a").with_context("b").with_citing(Citing::On),
        ),
        json!({"type": "document", "source": {"data": "QUJD", "mimeType": "application/pdf"},
            "title": "a", "context": "b", "citing": "on"}),
    );
    check(
        Content::document(DocumentContent::text("t")),
        json!({"type": "document", "source": {"text": "t"}}),
    );
    let url = FileSource::Url { url: "u".into(), mime_type: Some("audio/wav".into()) };
    check(
        Content::Audio(MediaContent::new(url)),
        json!({"type": "audio", "source": {"url": "u", "mimeType": "audio/wav"}}),
    );
    check(
        Content::Video(MediaContent::new(FileSource::Uploaded { file_id: "f".into() })),
        json!({"type": "video", "source": {"fileId": "f"}}),
    );
    check(
        Content::search_result(SearchResultContent::new("s", "t", ["one"])),
        json!({"type": "searchResult", "source": "s", "title": "t", "parts": ["one"]}),
    );
}
