//! The lists of models of the providers, requested over loopback HTTP.

use agent_core::{CancellationToken, ErrorKind, ModelConfig, ProviderError, ThinkingForm, ThinkingLevel};
use agent_providers::{Catalogue, ModelFacts, Transport, models};
use serde_json::{Value, json};

use crate::eight::{ANTHROPIC, AZURE, BEDROCK, CHAT, GEMINI, OLLAMA, RESPONSES, VERTEX, Vendor};
use crate::support::{Act, Asked, Server, head};

async fn list(
    vendor: Vendor,
    status: u16,
    pages: &[Value],
) -> (Result<Vec<ModelFacts>, ProviderError>, Vec<Asked>) {
    let answer = |page: &Value| {
        vec![head(status, "application/json"), Act::Piece(page.to_string().into_bytes()), Act::End]
    };
    let server = Server::start(pages.iter().map(answer).collect()).await;
    let model = vendor.at(&server.url());
    let found = models::list(&Transport::default(), &model, "2026-11-24", &CancellationToken::new()).await;
    (found, server.asked())
}

#[tokio::test]
async fn anthropic_lists_limits_and_capabilities_in_pages() {
    let yes = json!({"supported": true});
    let no = json!({"supported": false});
    let new = json!({"id": "claude-sonnet-9", "display_name": "Claude Sonnet 9", "type": "model",
        "max_input_tokens": 2_000_000, "max_tokens": 256_000, "capabilities": {
            "image_input": yes, "structured_outputs": yes,
            "effort": {"supported": true, "low": yes, "medium": yes, "high": yes, "xhigh": null, "max": yes},
            "thinking": {"supported": true, "types": {"adaptive": yes, "enabled": no}}}});
    let pages = [
        json!({"data": [new], "has_more": true, "last_id": "claude-sonnet-9"}),
        json!({"data": [{"id": "claude-bare"}, {"no": "id"}], "has_more": false, "last_id": null}),
    ];
    let (found, asked) = list(ANTHROPIC, 200, &pages).await;
    let found = found.unwrap();
    let lines: Vec<&str> = asked.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(
        lines,
        ["GET /v1/models?limit=1000 HTTP/1.1", "GET /v1/models?limit=1000&after_id=claude-sonnet-9 HTTP/1.1",]
    );
    assert!(asked.iter().all(|request| request.headers.contains(ANTHROPIC.key)));
    let [sonnet, bare] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (&*sonnet.provider, &*sonnet.id, &*sonnet.name),
        ("anthropic", "claude-sonnet-9", "Claude Sonnet 9")
    );
    assert_eq!((sonnet.context_window, sonnet.max_tokens), (Some(2_000_000), Some(256_000)));
    assert_eq!((sonnet.images, sonnet.json_schema), (Some(true), Some(true)));
    assert_eq!((sonnet.thinking, sonnet.thinking_budget), (Some(ThinkingForm::Adaptive), false));
    use ThinkingLevel::{High, Low, Max, Medium};
    assert_eq!(sonnet.thinking_levels, [Low, Medium, High, Max]);
    assert_eq!((bare.context_window, bare.images, bare.thinking), (None, None, None));
    assert!(sonnet.as_of == "2026-11-24" && sonnet.source.ends_with("/v1/models"), "{}", sonnet.source);

    let unknown = ModelConfig::anthropic("claude-sonnet-9", "S", "k");
    let known = Catalogue::builtin().with(Catalogue::from_models(found)).configure(unknown);
    assert_eq!((known.context_window, known.max_tokens), (Some(2_000_000), Some(256_000)));
}

#[track_caller]
fn only(found: Result<Vec<ModelFacts>, ProviderError>) -> (String, Option<u32>, Option<u32>, Option<bool>) {
    let found = found.unwrap();
    let [model] = &found[..] else { panic!("{found:?}") };
    (model.id.clone(), model.context_window, model.max_tokens, model.images)
}

#[tokio::test]
async fn other_providers_list_what_they_know() {
    let named = json!({"object": "list", "data": [{"id": "gpt-9", "object": "model", "owned_by": "x"}]});
    for vendor in [CHAT, RESPONSES, AZURE] {
        let (found, asked) = list(vendor, 200, std::slice::from_ref(&named)).await;
        assert_eq!(only(found), ("gpt-9".into(), None, None, None), "{}", vendor.name);
        assert!(asked[0].line.starts_with("GET ") && asked[0].line.contains("/models"), "{}", asked[0].line);
        assert!(asked[0].headers.contains(vendor.key), "{}", vendor.name);
    }
    for (entry, expect) in [
        (json!({"id": "m", "context_window": 9, "max_completion_tokens": 3}), (Some(9), Some(3), None)),
        (json!({"id": "m", "max_model_len": 7}), (Some(7), None, None)),
        (
            json!({"id": "m", "context_length": 5, "top_provider": {"max_completion_tokens": 2},
                "architecture": {"input_modalities": ["text", "image"]}}),
            (Some(5), Some(2), Some(true)),
        ),
        (json!({"id": "m", "context_length": 0, "max_tokens": "many"}), (None, None, None)),
    ] {
        let (found, _) = list(CHAT, 200, &[json!({"data": [entry]})]).await;
        let (_, window, limit, images) = only(found);
        assert_eq!((window, limit, images), expect);
    }
    let gemini = json!({"models": [{"name": "models/gemini-9", "displayName": "Gemini 9", "inputTokenLimit": 4,
        "outputTokenLimit": 2}]});
    let (found, asked) = list(GEMINI, 200, &[gemini]).await;
    assert_eq!(only(found), ("gemini-9".into(), Some(4), Some(2), None));
    assert!(asked[0].line.ends_with("/models?pageSize=1000 HTTP/1.1"), "{}", asked[0].line);
    let (found, asked) =
        list(OLLAMA, 200, &[json!({"models": [{"name": "qwen9:8b", "model": "qwen9:8b"}]})]).await;
    assert_eq!(only(found), ("qwen9:8b".into(), None, None, None));
    assert!(asked[0].line.ends_with("/api/tags HTTP/1.1"), "{}", asked[0].line);
}

#[tokio::test]
async fn a_list_that_cannot_be_had_is_an_error_without_the_key() {
    for vendor in [BEDROCK, VERTEX] {
        let (found, asked) = list(vendor, 200, &[json!({})]).await;
        assert!(found.unwrap_err().to_string().contains("has no list of models"));
        assert!(asked.is_empty());
    }
    let body = json!({"error": {"type": "authentication_error", "message": format!("no {}", ANTHROPIC.key)}});
    let (found, _) = list(ANTHROPIC, 401, &[body]).await;
    let error = found.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(!error.to_string().contains(ANTHROPIC.key), "{error}");
    let (found, _) = list(CHAT, 200, &[json!("a web page")]).await;
    assert_eq!(found.unwrap(), []);
}
