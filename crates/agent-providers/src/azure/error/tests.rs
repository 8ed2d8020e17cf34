//! What Azure's refusals mean.

use agent_core::{History, ModelConfig};
use serde_json::json;

use super::*;

fn read(status: u16, body: &Value) -> ProviderError {
    let model = ModelConfig::azure("https://h", "my-gpt", "k");
    let request = ModelRequest::new(model, History::new());
    rejected(&request, &Rejection { status, body: body.to_string().as_bytes(), error_type: None })
}

/// REQ-124, REQ-167.
#[test]
fn the_content_filter_says_what_it_found() {
    let result = json!({"hate": {"filtered": false, "severity": "safe"}, "violence": {"filtered": true, "severity": "high"},
        "jailbreak": {"filtered": true, "detected": true}});
    let inner = json!({"code": "ResponsibleAIPolicyViolation", "content_filter_result": result});
    let error = read(
        400,
        &json!({"error": {"message": "Filtered.", "code": "content_filter", "status": 400, "innererror": inner}}),
    );
    assert_eq!(error.kind(), ErrorKind::Api);
    let context = error.context().unwrap();
    assert_eq!(context.message, "Filtered. (filtered: violence high, jailbreak)");
    assert_eq!(context.code.as_deref(), Some("content_filter"));
}

/// REQ-124, REQ-167.
#[test]
fn a_deployment_that_is_not_there_is_told_from_other_refusals() {
    let missing = read(
        404,
        &json!({"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}),
    );
    assert_eq!(missing.kind(), ErrorKind::ModelNotFound);
    assert!(
        missing.to_string().contains("\"my-gpt\"") && missing.to_string().contains("api-version"),
        "{missing}"
    );
    let path = read(404, &json!({"error": {"code": "404", "message": "Resource not found"}}));
    assert_eq!(path.kind(), ErrorKind::ModelNotFound);
    let key = read(
        401,
        &json!({"error": {"code": "401", "message": "Access denied due to invalid subscription key."}}),
    );
    assert_eq!(key.kind(), ErrorKind::Auth);
    let fast = read(429, &json!({"error": {"code": "429", "message": "Please retry after 7 seconds."}}));
    assert_eq!(fast.kind(), ErrorKind::RateLimited);
    let outer = read(
        401,
        &json!({"statusCode": 401, "message": "Unauthorized. Access token is missing or expired."}),
    );
    assert_eq!(outer.kind(), ErrorKind::Auth);
}
