//! Where requests go and how they are signed.

use agent_core::History;

use super::*;

const KEY: &str = "0123456789abcdef0123456789abcdef";

fn model(base: &str) -> ModelConfig {
    ModelConfig::azure(base, "my-gpt", KEY)
}

#[track_caller]
fn check(base: &str, expect: &str) {
    assert_eq!(endpoint(&model(base)).unwrap().as_str(), expect, "{base}");
}

/// REQ-124, B-158.
#[test]
fn the_shape_of_the_address_says_where_the_endpoint_is() {
    let host = "https://res.openai.azure.com";
    let v1 = "https://res.openai.azure.com/openai/v1/responses";
    check(host, v1);
    check(&format!("{host}/"), v1);
    check(&format!("{host}/openai"), v1);
    check(&format!("{host}/openai/v1"), v1);
    check(&format!(" {host}/openai/v1/ "), v1);
    check(v1, v1);
    check(&format!("{host}/openai/v1?api-version=preview"), &format!("{v1}?api-version=preview"));
    check(
        &format!("{host}/openai?api-version=2025-04-01-preview"),
        &format!("{host}/openai/responses?api-version=2025-04-01-preview"),
    );
    let deployment = format!("{host}/openai/deployments/my-gpt");
    check(&deployment, &format!("{deployment}/responses?api-version=2025-01-01-preview"));
    check(
        &format!("{deployment}/?api-version=2025-03-01-preview"),
        &format!("{deployment}/responses?api-version=2025-03-01-preview"),
    );
    check(
        &format!("{host}/openai/deployments?x=1"),
        &format!("{deployment}/responses?x=1&api-version=2025-01-01-preview"),
    );
    check("https://gw.example/azure", "https://gw.example/azure/responses");
    check("https://res.services.ai.azure.com", "https://res.services.ai.azure.com/openai/v1/responses");
}

#[test]
fn a_missing_or_wrong_address_is_named() {
    let mut none = model("https://h");
    none.base_url = None;
    for model in [none, model("res"), model("https://user:pass@h/openai/v1")] {
        let error = endpoint(&model).unwrap_err();
        assert!(error.to_string().contains("openai.azure.com") || error.to_string().contains("base_url"));
    }
}

fn sent(model: ModelConfig) -> HeaderMap {
    headers(&ModelRequest::new(model, History::new())).unwrap()
}

/// REQ-124, B-158.
#[test]
fn a_key_goes_as_api_key_and_a_token_as_bearer() {
    let by_key = sent(model("https://h"));
    assert_eq!(by_key.get("api-key").unwrap(), KEY);
    assert!(by_key.get("authorization").is_none());
    assert!(!format!("{by_key:?}").contains(KEY));
    let token = "eyJhbGciOiJub25lIn0.eyJhdWQiOiJ4In0.c2ln";
    let by_token = sent(ModelConfig::azure("https://h", "my-gpt", token));
    assert_eq!(by_token.get("authorization").unwrap(), &format!("Bearer {token}"));
    assert!(by_token.get("api-key").is_none());
    assert!(!format!("{by_token:?}").contains("eyJ"));
}

#[test]
fn a_header_by_hand_stands_in_for_the_key() {
    let by_hand = model("https://h").with_header("Authorization", "Bearer own");
    assert!(sent(by_hand).get("api-key").is_none(), "not both");
    let none = ModelConfig::azure("https://h", "my-gpt", "");
    let error = headers(&ModelRequest::new(none.clone(), History::new())).unwrap_err();
    assert!(error.kind() == ErrorKind::Auth && error.to_string().contains("AZURE_OPENAI_API_KEY"), "{error}");
    assert!(headers(&ModelRequest::new(none.with_header("api-key", "own"), History::new())).is_ok());
}
