use agent_core::{AgentMessage, History, ModelConfig};

use super::*;

fn request() -> ModelRequest {
    let (history, _) = History::repaired([AgentMessage::user("hi")]);
    let model = ModelConfig::bedrock("eu-west-1", "vendor.model-1");
    ModelRequest::new(model.with_api_key("AKIDEXAMPLE:wJalrXUtnFEMI:FwoGZXIvYXdz"), history)
}

fn refused(status: u16, body: &str, error_type: Option<&str>) -> ProviderError {
    rejected(&request(), &Rejection { status, body: body.as_bytes(), error_type })
}

#[track_caller]
fn check(status: u16, error_type: &str, message: &str, expect: ErrorKind) {
    let body = serde_json::json!({ "message": message }).to_string();
    let error = refused(status, &body, Some(error_type));
    assert_eq!(error.kind(), expect, "{status} {error_type} {message}");
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.context().unwrap().code.as_deref(), error_type.split(':').next());
}

/// REQ-075, B-159.
#[test]
fn the_vendors_name_for_an_error_says_what_it_means() {
    check(429, "ThrottlingException", "Too many tokens, please wait.", ErrorKind::RateLimited);
    check(429, "ModelNotReadyException", "Model is not ready.", ErrorKind::RateLimited);
    check(400, "ServiceQuotaExceededException", "Your request exceeds the quota.", ErrorKind::Quota);
    check(403, "AccessDeniedException:http://internal/coral/", "No.", ErrorKind::Auth);
    check(403, "ExpiredTokenException", "The security token is expired", ErrorKind::Auth);
    check(403, "UnrecognizedClientException", "The token is invalid.", ErrorKind::Auth);
    check(404, "ResourceNotFoundException", "End of life.", ErrorKind::ModelNotFound);
    check(400, "ValidationException", "Input is too long for requested model.", ErrorKind::ContextOverflow);
    let titan =
        "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9000";
    check(400, "ValidationException", titan, ErrorKind::ContextOverflow);
    check(400, "ValidationException", "The provided model identifier is invalid.", ErrorKind::ModelNotFound);
    check(400, "ValidationException", "Malformed input request", ErrorKind::Api);
    check(408, "ModelTimeoutException", "Took too long.", ErrorKind::Network);
    check(424, "ModelErrorException", "The model returned an error", ErrorKind::Api);
    check(500, "InternalServerException", "Oops.", ErrorKind::Network);
    check(503, "ServiceUnavailableException", "Busy.", ErrorKind::Network);
    check(529, "OfNextYear", "Busy.", ErrorKind::Network);
    check(413, "ValidationException", "The request is too large", ErrorKind::ContextOverflow);
    check(403, "AccessDeniedException", "Insufficient balance", ErrorKind::Quota);
    check(500, "InternalServerException", "insufficient balance (1008)", ErrorKind::Quota);
}

#[test]
fn the_name_may_stand_in_the_body_and_the_body_may_be_anything() {
    let named = refused(400, r#"{"__type":"com.amazon.coral#ThrottlingException","Message":"slow"}"#, None);
    assert_eq!((named.kind(), named.context().unwrap().message.as_str()), (ErrorKind::RateLimited, "slow"));
    assert!(refused(502, "upstream died", None).to_string().contains("upstream died"));
    let both = refused(403, r#"{"message":"a","Message":"b"}"#, None);
    assert_eq!(both.context().unwrap().message, "a");
    let page = refused(502, "<html><title>Bad gateway</title></html>", None);
    assert!(page.to_string().contains("HTML page"), "{page}");
    assert_eq!(refused(413, "", None).kind(), ErrorKind::ContextOverflow);
}

#[test]
fn advice_fits_the_error() {
    let profile = "Invocation of model ID x with on-demand throughput isn\u{2019}t supported.";
    let said = |status, message: &str| {
        refused(status, &serde_json::json!({ "message": message }).to_string(), None).to_string()
    };
    assert!(said(400, profile).contains("inference profile"));
    assert!(said(403, "You don't have access to the model with this ID.").contains("Bedrock console"));
    assert!(said(403, "The token is invalid").contains("AWS_BEARER_TOKEN_BEDROCK"));
    assert!(said(404, "no such model").contains("vendor.model-1"));
}

/// A wrong signature makes the vendor repeat what was signed.
#[test]
fn no_part_of_a_key_is_repeated() {
    let message = "The request signature we calculated does not match, key AKIDEXAMPLE.\n\nThe Canonical String for this \
        request should have been\n'POST\nx-amz-security-token:FwoGZXIvYXdz'";
    let error =
        refused(403, &serde_json::json!({ "message": message }).to_string(), Some("SignatureDoesNotMatch"));
    let shown = format!("{error} {error:?}");
    for secret in ["AKIDEXAMPLE", "FwoGZXIvYXdz", "wJalrXUtnFEMI", "Canonical"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("does not match"));
}

#[track_caller]
fn check_exception(name: &str, payload: &str, expect: ErrorKind, says: &str) {
    let error = exception(&Target::of(&request()), name, payload);
    assert_eq!(error.kind(), expect, "{name} {payload}");
    assert!(error.to_string().contains(says), "{error}");
}

/// B-159.
#[test]
fn exceptions_in_the_stream_are_typed() {
    check_exception("throttlingException", r#"{"message":"Slow down"}"#, ErrorKind::RateLimited, "Slow down");
    check_exception("modelStreamErrorException", r#"{"message":"Broke"}"#, ErrorKind::Network, "Broke");
    check_exception("internalServerException", r#"{"message":"Oops"}"#, ErrorKind::Network, "Oops");
    check_exception("serviceUnavailableException", "{}", ErrorKind::Network, "serviceUnavailableException");
    check_exception("validationException", r#"{"message":"Bad field"}"#, ErrorKind::Api, "Bad field");
    let long = r#"{"message":"Broke","originalMessage":"prompt is too long","originalStatusCode":400}"#;
    check_exception(
        "modelStreamErrorException",
        long,
        ErrorKind::ContextOverflow,
        "Broke: prompt is too long",
    );
    check_exception("InternalFailure", "went away", ErrorKind::Network, "went away");
    check_exception("", "", ErrorKind::Network, "an error");
}
