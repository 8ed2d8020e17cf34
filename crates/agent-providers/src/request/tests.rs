//! Addresses and headers.

use super::*;
use agent_core::History;

#[track_caller]
fn check_endpoint(base: Option<&str>, expect: Result<&str, &str>) {
    let mut model = ModelConfig::openai("m", "M", "k");
    model.base_url = base.map(str::to_owned);
    let got = endpoint(&model, "https://api.openai.com/v1", "/chat/completions");
    match (got, expect) {
        (Ok(url), Ok(expect)) => assert_eq!(url.as_str(), expect),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (got, expect) => panic!("{base:?}: got {got:?}, expected {expect:?}"),
    }
}

/// REQ-147.
#[test]
fn the_address_is_the_base_and_the_path() {
    check_endpoint(None, Ok("https://api.openai.com/v1/chat/completions"));
    check_endpoint(Some("http://localhost:8080/v1/"), Ok("http://localhost:8080/v1/chat/completions"));
    check_endpoint(Some("https://h/v1/chat/completions"), Ok("https://h/v1/chat/completions"));
    check_endpoint(Some("https://h/d?api-version=1"), Ok("https://h/d/chat/completions?api-version=1"));
    check_endpoint(Some("localhost:8080"), Err("is not of the form"));
    check_endpoint(Some("/v1"), Err("is no web address"));
    // Nothing of the path is taken for a host: the key would go there.
    for base in ["https://", "https:", "https:///", "http:", "https:/v1", "https://?x=1", "HTTPS://"] {
        check_endpoint(Some(base), Err("is n"));
    }
    check_endpoint(Some("https://user:hunter2@h/v1"), Err("holds a user name or password"));
}

#[test]
fn an_address_with_a_password_is_not_shown() {
    let model = ModelConfig::local("https://user:hunter2@h/v1", "m", "");
    let error = endpoint(&model, "https://x", "/p").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

/// B-155.
#[test]
fn custom_headers_override_and_none_removes() {
    let model = ModelConfig::openai("m", "M", "k")
        .with_header("X-A", "1")
        .with_header("x-b", "1")
        .without_header("user-agent");
    let mut request = ModelRequest::new(model, History::new());
    request.options.headers.insert("x-a".into(), Some("2".into()));
    request.options.headers.insert("x-b".into(), None);
    let mut headers = json_headers();
    apply_custom(&mut headers, &request).unwrap();
    assert_eq!(headers["x-a"], "2");
    assert!(!headers.contains_key("x-b") && !headers.contains_key("user-agent"));
    assert!(headers["x-a"].is_sensitive());
    assert!(sets_header(&request, "X-A") && !sets_header(&request, "user-agent"));
}

#[test]
fn a_header_that_cannot_be_sent_is_named_without_its_value() {
    for (name, value) in [("x-key", "hunter2\n"), ("bad name", "hunter2"), ("Content-Length", "hunter2")] {
        let request =
            ModelRequest::new(ModelConfig::openai("m", "M", "k").with_header(name, value), History::new());
        let error = apply_custom(&mut HeaderMap::new(), &request).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}
