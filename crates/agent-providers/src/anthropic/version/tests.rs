use agent_core::{History, ModelConfig, ModelRequest};
use serde_json::Value;

use super::*;
use crate::anthropic::{config, encode};

fn request(version: Option<&str>) -> ModelRequest {
    let mut model = ModelConfig::anthropic("claude-sonnet-4-6", "Sonnet", "sk-ant-key");
    model.api_version = version.map(str::to_owned);
    let mut request = ModelRequest::new(model, History::default());
    request.options.temperature = Some(0.5);
    request
}

#[track_caller]
fn check(version: Option<&str>, sent: &str, temperature: Option<f64>) {
    let request = request(version);
    assert_eq!(config::headers(&request).unwrap()["anthropic-version"], sent);
    let body: Value =
        serde_json::from_slice(&encode::body(&request, encode::Named::InBody).unwrap()).unwrap();
    assert_eq!(body.get("temperature").and_then(Value::as_f64), temperature, "{version:?}");
}

#[test]
fn a_version_is_sent_without_what_it_refuses() {
    check(None, "2023-06-01", Some(0.5));
    check(Some("2023-06-01"), "2023-06-01", Some(0.5));
    check(Some("2026-10-20"), "2026-10-20", Some(0.5));
    check(Some("2026-10-21"), "2026-10-21", None);
    check(Some("2027-01-01"), "2027-01-01", None);
}

#[test]
fn citations_of_users_are_refused_since_the_same_version() {
    let refuses = |version| refuses(&request(Some(version)).model, Refused::UserCitations);
    assert!(!refuses("2023-06-01") && refuses("2026-10-21"));
}

#[test]
fn a_version_that_is_no_date_is_an_error() {
    for version in ["", "latest", "2026-10-2", "2026/10/21", "2026-10-21\r\nx: y"] {
        let error = config::headers(&request(Some(version))).unwrap_err().to_string();
        assert!(error.contains("is no version of the API"), "{error}");
    }
}
