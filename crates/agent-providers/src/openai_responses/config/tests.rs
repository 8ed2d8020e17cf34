//! Where requests go and how they are signed.

use agent_core::History;

use super::*;

fn model() -> ModelConfig {
    ModelConfig::openai_responses("gpt-test", "GPT", "sk-secret")
}

#[track_caller]
fn check_endpoint(model: &ModelConfig, expect: &str) {
    assert_eq!(endpoint(model).unwrap().as_str(), expect);
}

/// REQ-123.
#[test]
fn the_address_is_the_vendors_the_providers_or_the_callers() {
    check_endpoint(&model(), "https://api.openai.com/v1/responses");
    check_endpoint(&model().with_base_url("http://localhost:1/v1/"), "http://localhost:1/v1/responses");
    check_endpoint(&model().with_base_url("https://gw/v1/responses?a=b"), "https://gw/v1/responses?a=b");
    let xai = ModelConfig::new(ApiProtocol::OpenAiResponses, "xai", "grok-4.3");
    check_endpoint(&xai, "https://api.x.ai/v1/responses");
    let nobody = ModelConfig::new(ApiProtocol::OpenAiResponses, "nobody", "m");
    let error = endpoint(&nobody).unwrap_err();
    assert!(error.to_string().contains("nobody") && error.to_string().contains("base_url"), "{error}");
}

#[test]
fn models_of_the_vendor_are_known_by_provider_host_and_protocol() {
    assert!(is_vendor(&model()));
    assert!(is_vendor(&model().with_base_url("http://localhost:1")));
    let other = ModelConfig::new(ApiProtocol::OpenAiResponses, "other", "m");
    assert!(is_vendor(&other.clone().with_base_url("https://api.openai.com/v1")));
    assert!(!is_vendor(&other.clone().with_base_url("https://api.openai.com.evil.example/v1")));
    assert!(!is_vendor(&other.with_base_url("http://localhost:1/v1")));
    assert!(is_vendor(&ModelConfig::azure("https://x.openai.azure.com", "d", "k")));
}

#[test]
fn a_key_is_a_bearer_token_and_is_shown_nowhere() {
    let sent = headers(&ModelRequest::new(model(), History::new())).unwrap();
    assert_eq!(sent.get("authorization").unwrap(), "Bearer sk-secret");
    assert!(!format!("{sent:?}").contains("sk-secret"));
}

/// REQ-123.
#[test]
fn a_missing_key_is_named_before_anything_is_sent_unless_nobody_needs_one() {
    let of = |model: ModelConfig| headers(&ModelRequest::new(model, History::new()));
    let mut none = model();
    none.api_key = None;
    let error = of(none.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.to_string().contains("OPENAI_API_KEY"), "{error}");
    let local =
        ModelConfig::new(ApiProtocol::OpenAiResponses, "vllm", "m").with_base_url("http://localhost:1/v1");
    assert!(of(local).unwrap().get("authorization").is_none());
    assert!(of(none.clone().with_header("Authorization", "Bearer own")).is_ok());
    assert!(of(none.without_header("authorization")).is_ok());
}
