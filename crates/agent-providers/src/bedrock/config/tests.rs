#![allow(clippy::needless_pass_by_value, reason = "the tables read better")]

use agent_core::{AgentMessage, History};

use super::*;

fn model() -> ModelConfig {
    ModelConfig::bedrock("eu-west-1", "anthropic.claude-test-v1:0")
}

fn request(model: ModelConfig) -> ModelRequest {
    let (history, _) = History::repaired([AgentMessage::user("hi")]);
    ModelRequest::new(model, history)
}

#[track_caller]
fn check_endpoint(model: ModelConfig, expect: &str) {
    let found = endpoint(&model, None).map(|u| u.to_string()).unwrap_or_else(|e| e.to_string());
    assert!(found.contains(expect), "{found}");
}

/// REQ-122.
#[test]
fn the_address_is_that_of_the_region_or_of_the_base() {
    check_endpoint(
        model(),
        "https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-test-v1%3A0/converse-stream",
    );
    check_endpoint(
        ModelConfig::bedrock("cn-north-1", "m"),
        "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/m/converse-stream",
    );
    check_endpoint(
        model().with_base_url("http://127.0.0.1:9/x/"),
        "http://127.0.0.1:9/x/model/anthropic.claude",
    );
    check_endpoint(
        model().with_base_url("http://127.0.0.1:9/model/anthropic.claude-test-v1%3A0/converse-stream?a=b"),
        "http://127.0.0.1:9/model/anthropic.claude-test-v1%3A0/converse-stream?a=b",
    );
    let arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc";
    check_endpoint(
        ModelConfig::bedrock("us-east-1", arn),
        "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc/converse-stream",
    );
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    check_endpoint(ModelConfig::bedrock("", "m"), "no region was given");
    check_endpoint(ModelConfig::bedrock("eu-west-1", " "), "the model has no id");
    check_endpoint(ModelConfig::bedrock("not a region", "m"), "region");
    check_endpoint(model().with_base_url("ftp://x"), "http");
}

#[track_caller]
fn check_region(model: ModelConfig, expect: Option<&str>) {
    assert_eq!(region(&model, None).as_deref(), expect);
}

#[test]
fn the_region_is_the_models_or_that_of_its_address() {
    check_region(model(), Some("eu-west-1"));
    let bare = || ModelConfig::bedrock("", "m");
    check_region(bare(), None);
    check_region(
        bare().with_base_url("https://bedrock-runtime.ap-south-1.amazonaws.com"),
        Some("ap-south-1"),
    );
    check_region(
        bare().with_base_url("https://bedrock-runtime-fips.us-west-2.amazonaws.com/"),
        Some("us-west-2"),
    );
    check_region(bare().with_base_url("http://127.0.0.1:9"), Some("us-east-1"));
    check_region(model().with_base_url("http://127.0.0.1:9"), Some("eu-west-1"));
}

/// What the key of a model is taken for.
#[track_caller]
fn check_key(key: &str, expect: &str) {
    let found = match auth(&request(model().with_api_key(key)), None) {
        Ok(Auth::Bearer(key)) => format!("bearer {}", key.expose()),
        Ok(Auth::Keys { id, secret, session }) => {
            let session = session.map(|s| s.expose().to_owned()).unwrap_or_default();
            format!("keys {} {} {session}", id.expose(), secret.expose())
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Auth);
            assert!(key.is_empty() || !error.to_string().contains(key), "{error}");
            error.to_string()
        }
    };
    assert!(found.starts_with(expect) || found.contains(expect) && !expect.contains(' '), "{found}");
}

#[test]
fn a_key_is_an_api_key_or_an_aws_key() {
    check_key("ABSKQmVkcm9jaw==", "bearer ABSKQmVkcm9jaw==");
    check_key(" bedrock-api-key-YWJj&Version=1\n", "bearer bedrock-api-key-YWJj&Version=1");
    check_key("AKIDEXAMPLE:wJalr/XUtn+FEMI", "keys AKIDEXAMPLE wJalr/XUtn+FEMI ");
    check_key("ASIAEXAMPLE:sec:tok//==", "keys ASIAEXAMPLE sec tok//==");
    check_key("", "AWS_BEARER_TOKEN_BEDROCK");
    check_key("a:", "ACCESS_KEY_ID:SECRET_ACCESS_KEY");
    check_key("a:b:c:d", "ACCESS_KEY_ID:SECRET_ACCESS_KEY");
    check_key("AKIAIOSFODNN7EXAMPLE", "ACCESS_KEY_ID:SECRET_ACCESS_KEY");
    check_key("two words", "ACCESS_KEY_ID:SECRET_ACCESS_KEY");
}

#[test]
fn the_callers_own_header_says_who_calls() {
    let by_hand = request(model().with_header("Authorization", "Token x"));
    assert!(matches!(auth(&by_hand, None), Ok(Auth::Headers)));
    let nobody = request(model().with_api_key("k").without_header("authorization"));
    assert!(matches!(auth(&nobody, None), Ok(Auth::Headers)));
}

#[test]
fn no_credential_is_shown() {
    let found = auth(&request(model().with_api_key("AKIDEXAMPLE:very-secret:session-token")), None).unwrap();
    let shown = format!("{found:?}");
    for secret in ["AKIDEXAMPLE", "very-secret", "session-token"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn a_project_is_named_in_a_header() {
    let sent = |project: Option<&str>| {
        let mut model = model();
        model.project = project.map(str::to_owned);
        headers(&model).map(|headers| headers.get(PROJECT).map(|value| value.to_str().unwrap().to_owned()))
    };
    assert_eq!(sent(None).unwrap(), None);
    assert_eq!(sent(Some(" ")).unwrap(), None);
    assert_eq!(sent(Some("proj-1")).unwrap().as_deref(), Some("proj-1"));
    assert!(sent(Some("a\nb")).unwrap_err().to_string().contains("project"));
}
