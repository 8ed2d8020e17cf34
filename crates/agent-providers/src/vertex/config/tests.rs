//! Where requests go, and who is said to send them.

use agent_core::History;

use super::*;

fn request(model: ModelConfig) -> ModelRequest {
    ModelRequest::new(model, History::new())
}

#[track_caller]
fn check(model: ModelConfig, expect: &str) {
    let url = endpoint(&request(model), Publisher::Google).unwrap();
    assert_eq!(url.as_str(), format!("{expect}:streamGenerateContent?alt=sse"));
}

/// REQ-121.
#[test]
fn the_address_names_region_project_and_model() {
    let vertex = ModelConfig::vertex;
    let resource =
        |region: &str| format!("v1/projects/my-p/locations/{region}/publishers/google/models/gemini-2.5-pro");
    for (region, host) in [
        ("us-central1", "us-central1-aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
    ] {
        check(vertex("my-p", region, "gemini-2.5-pro"), &format!("https://{host}/{}", resource(region)));
    }
    check(
        vertex("my-p", "", "gemini-2.5-pro"),
        &format!("https://aiplatform.googleapis.com/{}", resource("global")),
    );
    check(
        vertex("my-p", "eu", "publishers/google/models/gemini-2.5-pro"),
        &format!("https://aiplatform.eu.rep.googleapis.com/{}", resource("eu")),
    );
    check(
        vertex("my-p", "us-east1", "projects/9/locations/us-east1/endpoints/77"),
        "https://us-east1-aiplatform.googleapis.com/v1/projects/9/locations/us-east1/endpoints/77",
    );
    let local = "http://127.0.0.1:9/v1/projects/my-p/locations/r/publishers/google/models/m";
    for base in ["http://127.0.0.1:9", "http://127.0.0.1:9/v1/"] {
        check(vertex("my-p", "r", "m").with_base_url(base), local);
    }
    check(vertex("my-p", "r", "m").with_base_url("http://h/x/models"), "http://h/x/models/m");
}

#[test]
fn without_a_project_an_api_key_is_needed_and_then_it_is_express_mode() {
    let none = || ModelConfig::vertex("", "", "m");
    let error = endpoint(&request(none()), Publisher::Google).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.to_string().contains("project"), "{error}");
    check(none().with_api_key("any"), "https://aiplatform.googleapis.com/v1/publishers/google/models/m");
}

#[test]
fn names_that_would_change_the_address_are_refused() {
    for (project, region, id) in [
        ("a/../b", "r", "m"),
        ("p?", "r", "m"),
        ("p", "r r", "m"),
        ("p", "r", "m#"),
        ("p", "evil.com/x", "m"),
        ("p", "evil.com", "m"),
        ("p/x", "r", "m"),
    ] {
        assert!(
            endpoint(&request(ModelConfig::vertex(project, region, id)), Publisher::Google).is_err(),
            "{project} {region} {id}"
        );
    }
}

#[track_caller]
fn check_key(project: &str, key: &str, header: &str, value: &str) {
    let headers = headers(&request(ModelConfig::vertex(project, "r", "m").with_api_key(key))).unwrap();
    assert_eq!(headers.get(header).map(|v| v.to_str().unwrap()), Some(value), "{key}");
    assert!(headers[header].is_sensitive());
    let other = if header == "authorization" { "x-goog-api-key" } else { "authorization" };
    assert!(!headers.contains_key(other));
}

/// REQ-121.
#[test]
fn a_token_is_a_bearer_and_an_api_key_is_a_key() {
    check_key("p", "ya29.token", "authorization", "Bearer ya29.token");
    check_key("p", "AIzaKey", "x-goog-api-key", "AIzaKey");
    check_key("p", "AQ.key", "x-goog-api-key", "AQ.key");
    check_key("", "anything", "x-goog-api-key", "anything");
}

#[test]
fn who_calls_is_told_by_the_key() {
    let of = |model: ModelConfig| format!("{:?}", credential(&request(model)));
    let vertex = || ModelConfig::vertex("p", "r", "m");
    assert_eq!(of(vertex()), "Default");
    assert_eq!(of(vertex().with_header("authorization", "Bearer x")), "ByHand");
    assert_eq!(of(vertex().without_header("Authorization")), "ByHand");
    let account = of(vertex().with_api_key(" {\"private_key\": \"secret\"}"));
    assert!(account.starts_with("Account") && !account.contains("secret"), "{account}");
}

#[test]
fn claude_has_its_publisher_and_method_and_no_express_mode() {
    let of = |model: ModelConfig| endpoint(&request(model), Publisher::Anthropic);
    let claude = |region: &str| ModelConfig::vertex_claude("my-p", region, "claude-sonnet-4-5@20250929");
    for (region, host) in [
        ("europe-west1", "europe-west1-aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
    ] {
        let expect = format!(
            "https://{host}/v1/projects/my-p/locations/{region}/publishers/anthropic/models/\
             claude-sonnet-4-5@20250929:streamRawPredict"
        );
        assert_eq!(of(claude(region)).unwrap().as_str(), expect);
    }
    let proxy = of(claude("r").with_base_url("http://h/v1")).unwrap();
    assert!(
        proxy.as_str().starts_with("http://h/v1/projects/my-p/locations/r/publishers/anthropic/"),
        "{proxy}"
    );
    let error = of(ModelConfig::vertex_claude("", "global", "m").with_api_key("any")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.to_string().contains("project"), "{error}");
}
