use agent_core::{AgentMessage, History, ModelConfig, Secret};
use http::header::AUTHORIZATION;

use super::*;

fn request() -> ModelRequest {
    let (history, _) = History::repaired([AgentMessage::user("hi")]);
    ModelRequest::new(ModelConfig::bedrock("eu-west-1", "m"), history)
}

fn connector(by_hand: Vec<(HeaderName, Option<HeaderValue>)>) -> Connector {
    Connector {
        client: reqwest::Client::new(),
        body: Bytes::from_static(b"{}"),
        by_hand,
        answer: Answer::default(),
        tap: None,
    }
}

#[test]
fn the_signed_request_is_sent_as_it_is_with_every_header_marked_sensitive() {
    let mut signed = SdkRequest::empty();
    signed.set_uri("http://127.0.0.1:9/model/m%3A0/converse-stream").unwrap();
    signed.headers_mut().insert("authorization", "AWS4-HMAC-SHA256 Credential=x");
    signed.headers_mut().insert("user-agent", "aws-sdk-rust");
    signed.headers_mut().insert("amz-sdk-request", "attempt=1");
    let by_hand = vec![
        (USER_AGENT, Some(HeaderValue::from_static("mine"))),
        (HeaderName::from_static("amz-sdk-request"), None),
    ];
    let sent = connector(by_hand).request(&signed).unwrap();
    assert_eq!(sent.url().as_str(), "http://127.0.0.1:9/model/m%3A0/converse-stream");
    assert!(sent.headers()[AUTHORIZATION].is_sensitive());
    assert_eq!(sent.headers()[USER_AGENT], "mine");
    assert!(!sent.headers().contains_key("amz-sdk-request"));
    assert_eq!(sent.body().and_then(reqwest::Body::as_bytes), Some(b"{}".as_slice()));
}

#[test]
fn what_the_caller_says_by_hand_wins_over_the_sdk() {
    let mut asked = request();
    asked.options.headers.insert("User-Agent".into(), Some("mine".into()));
    asked.options.headers.insert("Amz-Sdk-Request".into(), None);
    asked.options.headers.insert("X-Own".into(), Some("1".into()));
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static("mine"));
    let names: Vec<String> =
        by_hand(&asked, &headers).iter().map(|(n, v)| format!("{n} {}", v.is_some())).collect();
    assert_eq!(names, ["amz-sdk-request false", "user-agent true"]);
}

/// The SDK sends once: the loop retries, with a policy that the user sees.
#[test]
fn the_sdks_own_retries_and_time_limits_are_off() {
    let auth = Auth::Keys {
        id: Secret::new("AKIDEXAMPLE"),
        secret: Secret::new("very-secret"),
        session: Some(Secret::new("session")),
    };
    let config = config(&Signer { auth, region: Some("eu-west-1".into()) }).build();
    assert_eq!(config.retry_config().unwrap().max_attempts(), 1);
    assert!(!config.timeout_config().unwrap().has_timeouts());
    assert!(!config.stalled_stream_protection().unwrap().is_enabled());
    assert_eq!(config.region().unwrap().as_ref(), "eu-west-1");
    let shown = format!("{config:?}");
    assert!(!shown.contains("very-secret"), "{shown}");
}

#[test]
fn an_error_of_the_credentials_is_named_without_them() {
    let missing: CredentialsError = CredentialsError::not_loaded("no profile of this name");
    let error = refused(&request(), Some(&missing));
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.to_string().contains("AWS credentials could not be had"), "{error}");
    let late = CredentialsError::provider_timed_out(std::time::Duration::from_secs(5));
    assert_eq!(refused(&request(), Some(&late)).kind(), ErrorKind::Network);
    assert!(refused(&request(), None).to_string().contains("could not be signed"));
}
