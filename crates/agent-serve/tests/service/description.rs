//! The OpenAPI description.

use std::collections::BTreeSet;

use agent_serve::Service;
use serde_json::Value;

use crate::support::{Running, answer, store};

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str() {
                    Some(target) if name == "$ref" => drop(found.insert(target.to_owned())),
                    _ => references(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_complete_in_itself_and_every_route_it_names_exists() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::usual(&store(folder.path())).await;
    let (status, document) = answer(running.client.get(format!("{}/openapi.json", running.url))).await;
    assert_eq!((status, document["openapi"].as_str()), (200, Some("3.1.0")));
    assert_eq!(document, Service::description());
    let mut targets = BTreeSet::new();
    references(&document, &mut targets);
    for target in targets {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target} is missing");
    }
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()));
            let url = path.replace(['{', '}'], "");
            let (_, body) = answer_of(&running, method, &url).await;
            let code = body["error"]["code"].as_str().unwrap_or_default().to_owned();
            let text = body["error"]["message"].as_str().unwrap_or_default();
            assert!(
                code != "method_not_allowed" && !text.contains("no such route"),
                "{method} {path}: {body}"
            );
        }
    }
    running.stop().await;
}

async fn answer_of(running: &Running, method: &str, path: &str) -> (u16, Value) {
    let request = running.request(&method.to_uppercase(), path);
    let response = request.header("content-type", "application/json").body("{}").send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_have_no_names_of_keys_and_the_text_format_of_prometheus() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::usual(&store(folder.path())).await;
    let path = running.conversation("loud").await;
    let after = running.prompt(&path, "hello").await;
    running.until(&path, after, "agent_end").await;
    running.wait_for(&path, "idle").await;
    let response = running.request("GET", "/metrics").send().await.unwrap();
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let text = response.text().await.unwrap();
    let requests = "looptree_http_requests_total{method=\"POST\",route=\"/v1/conversations/{id}/prompt\",status=\"202\"} 1";
    for line in [
        requests,
        "looptree_runs_total{end=\"completed\"} 1",
        "looptree_tokens_total{kind=\"output\"} 5",
        "looptree_conversations_open 1",
        "looptree_runs_open 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("alice") && !text.contains(path.rsplit('/').next().unwrap()));
    assert!(text.ends_with("# EOF\n"));
    running.stop().await;
}
