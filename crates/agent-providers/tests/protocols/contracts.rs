//! What each protocol is: where a request goes and who it says it is from, what a reply is made of, why it stopped. And
//! that the page of each protocol says so.

use agent_core::{ApiProtocol, Content, ErrorKind, ModelRequest, StopReason, ToolDefinition};
use agent_providers::ProviderRegistry;
use serde_json::json;

use crate::eight::{ALL, ANTHROPIC, AZURE, BEDROCK, CHAT, GEMINI, OLLAMA, RESPONSES, Said, VERTEX, Vendor};
use crate::support::{Asked, Outcome, Server, call, hello};

/// Where a request goes, and the header that says who asks.
struct Contract {
    vendor: Vendor,
    line: &'static str,
    auth: (&'static str, &'static str),
    page: &'static str,
    /// What the page says of the address.
    endpoint: &'static str,
}

const CONTRACTS: [Contract; 8] = [
    Contract {
        vendor: ANTHROPIC,
        line: "POST /v1/messages",
        auth: ("x-api-key", "sk-ant-secret-one"),
        page: "anthropic",
        endpoint: "/v1/messages",
    },
    Contract {
        vendor: CHAT,
        line: "POST /chat/completions",
        auth: ("authorization", "Bearer sk-secret-two-of-chat"),
        page: "openai-chat",
        endpoint: "/chat/completions",
    },
    Contract {
        vendor: RESPONSES,
        line: "POST /responses",
        auth: ("authorization", "Bearer sk-secret-three-of-responses"),
        page: "openai-responses",
        endpoint: "/responses",
    },
    Contract {
        vendor: AZURE,
        line: "POST /openai/v1/responses",
        auth: ("api-key", "azure-secret-four"),
        page: "azure",
        endpoint: "/openai/v1/responses",
    },
    Contract {
        vendor: GEMINI,
        line: "POST /v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse",
        auth: ("x-goog-api-key", "AIza-secret-five"),
        page: "google",
        endpoint: ":streamGenerateContent?alt=sse",
    },
    Contract {
        vendor: VERTEX,
        line: "POST /v1/projects/a-project/locations/europe-west4/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        auth: ("authorization", "Bearer ya29.secret-token-six"),
        page: "vertex",
        endpoint: ":streamGenerateContent?alt=sse",
    },
    Contract {
        vendor: BEDROCK,
        line: "POST /model/global.anthropic.claude-opus-4-8/converse-stream",
        auth: ("authorization", "AWS4-HMAC-SHA256 Credential=AKIDSECRET000007/"),
        page: "bedrock",
        endpoint: "/converse-stream",
    },
    Contract {
        vendor: OLLAMA,
        line: "POST /api/chat",
        auth: ("authorization", "Bearer ollama-secret-eight"),
        page: "ollama",
        endpoint: "/api/chat",
    },
];

async fn ask(vendor: Vendor, said: &Said) -> (Outcome, Asked) {
    let server = Server::start(vec![vendor.answer(said)]).await;
    let mut request: ModelRequest = hello(vendor.at(&format!("http://{}", server.address)));
    request.tools =
        vec![ToolDefinition::new("look", "Looks.", json!({"type": "object", "properties": {}}))].into();
    let outcome = call(&ProviderRegistry::default(), &request).await;
    (outcome, server.asked().remove(0))
}

