//! Vertex AI over real loopback HTTP, with tokens from a token endpoint on loopback.

#![cfg(feature = "vertex")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

mod support;

use std::time::Duration;

use agent_core::{CancellationToken, ErrorKind, ModelConfig, StreamProvider};
use agent_providers::VertexProvider;
use serde_json::json;
use support::{Act, Server, call, call_until, head, hello, piece, sse};

/// An RSA key that was made for this test and opens nothing: the base64 of its DER form.
const KEY: &[&str] = &[
    "MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQC0M0kwPIRJgQ4eQWoRINv+awJ2Fkpxfi+lQaCFCdgJbFrK0p0O",
    "6LfphTfrX7zSO5nh+fl0UvMS/+e0yIgmF3434DjnLLvseue7kfLSpILXjB/ii2Z1+86z6JtFZXF2rfumaeFzvT+VoA1nnZW6p7fe",
    "kE2F/96czdDTQhQjVwWfMYeNa9Z8rWiRMfazJ9jK6obNyFRtm9YSGWoPneHaGbwWYKev1p9eZdp8JqVJyn5p3jXF6gh6XA1tdEGW",
    "oWfD056jo1TT5Y8yxyZOh+jFJktYePdStqXnZaUktoy4uEs4v6qHbnVMI7hH1OuMyTNMrZLnceQqALavSvXCsz5Lza/1AgMBAAEC",
    "ggEAAvg1ZI4av/tYeDcrwEyCU5b/22JSp7wknNyQAKFA5iba+CywWeaL4VVIrqBNREmnJ4ovCjOzvcRp1RjY5YfNlK4lQeoCzsrX",
    "tseY8M+1OEge3mTds2QK6/wRUvtw+zuywfNMu9OKkLSqg+Kc7Q6GgSxvmp201XCu2ExmeI6ekRkAwpOZhEljEBn65Y7F7vkPYvlO",
    "TJNjZg4BDCqsPopTDim8Au9Kux9mvY961+fnpNFb85lbkF928j+QNRhjdEcIDTkpTiLgcjzXnNQ6hcp77DfrKXahcRLC4/iqc/8s",
    "4ffBpV55LmuKRnFm7VdiSFRjuafMf9LjHZ5gwET+G/BJoQKBgQDlpb3jznukVgKr5UPiNHB+1xaladMVl8Gj4a3T9HNFRVKg0h/p",
    "2WYvaIUDS66K2Wp7HPLA9aHOKaNWR8OSr5pI/nFF7cR4qrIZVqkdwGL/FHPVUOiKAHUpCWYi8Uyp4FaKXjcuXqHb+BjVvk0Dfv2I",
    "Nuisn0nvTBRkf+3Ah4h1OwKBgQDI4PUJdoN2IVZnW7eFWCMwudk0QfZE4GkNuWG8EZq1R2LYP4nAUzCHxGil7kmRu9RCBKA/hefr",
    "a/3ZIxxHpaZLJ8ChFIud2kQE/KYOznrVG0mL3z8yulQMho9dS8Zxqr9/qD1PP9M8jXDbUbraibxazCUmkIxdEzb0MFfj8ilcjwKB",
    "gBNLI3L6LAUYfMz4TAW7JiBh7bMj+un7f/dGxJXkGbMeKdz9ClVZQG6HN3WZbCaaMYn6WqK/gEKT2PcsvE+clTfAuL+JRFJm9OOQ",
    "FlE7kpWfoEOxsne1piI2efBBmZFEGcEyPSyWIr8aTuvWOx4qEx7Yjh/CmjGSkLwIy267dEl1AoGAbrDPNayxmhmatA+tG/RKR+JR",
    "FuO2IZQLL33Upj6JIpU4mXLBpFHy7w1CoRSiQ4Td3JcR+o7+EhMK6WjYf35/GPDJy7k3if8o9hqGIqiStPV5XHLjLz/PaquHOmCz",
    "9BSju2NojU/dRYOnCaOKtDurp9jQK+UBA5S/9mThOYFKW28CgYAT9mOYzfNEn1XQqjVT+33GbkYemy9u8x28KbwLxx5Qj4njCbCr",
    "W9QHpdp1ZuI5x36XoCH55qq2bhElph+Klb6T2Mad6sbBD1WVYyfoKOd1B3AaI+LYzJ0LAKispaBurgpkmIl22c2xTYPQLXjt7vO7",
    "YF5FajGz0P7AxYrrwLU0SQ==",
];

