//! Conversations with documents, search results and recordings, and with replies that cite them.

use agent_core::{
    ApiProtocol, Citation, CitationSource, Citing, Content, DocumentContent, FileSource, MediaContent,
    ModelConfig, SearchResultContent, TextContent,
};
use serde_json::{Value, json};

use super::past::Past;

fn data(mime_type: &str) -> FileSource {
    FileSource::Base64 { data: "JVBERi0xLjQK".to_owned(), mime_type: mime_type.to_owned() }
}

fn document(source: FileSource) -> Content {
    Content::Document(Box::new(
        DocumentContent::new(source)
            .with_title("Grüße.pdf")
            .with_context("An old one.")
            .with_citing(Citing::On),
    ))
}

/// Every kind of file, from every place.
fn files() -> Vec<Content> {
    let address = |mime_type: Option<&str>| FileSource::Url {
        url: "https://example.com/a.pdf".to_owned(),
        mime_type: mime_type.map(str::to_owned),
    };
    let found = SearchResultContent::new("https://example.com", "Example", ["first", "second"]);
    vec![
        document(data("application/pdf")),
        document(data("application/vnd.oasis.opendocument.text")),
        document(FileSource::Text { text: "Größe".to_owned() }),
        document(address(None)),
        document(address(Some("application/pdf"))),
        document(FileSource::Uploaded { file_id: "file-1".to_owned() }),
        Content::SearchResult(Box::new(found.with_citing(Citing::On))),
        Content::Audio(MediaContent::new(data("audio/wav"))),
        Content::Audio(MediaContent::new(data("audio/x-unknown"))),
        Content::Video(MediaContent::new(data("video/mp4"))),
    ]
}

/// A citation in the form of the author's protocol.
fn citation(author: &ModelConfig) -> Value {
    match author.api {
        ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => {
            json!({"type": "char_location", "cited_text": "Gr", "document_index": 2,
            "document_title": "Grüße.pdf", "start_char_index": 0, "end_char_index": 2, "file_id": null})
        }
        ApiProtocol::BedrockConverseStream => json!({"title": "Grüße.pdf", "sourceContent": [{"text": "Gr"}],
            "location": {"documentChar": {"documentIndex": 2, "start": 0, "end": 2}}}),
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => json!({"type": "url_citation",
            "url": "https://example.com", "title": "Example", "start_index": 0, "end_index": 2}),
        _ => json!({"url": "https://example.com"}),
    }
}

/// Files in a message and in a result, and a reply that cites them.
pub(super) fn with_files(author: &ModelConfig) -> anyhow::Result<Past> {
    let mut text = TextContent::default();
    text.text = "Größe.".to_owned();
    let cited = Citation::new(CitationSource::Url { url: "https://example.com".to_owned() });
    text.citations = vec![cited.with_data(citation(author))];
    let mut asked = files();
    asked.push(Content::text("What do they say?"));
    Past::by(author)
        .user(asked)?
        .reply(vec![Content::Text(text)])?
        .user(vec![Content::text("And now read the rest.")])?
        .exchange(vec![Content::tool_call("call_1", "note", json!({}))], vec![(files(), false)])?
        .reply(vec![Content::text("Read.")])
}
