//! Refusals of every vendor, of every kind (D9, D10): what they are taken for, and what the error tells. The bodies are
//! written after the vendors' own pages on errors.

use std::time::Duration;

use agent_core::{CancellationToken, ErrorKind, ProviderError};
use agent_providers::{ProviderRegistry, RemoteProvider};
use serde_json::{Value, json};

use crate::eight::{ALL, ANTHROPIC, AZURE, BEDROCK, CHAT, GEMINI, OLLAMA, RESPONSES, Said, VERTEX, Vendor};
use crate::support::{Act, Server, call, call_until, head, hello, piece};

/// A refusal.
struct Refusal {
    vendor: Vendor,
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: Value,
    kind: ErrorKind,
    /// The vendor's own code.
    code: Option<&'static str>,
    retry_after: Option<u64>,
    request_id: Option<&'static str>,
}

fn refusal(vendor: Vendor, status: u16, kind: ErrorKind, body: Value) -> Refusal {
    Refusal {
        vendor,
        status,
        headers: Vec::new(),
        body,
        kind,
        code: None,
        retry_after: None,
        request_id: None,
    }
}

impl Refusal {
    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn coded(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    fn waits(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    fn named(mut self, id: &'static str) -> Self {
        self.request_id = Some(id);
        self
    }
}

/// What the vendor says in it.
fn text_of(body: &Value) -> String {
    let said = body
        .pointer("/error/message")
        .or_else(|| body.get("message"))
        .or_else(|| body.get("Message"))
        .or_else(|| body.get("error"));
    said.and_then(Value::as_str).unwrap().to_owned()
}

fn anthropic(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

fn openai(kind: &str, code: Value, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn google(code: u16, status: &str, message: &str, details: Value) -> Value {
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

fn of_anthropic() -> Vec<Refusal> {
    use ErrorKind as K;
    let row = |status, kind, body| refusal(ANTHROPIC, status, kind, body);
    vec![
        row(401, K::Auth, anthropic("authentication_error", "invalid x-api-key sk-ant-secret-one"))
            .header("request-id", "req_018")
            .named("req_018")
            .coded("authentication_error"),
        row(403, K::Auth, anthropic("permission_error", "This key may not use the resource.")),
        row(429, K::RateLimited, anthropic("rate_limit_error", "This would exceed 50 requests per minute."))
            .header("retry-after", "7")
            .waits(7)
            .coded("rate_limit_error"),
        row(
            400,
            K::ContextOverflow,
            anthropic("invalid_request_error", "prompt is too long: 210011 tokens > 200000 maximum"),
        ),
        row(
            400,
            K::Quota,
            anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
        ),
        row(402, K::Quota, anthropic("billing_error", "There is an issue with your payment.")),
        row(404, K::ModelNotFound, anthropic("not_found_error", "model: claude-of-nowhere")),
        row(400, K::Api, anthropic("invalid_request_error", "messages: at least one message is required")),
        row(500, K::Network, anthropic("api_error", "Internal server error")),
        row(529, K::Network, anthropic("overloaded_error", "Overloaded")).coded("overloaded_error"),
    ]
}

/// Chat Completions and Responses speak of errors alike.
fn of_openai(vendor: Vendor) -> Vec<Refusal> {
    use ErrorKind as K;
    let row = |status, kind, body| refusal(vendor, status, kind, body);
    let wrong = format!("Incorrect API key provided: {}. You can find your key at the platform.", vendor.key);
    vec![
        row(401, K::Auth, openai("invalid_request_error", json!("invalid_api_key"), &wrong))
            .header("x-request-id", "req_abc")
            .named("req_abc")
            .coded("invalid_api_key"),
        row(403, K::Auth, openai("invalid_request_error", Value::Null, "Project does not have access.")),
        row(
            429,
            K::RateLimited,
            openai("tokens", json!("rate_limit_exceeded"), "Rate limit reached for requests per min."),
        )
        .header("retry-after-ms", "7000")
        .waits(7),
        row(
            429,
            K::Quota,
            openai(
                "insufficient_quota",
                json!("insufficient_quota"),
                "You exceeded your current quota, please check your plan and billing details.",
            ),
        ),
        row(
            400,
            K::ContextOverflow,
            openai(
                "invalid_request_error",
                json!("context_length_exceeded"),
                "Your input exceeds the context window of this model.",
            ),
        ),
        row(
            404,
            K::ModelNotFound,
            openai(
                "invalid_request_error",
                json!("model_not_found"),
                "The model `gpt-x` does not exist or you do not have access to it.",
            ),
        ),
        row(
            400,
            K::Api,
            openai("invalid_request_error", json!("unsupported_value"), "Unsupported value: 'temperature'."),
        ),
        row(500, K::Network, openai("server_error", Value::Null, "The server had an error.")),
        row(503, K::Network, openai("server_error", Value::Null, "That model is currently overloaded.")),
    ]
}

fn of_azure() -> Vec<Refusal> {
    use ErrorKind as K;
    let row = |status, kind, code: &str, message: &str| {
        refusal(AZURE, status, kind, json!({"error": {"code": code, "message": message}}))
    };
    vec![
        row(
            401,
            K::Auth,
            "401",
            "Access denied due to invalid subscription key azure-secret-four or wrong API endpoint.",
        )
        .header("apim-request-id", "apim-1")
        .named("apim-1"),
        row(
            429,
            K::RateLimited,
            "429",
            "Requests have exceeded the token rate limit of your tier. Please retry after 7 seconds.",
        )
        .header("retry-after", "7")
        .waits(7),
        row(429, K::Quota, "insufficient_quota", "You exceeded your current quota, please check your plan."),
        row(
            404,
            K::ModelNotFound,
            "DeploymentNotFound",
            "The API deployment for this resource does not exist.",
        ),
        row(
            400,
            K::ContextOverflow,
            "context_length_exceeded",
            "This model's maximum context length is 128000 tokens.",
        ),
        row(400, K::Api, "content_filter", "The prompt triggered the content management policy."),
        row(500, K::Network, "InternalServerError", "Backend returned an error."),
    ]
}

fn of_google(vendor: Vendor) -> Vec<Refusal> {
    use ErrorKind as K;
    let row = |status: u16, kind, name: &str, message: &str, details| {
        refusal(vendor, status, kind, google(status, name, message, details))
    };
    let info =
        |reason: &str| json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]);
    let minute = json!([
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": "GenerateContentInputTokensPerModelPerMinute"}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    ]);
    let day = json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]);
    let wrong = format!("API key not valid: {}.", vendor.key);
    vec![
        row(400, K::Auth, "INVALID_ARGUMENT", &wrong, info("API_KEY_INVALID")).coded("API_KEY_INVALID"),
        row(401, K::Auth, "UNAUTHENTICATED", "Request had invalid authentication credentials.", json!([])),
        row(
            403,
            K::Auth,
            "PERMISSION_DENIED",
            "Permission denied on the resource.",
            info("IAM_PERMISSION_DENIED"),
        ),
        row(429, K::RateLimited, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", minute).waits(7),
        row(429, K::Quota, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", day),
        row(
            400,
            K::ContextOverflow,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            json!([]),
        ),
        row(
            404,
            K::ModelNotFound,
            "NOT_FOUND",
            "models/gemini-x is not found for API version v1beta.",
            json!([]),
        ),
        row(400, K::Api, "INVALID_ARGUMENT", "Invalid value at 'contents'.", json!([])),
        row(500, K::Network, "INTERNAL", "An internal error has occurred.", json!([])),
        row(503, K::Network, "UNAVAILABLE", "The model is overloaded. Please try again later.", json!([])),
        row(
            504,
            K::Network,
            "DEADLINE_EXCEEDED",
            "Deadline expired before operation could complete.",
            json!([]),
        ),
    ]
}

fn of_bedrock() -> Vec<Refusal> {
    use ErrorKind as K;
    let row = |status, kind, name: &'static str, message: &str| {
        refusal(BEDROCK, status, kind, json!({"message": message}))
            .header("x-amzn-errortype", name)
            .coded(name)
    };
    vec![
        row(
            403,
            K::Auth,
            "UnrecognizedClientException",
            "The security token its-session-seven of AKIDSECRET000007 is invalid.",
        )
        .header("x-amzn-requestid", "5e1c")
        .named("5e1c"),
        row(
            403,
            K::Auth,
            "AccessDeniedException",
            "You don't have access to the model with the specified model ID.",
        ),
        row(403, K::Auth, "ExpiredTokenException", "The security token included in the request is expired"),
        row(
            429,
            K::RateLimited,
            "ThrottlingException",
            "Too many requests, please wait before trying again.",
        ),
        row(
            400,
            K::Quota,
            "ServiceQuotaExceededException",
            "Your request exceeds the service quota for your account.",
        ),
        row(400, K::ContextOverflow, "ValidationException", "Input is too long for requested model."),
        row(404, K::ModelNotFound, "ResourceNotFoundException", "The model could not be found."),
        row(400, K::ModelNotFound, "ValidationException", "The provided model identifier is invalid."),
        row(400, K::Api, "ValidationException", "The value at messages.0 is not supported."),
        row(408, K::Network, "ModelTimeoutException", "The model took too long."),
        row(424, K::Api, "ModelErrorException", "The model failed while it processed the request."),
        row(500, K::Network, "InternalServerException", "An internal server error occurred."),
        row(503, K::Network, "ServiceUnavailableException", "Bedrock is unable to process your request."),
    ]
}

fn of_ollama() -> Vec<Refusal> {
    use ErrorKind as K;
    let row = |status, kind, message: &str| refusal(OLLAMA, status, kind, json!({"error": message}));
    vec![
        row(401, K::Auth, "unauthorized: ollama-secret-eight"),
        row(404, K::ModelNotFound, "model 'qwen-x' not found"),
        row(400, K::ContextOverflow, "the input length exceeds the context length"),
        row(400, K::Api, "\"qwen3-vl\" does not support tools"),
        row(429, K::RateLimited, "too many concurrent requests").header("retry-after", "7").waits(7),
        row(402, K::Quota, "your plan is used up"),
        row(500, K::Network, "llama runner process has terminated"),
        row(503, K::Network, "server busy, please try again"),
    ]
}

fn all() -> Vec<Refusal> {
    let mut rows = of_anthropic();
    rows.extend(of_openai(CHAT));
    rows.extend(of_openai(RESPONSES));
    rows.extend(of_azure());
    rows.extend(of_google(GEMINI));
    rows.extend(of_google(VERTEX));
    rows.extend(of_bedrock());
    rows.extend(of_ollama());
    rows
}

/// No credential is in any form of an error, nor in what it was caused by.
#[track_caller]
fn assert_no_secret(error: &ProviderError, vendor: Vendor) {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!("{inner} {inner:?}"));
        cause = inner.source();
    }
    for secret in vendor.secrets() {
        assert!(!text.contains(secret), "{}: {secret} in {text}", vendor.name);
    }
}

async fn refused(row: &Refusal) -> (ProviderError, agent_core::ModelConfig) {
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(row.headers.iter().map(|(n, v)| (*n, (*v).to_owned())));
    let script = vec![Act::Head(row.status, headers), piece(&row.body.to_string()), Act::End];
    let server = Server::start(vec![script]).await;
    let request = hello(row.vendor.at(&format!("http://{}", server.address)));
    let outcome = call(&ProviderRegistry::default(), &request).await;
    assert_eq!(server.asked().len(), 1, "a provider sends once; the loop retries");
    (outcome.end.unwrap_err(), agent_core::ModelConfig::clone(&request.model))
}

/// REQ-020, REQ-075.
#[tokio::test]
async fn every_refusal_of_every_vendor_is_told_for_what_it_is() {
    for row in all() {
        let (error, model) = refused(&row).await;
        let what = format!("{} {} {}: {error:?}", row.vendor.name, row.status, row.body);
        assert_eq!(error.kind(), row.kind, "{what}");
        let context = error.context().unwrap();
        assert_eq!(context.provider.as_deref(), Some(model.provider.as_str()), "{what}");
        assert_eq!(context.model.as_deref(), Some(row.vendor.model), "{what}");
        assert_eq!(error.status(), Some(row.status), "{what}");
        let hidden = row.vendor.secrets().iter().fold(text_of(&row.body), |text, s| text.replace(s, "****"));
        assert!(context.message.contains(&hidden), "{what}: the vendor's own words, without the key");
        assert_eq!(error.retry_after(), row.retry_after.map(Duration::from_secs), "{what}");
        assert_eq!(error.request_id(), row.request_id, "{what}");
        if let Some(code) = row.code {
            assert_eq!(context.code.as_deref(), Some(code), "{what}");
        }
        let wants_advice = matches!(row.kind, ErrorKind::Auth | ErrorKind::Quota | ErrorKind::ModelNotFound);
        assert!(!wants_advice || context.advice.is_some(), "{what}: what to do about it");
        let retried = matches!(row.kind, ErrorKind::Network | ErrorKind::RateLimited);
        assert_eq!(error.is_retryable(), retried, "{what}");
        assert_no_secret(&error, row.vendor);
    }
}

#[test]
fn the_table_has_every_kind_of_every_vendor() {
    let rows = all();
    for vendor in ALL {
        for kind in [
            ErrorKind::Auth,
            ErrorKind::RateLimited,
            ErrorKind::ContextOverflow,
            ErrorKind::Quota,
            ErrorKind::ModelNotFound,
            ErrorKind::Api,
            ErrorKind::Network,
        ] {
            assert!(rows.iter().any(|r| r.vendor == vendor && r.kind == kind), "{} {kind:?}", vendor.name);
        }
    }
}

/// B-118.
#[tokio::test]
async fn an_abort_and_a_missing_key_are_their_own_kinds() {
    for vendor in ALL {
        let server = Server::start(vec![vendor.answer(&Said::text("x"))]).await;
        let base = format!("http://{}", server.address);
        let cancel = CancellationToken::new();
        cancel.cancel();
        let outcome = call_until(&ProviderRegistry::default(), &hello(vendor.at(&base)), &cancel).await;
        assert!(matches!(outcome.error(), ProviderError::Cancelled), "{}", vendor.name);
        // Ollama needs no key, and the clouds' may be elsewhere.
        if ![OLLAMA, VERTEX, BEDROCK].contains(&vendor) {
            let mut model = vendor.at(&base);
            model.api_key = None;
            let outcome = call(&ProviderRegistry::default(), &hello(model)).await;
            assert_eq!(outcome.error().kind(), ErrorKind::Auth, "{}", vendor.name);
            assert!(outcome.error().context().unwrap().advice.is_some());
        }
        assert!(server.asked().is_empty(), "{}: nothing was sent", vendor.name);
    }
}

#[tokio::test]
async fn what_is_no_answer_of_an_api_is_told_apart() {
    let page = "<!DOCTYPE html><html><head><title>Bad gateway</title></head></html>";
    for vendor in ALL {
        for (status, body, kind, words) in [
            (502, page, ErrorKind::Network, "HTML page"),
            (200, page, ErrorKind::Api, "HTML page"),
            (404, page, ErrorKind::Api, "HTML page"),
            (500, "", ErrorKind::Network, "500"),
            (418, "not json", ErrorKind::Api, "not json"),
        ] {
            let kind_of_body = if body == page { "text/html" } else { "text/plain" };
            let script = vec![head(status, kind_of_body), piece(body), Act::End];
            let server = Server::start(vec![script]).await;
            let request = hello(vendor.at(&format!("http://{}", server.address)));
            let outcome = call(&ProviderRegistry::default(), &request).await;
            let error = outcome.error();
            assert_eq!(error.kind(), kind, "{} {status} {body:?}: {error}", vendor.name);
            assert!(error.to_string().contains(words), "{} {status}: {error}", vendor.name);
        }
    }
}

/// B-120.
#[tokio::test]
async fn an_answer_that_breaks_off_may_be_asked_for_again() {
    for vendor in ALL {
        let mut script = vendor.answer(&Said { stalls: true, ..Said::text("Half") });
        script.pop();
        for last in [Act::End, Act::Cut] {
            let mut script = script.clone();
            script.push(last);
            let server = Server::start(vec![script]).await;
            let outcome =
                call(&ProviderRegistry::default(), &hello(vendor.at(&format!("http://{}", server.address))))
                    .await;
            assert_eq!(outcome.error().kind(), ErrorKind::Network, "{}: {}", vendor.name, outcome.error());
            assert_eq!(outcome.text(), "Half", "{}: what had arrived is kept", vendor.name);
            assert_eq!(outcome.error().context().unwrap().model.as_deref(), Some(vendor.model));
        }
    }
}

#[tokio::test]
async fn a_server_of_ones_own_passes_the_kind_on_and_shows_no_token() {
    let said =
        agent_providers::remote::refusal("unauthorised", "the token own-token-of-the-server is not known");
    let script = vec![head(401, "application/json"), piece(&said), Act::End];
    let server = Server::start(vec![script]).await;
    let remote = RemoteProvider::new(format!("http://{}", server.address), "own-token-of-the-server");
    let outcome = call(&remote, &hello(ANTHROPIC.at("http://unused"))).await;
    assert_eq!(outcome.error().kind(), ErrorKind::Auth);
    let text = format!("{} {:?}", outcome.error(), outcome.error());
    assert!(text.contains("****") && !text.contains("own-token-of-the-server"), "{text}");
    assert_no_secret(outcome.error(), ANTHROPIC);
}