/// REQ-167.
#[tokio::test]
async fn a_request_goes_where_the_vendor_listens_and_says_who_asks() {
    for contract in CONTRACTS {
        let (outcome, asked) = ask(contract.vendor, &Said::text("Hello.")).await;
        let what = contract.vendor.name;
        assert_eq!(outcome.text(), "Hello.", "{what}");
        assert_eq!(asked.line, format!("{} HTTP/1.1", contract.line), "{what}");
        let header = |name: &str| {
            let line =
                asked.headers.lines().find(|l| l.to_ascii_lowercase().starts_with(&format!("{name}:")));
            line.and_then(|l| l.split_once(": ")).map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        let (name, value) = contract.auth;
        assert!(header(name).starts_with(value), "{what}: {}", asked.headers);
        assert_eq!(header("content-type"), "application/json", "{what}");
        assert!(asked.json().is_object(), "{what}");
    }
}

/// REQ-167.
#[tokio::test]
async fn a_reply_becomes_thinking_text_and_calls_with_their_usage() {
    for vendor in ALL {
        let said = Said { thinks: true, ..Said::text("Let me see.") }
            .call("call_a", "look", json!({"at": "Köln"}))
            .call("call_b", "look", json!({"at": "東京", "deep": [1, {"x": null}]}));
        let (outcome, _) = ask(vendor, &said).await;
        let message = outcome.message();
        let what = vendor.name;
        assert_eq!(
            (message.text().as_str(), message.stop_reason),
            ("Let me see.", StopReason::ToolUse),
            "{what}"
        );
        let thought = message.content.iter().find_map(|c| match c {
            Content::Thinking(t) if !t.thinking.is_empty() => Some(t.thinking.clone()),
            _ => None,
        });
        assert_eq!(thought, Some(vendor.thought()), "{what}");
        let calls: Vec<_> = message.tool_calls().collect();
        assert_eq!(calls.len(), 2, "{what}");
        assert!(calls.iter().all(|c| c.name == "look" && !c.id.as_str().is_empty()), "{what}");
        assert_ne!(calls[0].id, calls[1].id, "{what}");
        assert_eq!(
            calls[1].arguments.value().unwrap(),
            &json!({"at": "東京", "deep": [1, {"x": null}]}),
            "{what}"
        );
        if vendor != OLLAMA {
            assert_eq!((calls[0].id.as_str(), calls[1].id.as_str()), ("call_a", "call_b"), "{what}");
        }
        if vendor != CHAT {
            assert_eq!((message.usage.input, message.usage.output), (3, 2), "{what}");
        }
    }
}

/// A vendor's word, and what it means.
type Word = (&'static str, Result<StopReason, ErrorKind>);

#[track_caller]
fn check_stop(outcome: &Outcome, vendor: Vendor, word: &str, expect: Result<StopReason, ErrorKind>) {
    let found = outcome.end.as_ref().map(|end| end.stop_reason).map_err(agent_core::ProviderError::kind);
    assert_eq!(found, expect, "{} {word}: {:?}", vendor.name, outcome.end);
}

/// REQ-167.
#[tokio::test]
async fn the_vendors_words_for_why_a_model_stopped_are_understood() {
    let (stop, length) = (Ok(StopReason::Stop), Ok(StopReason::Length));
    let refused = Err(ErrorKind::Api);
    let words: &[(Vendor, &[Word])] = &[
        (
            ANTHROPIC,
            &[("end_turn", stop), ("stop_sequence", stop), ("max_tokens", length), ("refusal", refused)],
        ),
        (CHAT, &[("stop", stop), ("length", length), ("content_filter", refused)]),
        (RESPONSES, &[("max_output_tokens", length), ("content_filter", refused)]),
        (AZURE, &[("max_output_tokens", length), ("content_filter", refused)]),
        (GEMINI, &[("STOP", stop), ("MAX_TOKENS", length), ("SAFETY", refused), ("RECITATION", refused)]),
        (VERTEX, &[("STOP", stop), ("MAX_TOKENS", length), ("SPII", refused)]),
        (
            BEDROCK,
            &[
                ("end_turn", stop),
                ("stop_sequence", stop),
                ("max_tokens", length),
                ("guardrail_intervened", refused),
                ("content_filtered", refused),
            ],
        ),
        (OLLAMA, &[("stop", stop), ("length", length)]),
    ];
    assert_eq!(words.len(), ALL.len());
    for (vendor, words) in words {
        for (word, expect) in *words {
            let (outcome, _) = ask(*vendor, &Said { reason: Some(word), ..Said::text("Said.") }).await;
            check_stop(&outcome, *vendor, word, *expect);
            assert_eq!(outcome.text(), "Said.", "{} {word}: what had arrived is kept", vendor.name);
        }
        let (outcome, _) = ask(*vendor, &Said::default().call("c", "look", json!({}))).await;
        check_stop(&outcome, *vendor, "calls", Ok(StopReason::ToolUse));
        if !matches!(vendor.api, ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses) {
            let (outcome, _) =
                ask(*vendor, &Said { reason: Some("of_next_year"), ..Said::text("Said.") }).await;
            let text = outcome.error().to_string();
            assert!(text.contains("of_next_year"), "{}: an unknown word is named: {text}", vendor.name);
        }
    }
}

/// REQ-174.
#[test]
fn every_protocol_has_a_page_that_says_what_is_on_the_wire() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers/");
    let own_cases = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/MANIFEST.json");
    let cases = std::fs::read_to_string(own_cases).unwrap();
    let cases: serde_json::Value = serde_json::from_str(&cases).unwrap();
    for contract in CONTRACTS {
        let page = std::fs::read_to_string(format!("{root}{}.md", contract.page)).unwrap();
        let what = contract.page;
        let heads: Vec<String> =
            page.lines().filter_map(|l| l.strip_prefix("## ")).map(str::to_lowercase).collect();
        for subject in ["authentication", "endpoint", "request", "response", "quirks", "limits"] {
            // A page of a sibling's protocol sends its reader there for what is the same.
            let elsewhere = what == "vertex" && ["request", "response"].contains(&subject);
            assert!(
                elsewhere || heads.iter().any(|h| h.contains(subject)),
                "{what}: nothing of {subject}: {heads:?}"
            );
        }
        assert!(page.contains(contract.endpoint), "{what}: the address {}", contract.endpoint);
        let header = contract.auth.0;
        assert!(page.to_lowercase().contains(header), "{what}: the header {header}");
        assert!(
            contract.vendor.api.feature().is_some_and(|feature| page.contains(feature)),
            "{what}: the feature"
        );
        // The page names recorded cases, and they are there.
        let folder = match contract.vendor.api {
            ApiProtocol::GoogleGenerativeAi => "gemini",
            ApiProtocol::AzureOpenAiResponses => "azure-responses",
            _ => what,
        };
        let names: Vec<&str> = cases["cases"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|c| c["protocol"] == folder)
            .map(|c| c["case"].as_str().unwrap())
            .collect();
        assert!(!names.is_empty(), "{what}: no recorded cases");
        let named = names.iter().filter(|name| page.contains(&format!("`{name}`"))).count();
        assert!(named >= 3, "{what}: {named} of the recorded cases are named: {names:?}");
    }
}
