//! The example `web_service`, which the guide of the same name contains.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, reason = "the example is a program of its own")]
#![allow(dead_code, reason = "the main function of the example is not called")]

#[path = "../web_service/main.rs"]
mod web_service;

use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use serde_json::{Value, json};

const KEY: &str = "the-key-of-the-office";

#[test]
fn the_guide_contains_the_example_which_has_at_most_60_lines() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = std::fs::read_to_string(root.join("web_service/main.rs")).unwrap();
    let guide = std::fs::read_to_string(root.join("../docs/guides/web-service.md")).unwrap();
    assert!(guide.contains(&format!("```rust,ignore\n{program}```")), "the guide has another program");
    assert!(program.lines().count() <= 60);
}

/// Orders two chairs and then says so.
fn base() -> BasicAgent {
    let provider = ScriptedProvider::responding(|request| {
        match request.history.messages().last().is_some_and(|last| last.role() == "toolResult") {
            true => ScriptedReply::text("They are on their way."),
            false => ScriptedReply::call("c1", "order", json!({"item": "chair", "amount": 2})),
        }
    });
    BasicAgent::new(ModelConfig::default()).with_provider(provider)
}

#[tokio::test]
async fn an_order_of_two_waits_for_an_approval_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let service = web_service::service(folder.path().to_str().unwrap(), KEY, base()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let routes = web_service::routes(&service);
    let served = tokio::spawn(async move { axum::serve(listener, routes).await });
    let client = reqwest::Client::new();
    let page = client.get(&url).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("The order desk"));

    let call = async |method: &str, path: &str, body: Option<Value>| -> Value {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = client.request(method, format!("{url}{path}")).bearer_auth(KEY);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
    };
    let created = call("POST", "/v1/conversations", Some(json!({}))).await;
    let path = format!("/v1/conversations/{}", created["id"].as_str().unwrap());
    call("POST", &format!("{path}/prompt"), Some(json!({"text": "Two chairs, please."}))).await;
    let wait_for = async |status: &str| {
        while call("GET", &path, None).await["status"] != status {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let waiting = tokio::time::timeout(std::time::Duration::from_secs(30), wait_for("waiting"));
    waiting.await.expect("nothing asks");
    let questions = call("GET", "/v1/questions", None).await;
    let question = &questions["questions"][0];
    assert_eq!(question["call"]["arguments"], json!({"item": "chair", "amount": 2}));
    let id: String = question["id"].as_str().unwrap().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let answer = json!({"answer": {"type": "allow"}, "hash": question["call"]["hash"]});
    let started = call("POST", &format!("{path}/questions/{id}"), Some(answer)).await;
    assert!(started["after"].as_u64().is_some(), "{started}");
    let done = tokio::time::timeout(std::time::Duration::from_secs(30), wait_for("idle"));
    done.await.expect("the run does not end");
    let messages = call("GET", &format!("{path}/messages"), None).await;
    assert!(messages.to_string().contains("ordered 2 chair"), "{messages}");
    service.shutdown().await;
    served.abort();
}