const TOKEN: &str = "ya29.token-of-the-test";

fn account(token_uri: &str) -> String {
    let armour = |what: &str| format!("-----{what} {} KEY-----", "PRIVATE");
    let key = format!("{}\n{}\n{}\n", armour("BEGIN"), KEY.join("\n"), armour("END"));
    json!({"type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": key,
        "client_email": "looptree@test.example", "client_id": "1", "token_uri": token_uri})
    .to_string()
}

fn answer() -> Vec<Act> {
    let said = json!({"candidates": [{"content": {"parts": [{"text": "Moin"}, {"functionCall": {"name": "f"}}]},
        "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1}});
    vec![sse(), piece(&format!("data: {said}\r\n\r\n")), Act::End]
}

fn token(expires_in: u32) -> Vec<Act> {
    let body = json!({"access_token": TOKEN, "expires_in": expires_in, "token_type": "Bearer"});
    vec![head(200, "application/json"), piece(&body.to_string()), Act::End]
}

fn model(server: &Server, key: &str) -> ModelConfig {
    ModelConfig::vertex("my-project", "europe-west4", "gemini-2.5-flash")
        .with_base_url(format!("http://{}", server.address))
        .with_api_key(key)
}

/// REQ-121.
#[tokio::test]
async fn a_service_account_signs_in_once_and_its_token_is_kept() {
    let tokens = Server::start(vec![token(3_600)]).await;
    let server = Server::start(vec![answer()]).await;
    let provider = VertexProvider::new();
    let account = account(&format!("http://{}/token", tokens.address));
    let request = hello(model(&server, &account));
    for _ in 0..2 {
        let message = call(&provider, &request).await.message();
        assert_eq!(message.text(), "Moin");
        assert_eq!(message.tool_calls().next().unwrap().id.as_str(), "vertex-fc-0");
    }
    assert_eq!(call(&provider.clone(), &request).await.message().text(), "Moin");
    assert_eq!(tokens.asked().len(), 1, "the token is good for an hour");
    assert!(tokens.asked()[0].body.contains("grant_type=urn"));
    for asked in server.asked() {
        assert_eq!(
            asked.line,
            "POST /v1/projects/my-project/locations/europe-west4/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse HTTP/1.1"
        );
        assert!(asked.headers.contains(&format!("authorization: Bearer {TOKEN}")), "{}", asked.headers);
        assert!(!asked.headers.contains("x-goog-api-key"));
    }
}

/// REQ-121.
#[tokio::test]
async fn a_token_that_has_expired_is_fetched_again() {
    let tokens = Server::start(vec![token(0)]).await;
    let server = Server::start(vec![answer()]).await;
    let provider = VertexProvider::new();
    let request = hello(model(&server, &account(&format!("http://{}/token", tokens.address))));
    for n in 1..=2 {
        call(&provider, &request).await.message();
        assert_eq!(tokens.asked().len(), n);
    }
}

/// REQ-121, REQ-167.
#[tokio::test]
async fn a_token_of_the_callers_own_and_an_api_key_need_no_signing_in() {
    let server = Server::start(vec![answer()]).await;
    call(&VertexProvider::new(), &hello(model(&server, TOKEN))).await.message();
    call(&VertexProvider::new(), &hello(model(&server, "AIza-key-of-express-mode"))).await.message();
    let asked = server.asked();
    assert!(asked[0].headers.contains(&format!("authorization: Bearer {TOKEN}")));
    assert!(asked[1].headers.contains("x-goog-api-key: AIza-key-of-express-mode"));
    assert!(!asked[1].headers.contains("authorization"));
}

/// REQ-121, REQ-167.
#[tokio::test]
async fn a_refused_signing_in_is_an_error_with_advice_and_nothing_is_sent() {
    let refusal = vec![head(400, "application/json"), piece(r#"{"error":"invalid_grant"}"#), Act::End];
    let tokens = Server::start(vec![refusal]).await;
    let server = Server::start(vec![answer()]).await;
    let account = account(&format!("http://{}/token", tokens.address));
    let outcome = call(&VertexProvider::new(), &hello(model(&server, &account))).await;
    let error = outcome.error();
    assert_eq!(error.kind(), ErrorKind::Auth);
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("gcloud auth application-default login"), "{shown}");
    assert!(!shown.contains(KEY[0]) && !shown.contains("looptree@test.example"), "{shown}");
    assert!(server.asked().is_empty());
}

/// REQ-121.
#[tokio::test]
async fn a_token_endpoint_that_is_not_there_is_worth_another_try() {
    let server = Server::start(vec![answer()]).await;
    let outcome =
        call(&VertexProvider::new(), &hello(model(&server, &account("http://127.0.0.1:1/token")))).await;
    assert_eq!(outcome.error().kind(), ErrorKind::Network, "{}", outcome.error());
    assert!(outcome.error().is_retryable() && server.asked().is_empty());
}

/// REQ-121.
#[tokio::test]
async fn an_abort_ends_the_wait_for_a_token() {
    let tokens = Server::start(vec![vec![Act::Stall]]).await;
    let server = Server::start(vec![answer()]).await;
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stop.cancel();
    });
    let account = account(&format!("http://{}/token", tokens.address));
    let outcome = call_until(&VertexProvider::new(), &hello(model(&server, &account)), &cancel).await;
    assert_eq!(outcome.error().kind(), ErrorKind::Cancelled);
    assert!(server.asked().is_empty());
}

/// REQ-121, REQ-167.
#[tokio::test]
async fn the_fetched_token_is_taken_out_of_what_a_server_says() {
    let tokens = Server::start(vec![token(3_600)]).await;
    let echo =
        json!({"error": {"code": 401, "message": format!("bad token {TOKEN}"), "status": "UNAUTHENTICATED"}});
    let refusal = vec![head(401, "application/json"), piece(&echo.to_string()), Act::End];
    let server = Server::start(vec![refusal]).await;
    let account = account(&format!("http://{}/token", tokens.address));
    let outcome = call(&VertexProvider::new(), &hello(model(&server, &account))).await;
    let shown = format!("{} {:?}", outcome.error(), outcome.error());
    assert_eq!(outcome.error().kind(), ErrorKind::Auth);
    assert!(shown.contains("bad token ****") && !shown.contains(TOKEN), "{shown}");
    assert!(shown.contains("roles/aiplatform.user"), "{shown}");
}

/// REQ-042, REQ-121.
#[tokio::test]
async fn the_check_sends_nothing_and_says_what_is_missing() {
    let provider = VertexProvider::new();
    assert!(
        provider.check(&ModelConfig::vertex("p", "r", "m")).is_ok(),
        "who is signed in is found out by a call"
    );
    assert!(provider.check(&ModelConfig::vertex("", "r", "m")).unwrap_err().to_string().contains("project"));
    let tokens = Server::start(vec![token(3_600)]).await;
    let server = Server::start(vec![answer()]).await;
    assert!(provider.check(&model(&server, &account(&format!("http://{}/t", tokens.address)))).is_ok());
    assert!(tokens.asked().is_empty() && server.asked().is_empty());
    assert_eq!(provider.provider_id(), "google_vertex");
}

#[tokio::test]
async fn the_fetched_token_is_not_shown_to_who_looks_at_the_wire() {
    let tokens = Server::start(vec![token(3_600)]).await;
    let server = Server::start(vec![answer()]).await;
    let account = account(&format!("http://{}/token", tokens.address));
    let mut request = hello(model(&server, &account));
    let seen: std::sync::Arc<std::sync::Mutex<String>> = std::sync::Arc::default();
    let log = std::sync::Arc::clone(&seen);
    request.options.wire_hooks.on_request = Some(std::sync::Arc::new(move |sent| {
        *log.lock().unwrap() = format!("{sent:?}");
    }));
    call(&VertexProvider::new(), &request).await.message();
    let seen = seen.lock().unwrap();
    assert!(seen.contains(r#"("authorization", "****")"#), "{seen}");
    assert!(!seen.contains(TOKEN) && !seen.contains(KEY[0]));
}
