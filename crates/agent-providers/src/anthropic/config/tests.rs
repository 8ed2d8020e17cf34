use agent_core::{ErrorKind, History};

use super::*;

fn model() -> ModelConfig {
    ModelConfig::anthropic("claude-test", "Claude", "sk-secret")
}

#[track_caller]
fn check_endpoint(base: &str, expect: &str) {
    assert_eq!(endpoint(&model().with_base_url(base)).unwrap().as_str(), expect);
}

#[test]
fn the_address_may_end_with_a_slash_a_version_or_the_whole_path() {
    assert_eq!(endpoint(&model()).unwrap().as_str(), "https://api.anthropic.com/v1/messages");
    check_endpoint("http://localhost:1/", "http://localhost:1/v1/messages");
    check_endpoint("http://localhost:1/v1", "http://localhost:1/v1/messages");
    check_endpoint("http://localhost:1/v1/", "http://localhost:1/v1/messages");
    check_endpoint("http://localhost:1/case/x/", "http://localhost:1/case/x/v1/messages");
    check_endpoint(" https://gw/anthropic/v1/messages ", "https://gw/anthropic/v1/messages");
    check_endpoint("https://gw/v1?beta=true", "https://gw/v1/messages?beta=true");
}

#[test]
fn an_address_that_is_none_is_named_before_anything_is_sent() {
    for base in ["", "localhost:1", "ftp://x", "https://u:p@x"] {
        let error = endpoint(&model().with_base_url(base)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().contains("base_url"), "{error}");
    }
}

#[test]
fn only_the_vendors_own_host_is_the_vendor() {
    assert!(is_vendor(&model()));
    assert!(is_vendor(&model().with_base_url("https://api.anthropic.com/v1")));
    assert!(!is_vendor(&model().with_base_url("https://api.anthropic.com.evil.example")));
    assert!(!is_vendor(&model().with_base_url("http://localhost:1")));
}

#[track_caller]
fn sent(model: ModelConfig) -> Vec<(String, String)> {
    let request = ModelRequest::new(model, History::new());
    let headers = headers(&request).unwrap();
    headers.iter().map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned())).collect()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// REQ-040.
#[test]
fn a_key_is_sent_as_x_api_key_with_the_version() {
    assert_eq!(
        sent(model()),
        [
            pair("content-type", "application/json"),
            pair("user-agent", concat!("looptree/", env!("CARGO_PKG_VERSION"))),
            pair("accept", "text/event-stream"),
            pair("anthropic-version", "2023-06-01"),
            pair("x-api-key", "sk-secret"),
        ]
    );
}

/// REQ-159.
#[test]
fn the_headers_of_the_vendors_client_are_sent_only_when_asked_for() {
    let mut asked = model();
    asked.anthropic_auth = AnthropicAuth::OAuthClient;
    let sent_headers = sent(asked);
    for expect in [
        pair("authorization", "Bearer sk-secret"),
        pair(
            "anthropic-beta",
            "claude-code-20250219,oauth-2025-04-20,fine-grained-tool-streaming-2025-05-14",
        ),
        pair("x-app", "cli"),
        pair("anthropic-dangerous-direct-browser-access", "true"),
        pair("user-agent", "claude-cli/2.1.2"),
    ] {
        assert!(sent_headers.contains(&expect), "{expect:?} in {sent_headers:?}");
    }
    assert!(!sent_headers.iter().any(|(n, _)| n == "x-api-key"));

    // A key that looks like such a token does not switch it on.
    let token = ModelConfig::anthropic("claude-test", "Claude", "sk-ant-oat01-x");
    assert!(!sent(token).iter().any(|(n, _)| n == "x-app" || n == "authorization"));
    let mut bearer = model();
    bearer.anthropic_auth = AnthropicAuth::Bearer;
    let bearer = sent(bearer);
    assert!(bearer.contains(&pair("authorization", "Bearer sk-secret")));
    assert!(!bearer.iter().any(|(n, _)| n == "x-app" || n == "x-api-key"));
}

#[test]
fn a_missing_key_is_an_error_unless_the_headers_sign_in_themselves() {
    let keyless = || ModelConfig::anthropic("claude-test", "Claude", "");
    let error = headers(&ModelRequest::new(keyless(), History::new())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.to_string().contains("API key"), "{error}");
    assert!(
        headers(&ModelRequest::new(keyless().with_header("Authorization", "Basic x"), History::new()))
            .is_ok()
    );
    assert!(!sent(keyless().without_header("x-api-key")).iter().any(|(n, _)| n == "x-api-key"));
    let mut called = ModelRequest::new(keyless(), History::new());
    called.api_key = Some("of-the-call".into());
    assert_eq!(headers(&called).unwrap()["x-api-key"], "of-the-call");
}

#[track_caller]
fn check_betas(model: ModelConfig, expect: &[&str]) {
    let request = ModelRequest::new(model, History::new());
    let headers = headers(&request).unwrap();
    let found: Vec<&str> = headers.get_all("anthropic-beta").iter().map(|v| v.to_str().unwrap()).collect();
    assert_eq!(found, expect);
    assert_eq!(controls_binding(&request), expect.contains(&BINDING_CONTROLS));
}

#[test]
fn a_model_that_binds_its_thinking_is_told_to_drop_what_no_longer_fits() {
    let bound = || ModelConfig::anthropic("claude-opus-5-5", "Opus", "key");
    check_betas(bound(), &[BINDING_CONTROLS]);
    check_betas(model(), &[]);
    check_betas(ModelConfig::anthropic("claude-opus-4-8", "Opus", "key"), &[]);
    check_betas(bound().with_base_url("http://localhost:1"), &[]);
    // Who names betas by hand decides alone.
    check_betas(bound().with_header("Anthropic-Beta", "other"), &[]);
    check_betas(bound().without_header("anthropic-beta"), &[]);
    check_betas(
        bound().with_header("anthropic-beta", format!("other,{BINDING_CONTROLS}")),
        &[BINDING_CONTROLS],
    );
    let mut client = bound();
    client.anthropic_auth = AnthropicAuth::OAuthClient;
    check_betas(
        client,
        &["claude-code-20250219,oauth-2025-04-20,fine-grained-tool-streaming-2025-05-14", BINDING_CONTROLS],
    );
}

#[test]
fn a_credential_is_marked_and_never_shown() {
    let request = ModelRequest::new(model(), History::new());
    assert!(headers(&request).unwrap()["x-api-key"].is_sensitive());
    assert!(!format!("{:?}", headers(&request).unwrap()).contains("sk-secret"));
    let broken = ModelConfig::anthropic("claude-test", "Claude", "sk-sec\nret");
    let error = headers(&ModelRequest::new(broken, History::new())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(!format!("{error:?} {error}").contains("sk-sec"));
}
