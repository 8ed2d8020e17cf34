//! Documents, search results, recordings and citations in every protocol: in the vendor's form, or as a text in their
//! place.

use agent_core::{
    AgentMessage, AssistantMessage, Citation, CitationSource, Content, DocumentContent, Entry, FileSource,
    History, MediaContent, Message, ModelRequest, SearchResultContent, StopReason, StreamProvider as _,
    TextContent, ToolResultMessage,
};
use agent_providers::ProviderRegistry;
use serde_json::{Value, json};

use crate::eight::{ALL, Vendor};
use crate::reading::{assert_paired, items};

/// How a protocol takes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Native,
    Text,
}

use Takes::{Native, Text};

/// The protocols and how each takes a PDF, a search result, a sound and a film in a message of the user.
const TABLE: [(&str, [Takes; 4]); 8] = [
    ("anthropic", [Native, Native, Text, Text]),
    ("bedrock", [Native, Native, Native, Native]),
    ("gemini", [Native, Text, Native, Native]),
    ("vertex", [Native, Text, Native, Native]),
    ("responses", [Native, Text, Text, Text]),
    ("azure", [Native, Text, Text, Text]),
    ("chat", [Native, Text, Native, Text]),
    ("ollama", [Text, Text, Text, Text]),
];

fn data(data: &str, mime_type: &str) -> FileSource {
    FileSource::Base64 { data: data.into(), mime_type: mime_type.into() }
}

fn pdf() -> Content {
    let document = DocumentContent::new(data("cGRm", "application/pdf")).with_title("lease");
    Content::Document(Box::new(document))
}

fn files() -> Vec<Content> {
    let found = SearchResultContent::new("https://wiki", "Wiki", ["first part", "second part"]);
    vec![
        pdf(),
        Content::SearchResult(Box::new(found)),
        Content::Audio(MediaContent::new(data("c291bmQ=", "audio/wav"))),
        Content::Video(MediaContent::new(data("ZmlsbQ==", "video/mp4"))),
        Content::text("What is this?"),
    ]
}

fn body(vendor: Vendor, history: &History) -> Value {
    let request = ModelRequest::new(vendor.at("http://unused"), history.clone());
    serde_json::from_slice(&ProviderRegistry::default().body(&request).unwrap()).unwrap()
}

/// Whether a text of the body contains this.
fn tells(body: &Value, what: &str) -> bool {
    match body {
        Value::String(text) => text.contains(what),
        Value::Array(list) => list.iter().any(|item| tells(item, what)),
        Value::Object(members) => members.values().any(|item| tells(item, what)),
        _ => false,
    }
}

#[test]
fn a_file_is_sent_in_the_vendors_form_or_a_text_is_in_its_place() {
    for vendor in ALL {
        let takes = TABLE.iter().find(|(name, _)| *name == vendor.name).unwrap().1;
        let mut history = History::new();
        history.push(Message::user_content(files()).into()).unwrap();
        let body = body(vendor, &history);
        let native = ["cGRm", "searchResult", "c291bmQ=", "ZmlsbQ=="];
        let notes = ["[document left out: lease", "Wiki (https://wiki)", "[sound left out", "[film left out"];
        for ((takes, native), note) in takes.into_iter().zip(native).zip(notes) {
            let found = match native {
                // Two protocols have a block for it, whose names differ.
                "searchResult" => {
                    let text = body.to_string();
                    text.contains("\"searchResult\"") || text.contains("\"search_result\"")
                }
                data => tells(&body, data),
            };
            assert_eq!(found, takes == Native, "{}: {native}: {body}", vendor.name);
            assert_eq!(tells(&body, note), takes == Text, "{}: {note}: {body}", vendor.name);
        }
        assert!(tells(&body, "second part") && tells(&body, "What is this?"), "{}", vendor.name);
    }
}

#[test]
fn a_plain_text_reaches_every_model() {
    for vendor in ALL {
        let mut history = History::new();
        let document = DocumentContent::text("the whole text").with_title("notes");
        history.push(Message::user_content(vec![Content::Document(Box::new(document))]).into()).unwrap();
        let body = body(vendor, &history);
        let is_bytes = tells(&body, "dGhlIHdob2xlIHRleHQ=");
        assert!(is_bytes || tells(&body, "the whole text"), "{}: {body}", vendor.name);
    }
}

#[test]
fn a_document_in_a_result_keeps_the_call_and_its_result_together() {
    for vendor in ALL {
        let mut history = History::new();
        history.push(AgentMessage::user("go")).unwrap();
        let mut reply = AssistantMessage::new("elsewhere", "other", StopReason::ToolUse);
        reply.content = vec![Content::tool_call("c1", "fetch", json!({}))];
        let result = ToolResultMessage::new("c1".into(), "fetch".into(), vec![pdf()]);
        let entry = |message: Message| Entry::from(AgentMessage::from(message));
        history.push_exchange(entry(reply.into()), vec![entry(result.into())]).unwrap();
        let body = body(vendor, &history);
        assert_paired(&items(vendor.api, &body), vendor.name);
        let takes = TABLE.iter().find(|(name, _)| *name == vendor.name).unwrap().1[0];
        assert_eq!(tells(&body, "cGRm"), takes == Native, "{}: {body}", vendor.name);
        assert_eq!(tells(&body, "[document left out: lease"), takes == Text, "{}: {body}", vendor.name);
    }
}

#[test]
fn another_model_receives_a_cited_text_without_its_citations() {
    for vendor in ALL {
        let mut text = TextContent::default();
        text.text = "So it is.".into();
        let citation = Citation::new(CitationSource::Url { url: "https://cited".into() });
        text.citations = vec![citation.with_data(json!({"url": "https://cited", "encrypted_index": "mark"}))];
        let mut reply = AssistantMessage::new("elsewhere", "other", StopReason::Stop);
        reply.content = vec![Content::Text(text)];
        let mut history = History::new();
        history.push(AgentMessage::user("go")).unwrap();
        history.push(Message::from(reply).into()).unwrap();
        history.push(AgentMessage::user("on")).unwrap();
        let body = body(vendor, &history);
        assert!(tells(&body, "So it is."), "{}", vendor.name);
        assert!(!tells(&body, "https://cited") && !tells(&body, "mark"), "{}: {body}", vendor.name);
    }
}
