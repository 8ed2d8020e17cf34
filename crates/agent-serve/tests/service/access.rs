//! Who may call, how often, and for how much.

use std::time::Duration;

use agent_core::BudgetLimits;
use agent_serve::{Service, ServiceError};
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{ALICE, BOB, Running, answer, builder, keys, quick, store};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_about_conversations_is_answered_without_a_valid_key() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::usual(&store(folder.path())).await;
    let path = running.conversation("loud").await;
    let description = Service::description();
    for (route, methods) in description["paths"].as_object().unwrap() {
        if ["/healthz", "/openapi.json"].contains(&route.as_str()) {
            continue;
        }
        let route = route.replace("/v1/conversations/{id}", &path);
        for method in methods.as_object().unwrap().keys() {
            for token in ["", "wrong-token-of-some-length", &ALICE[..ALICE.len() - 1]] {
                let mut request = running.request(&method.to_uppercase(), &route).bearer_auth(token);
                request = request.header("content-type", "application/json").body("{}");
                // reqwest adds a second header, so the first one is replaced.
                let mut request = request.build().unwrap();
                request.headers_mut().remove("authorization");
                if !token.is_empty() {
                    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
                }
                let response = running.client.execute(request).await.unwrap();
                assert_eq!(response.status().as_u16(), 401, "{method} {route}");
                assert_eq!(response.headers()["www-authenticate"], "Bearer");
                let text = response.text().await.unwrap();
                assert!(text.contains("invalid_api_key") && !text.contains(token) | token.is_empty());
            }
        }
    }
    // With two keys, a proxy in front of the service could have checked the other one.
    for (first, second) in [(ALICE, BOB), (BOB, ALICE), (ALICE, ALICE), (ALICE, "wrong")] {
        let request = running.client.get(format!("{}/v1/conversations", running.url));
        let (status, _) = answer(request.bearer_auth(first).bearer_auth(second)).await;
        assert_eq!(status, 401, "{first} {second}");
    }
    let (status, _) = answer(running.client.get(format!("{}/nowhere", running.url))).await;
    assert_eq!(status, 401);
    assert_eq!(running.get("/nowhere").await.0, 404);
    let (status, body) = answer(running.request("PATCH", "/v1/models")).await;
    assert_eq!((status, body["error"]["code"].as_str()), (405, Some("method_not_allowed")));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_belongs_to_the_key_that_made_it_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let running = Running::usual(&store).await;
    let path = running.conversation("loud").await;
    running.prompt(&path, "hello").await;
    for attempt in 0..2 {
        let running = if attempt == 0 { &running } else { &Running::usual(&store).await };
        let id = path.rsplit('/').next().unwrap();
        let as_bob = |method: &str, path: &str| {
            let url = format!("{}{path}", running.url);
            running
                .client
                .request(reqwest::Method::from_bytes(method.as_bytes()).unwrap(), url)
                .bearer_auth(BOB)
        };
        for (method, path) in [
            ("GET", path.clone()),
            ("GET", format!("{path}/events")),
            ("GET", format!("{path}/messages")),
            ("GET", format!("{path}/questions")),
            ("POST", format!("{path}/abort")),
            ("POST", format!("{path}/resume")),
            ("DELETE", path.clone()),
        ] {
            let (status, body) = answer(as_bob(method, &path)).await;
            assert_eq!((status, body["error"]["code"].as_str()), (404, Some("not_found")), "{method} {path}");
        }
        let prompt = as_bob("POST", &format!("{path}/prompt")).json(&json!({"text": "mine?"}));
        assert_eq!(answer(prompt).await.0, 404);
        let continued =
            json!({"model": "loud", "input": "x", "previous_response_id": format!("resp_{id}_1")});
        let (status, body) = answer(as_bob("POST", "/v1/responses").json(&continued)).await;
        assert_eq!((status, body["error"]["code"].as_str()), (400, Some("previous_response_not_found")));
        assert_eq!(answer(as_bob("GET", "/v1/conversations")).await.1["total"], 0);
        let (_, list) = running.get("/v1/conversations").await;
        assert_eq!(
            (list["total"].as_u64(), list["conversations"][0]["title"].as_str()),
            (Some(1), Some("hello"))
        );
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_over_its_rate_is_told_when_to_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let [alice, bob] = keys();
    let builder = builder(&store(folder.path())).keys([alice.with_requests_per_minute(3), bob]);
    let running = Running::with(builder).await;
    for _ in 0..3 {
        assert_eq!(running.get("/v1/models").await.0, 200);
    }
    let response = running.request("GET", "/v1/models").send().await.unwrap();
    assert_eq!(response.status().as_u16(), 429);
    let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=20).contains(&seconds), "{seconds}");
    // Another key and the health of the service are not affected.
    let (status, _) = answer(running.client.get(format!("{}/v1/models", running.url)).bearer_auth(BOB)).await;
    assert_eq!(status, 200);
    assert_eq!(answer(running.client.get(format!("{}/healthz", running.url))).await.0, 200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_spends_no_more_than_its_budget_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let make = || {
        let [alice, bob] = keys();
        // A reply has 17 tokens, and a call reserves at least 1,024 for its answer.
        let alice = alice.with_budget(BudgetLimits::none().with_model_calls(2).with_tokens(10_000));
        builder(&store).keys([alice, bob]).limits(quick())
    };
    let running = Running::with(make()).await;
    let path = running.conversation("loud").await;
    for text in ["one", "two"] {
        let after = running.prompt(&path, text).await;
        running.until(&path, after, "agent_end").await;
        running.wait_for(&path, "idle").await;
    }
    let (status, body) = running.post(&format!("{path}/prompt"), json!({"text": "three"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (402, Some("insufficient_quota")));
    let (_, usage) = running.get("/v1/usage").await;
    assert_eq!(
        (usage["spent"]["model_calls"].as_u64(), usage["spent"]["tokens"].as_u64()),
        (Some(2), Some(34))
    );
    running.stop().await;
    let running = Running::with(make()).await;
    assert_eq!(running.get("/v1/usage").await.1["spent"]["tokens"], 34);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_keys_is_not_reachable_from_other_machines_or_pages() {
    let folder = tempfile::tempdir().unwrap();
    let service = builder(&store(folder.path())).build().unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = service.serve(listener, std::future::pending()).await.unwrap_err();
    assert!(matches!(refused, ServiceError::NoKeys { .. }), "{refused}");

    let running = Running::with(builder(&store(folder.path())).limits(quick())).await;
    let url = format!("{}/v1/models", running.url);
    let host = running.url.strip_prefix("http://").unwrap().to_owned();
    assert_eq!(answer(running.client.get(&url)).await.0, 200);
    assert_eq!(answer(running.client.get(&url).header("origin", format!("http://{host}"))).await.0, 200);
    for (name, value) in [
        ("origin", "https://example.com"),
        ("origin", "null"),
        ("host", "example.com"),
        ("host", "127.0.0.1.example.com"),
    ] {
        let (status, body) = answer(running.client.get(&url).header(name, value)).await;
        assert_eq!((status, body["error"]["code"].as_str()), (403, Some("not_local")), "{name}: {value}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_too_large_too_slow_or_not_json_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.body_bytes = 1_000;
    limits.body_time = Duration::from_millis(100);
    let running = Running::with(builder(&store(folder.path())).keys(keys()).limits(limits)).await;
    let path = running.conversation("loud").await;
    let prompt = format!("{path}/prompt");
    let (status, body) = running.post(&prompt, json!({"text": "x".repeat(2_000)})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (413, Some("too_large")));
    for (kind, body, expected) in [
        ("text/plain", "{}", 415),
        ("application/json", "{", 400),
        ("application/json", r#"{"text":"a","extra":1}"#, 400),
        ("application/json", r#"{"text":""}"#, 400),
        ("application/json", r#"{"text":"a","images":[{"mime_type":"image/svg+xml","data":""}]}"#, 400),
    ] {
        let request = running.request("POST", &prompt).header("content-type", kind).body(body);
        assert_eq!(answer(request).await.0, expected, "{body}");
    }
    let body = reqwest::Body::wrap_stream(futures_util::stream::once(async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        Ok::<_, std::io::Error>("{}")
    }));
    let request = running.request("POST", &prompt).header("content-type", "application/json").body(body);
    let (status, body) = answer(request).await;
    assert_eq!((status, body["error"]["code"].as_str()), (408, Some("too_slow")));
    running.stop().await;
}

/// Clients that send nothing, or the beginning of a request of another version, must not hold the connections.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_whole_head_is_closed_after_the_time_for_it() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.head_time = Duration::from_millis(100);
    limits.connections = 4;
    let running = Running::with(builder(&store(folder.path())).limits(limits)).await;
    let address = running.url.strip_prefix("http://").unwrap().to_owned();
    let mut open = Vec::new();
    for start in ["", "PRI * HT", "GET /healthz HTTP/1.1\r\nhost: ", "POST /v1/conv"] {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        open.push((start, stream));
    }
    for (start, mut stream) in open {
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "{start:?} holds its connection");
    }
    assert_eq!(running.get("/healthz").await.0, 200);
    running.stop().await;
}
