//! Where requests go, and that the key is in a header only.

use agent_core::History;

use super::*;

fn model(base: Option<&str>, id: &str) -> ModelConfig {
    let model = ModelConfig::google(id, "M", "AIza-secret");
    match base {
        Some(base) => model.with_base_url(base),
        None => model,
    }
}

#[track_caller]
fn check(base: Option<&str>, id: &str, expect: &str) {
    let url = endpoint(&model(base, id)).unwrap();
    assert_eq!(url.as_str(), expect);
    assert!(!url.as_str().contains("secret"));
}

/// REQ-120.
#[test]
fn the_address_names_model_and_method_and_asks_for_events() {
    let vendor = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse";
    check(None, "gemini-2.5-pro", vendor);
    check(None, "models/gemini-2.5-pro", vendor);
    check(None, " gemini-2.5-pro ", vendor);
    check(
        None,
        "tunedModels/mine-1",
        "https://generativelanguage.googleapis.com/v1beta/tunedModels/mine-1:streamGenerateContent?alt=sse",
    );
    let local = "http://127.0.0.1:9/g/v1beta/models/m:streamGenerateContent?alt=sse";
    for base in [
        "http://127.0.0.1:9/g",
        "http://127.0.0.1:9/g/",
        "http://127.0.0.1:9/g/v1beta",
        "http://127.0.0.1:9/g/v1beta/models",
    ] {
        check(Some(base), "m", local);
    }
    check(Some("http://h/v1alpha"), "m", "http://h/v1alpha/models/m:streamGenerateContent?alt=sse");
    check(Some("http://h?tenant=1"), "m", "http://h/v1beta/models/m:streamGenerateContent?tenant=1&alt=sse");
    check(Some("http://h?alt=sse"), "m", "http://h/v1beta/models/m:streamGenerateContent?alt=sse");
}

#[test]
fn what_is_no_address_and_what_would_change_one_is_refused() {
    for base in ["nonsense", "ftp://h", "https:///v1", "http://user:pw@h"] {
        assert!(endpoint(&model(Some(base), "m")).is_err(), "{base}");
    }
    for id in ["", "a b", "m?x=1", "../m", "a//b", "m#x", "m%2f", "ü"] {
        let error = endpoint(&model(None, id)).unwrap_err();
        assert!(error.to_string().contains("cannot stand in an address"), "{id:?}: {error}");
    }
}

/// REQ-120.
#[test]
fn the_key_is_a_sensitive_header() {
    let request = ModelRequest::new(model(None, "m"), History::new());
    let headers = headers(&request).unwrap();
    assert_eq!(headers["x-goog-api-key"], "AIza-secret");
    assert!(headers["x-goog-api-key"].is_sensitive());
    assert!(!format!("{headers:?}").contains("secret"));
    assert!(!headers.contains_key("authorization"));
}

#[test]
fn a_missing_key_is_an_error_that_says_where_it_usually_is() {
    let request = ModelRequest::new(ModelConfig::google("m", "M", ""), History::new());
    let error = headers(&request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.to_string().contains("GEMINI_API_KEY"), "{error}");
    let by_hand = ModelConfig::google("m", "M", "").with_header("Authorization", "Bearer x");
    assert!(headers(&ModelRequest::new(by_hand, History::new())).is_ok());
    let nobody = ModelConfig::google("m", "M", "").without_header("X-Goog-Api-Key");
    assert!(headers(&ModelRequest::new(nobody, History::new())).is_ok());
}
