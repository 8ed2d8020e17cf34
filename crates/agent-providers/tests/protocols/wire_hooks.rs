//! The hooks that look at the wire see the bytes that a server sees, and no credential.

use agent_core::compat::SeedSetters as _;
use std::sync::{Arc, Mutex};

use agent_core::provider::HIDDEN;
use agent_core::{
    BasicAgent, ModelConfig, ModelRequest, Received, ReceivedPart, RetryConfig, SentRequest, StreamProvider,
};
use agent_providers::{ProviderRegistry, RemoteProvider, Transport, TransportConfig};
use serde_json::json;

use crate::eight::{ALL, ANTHROPIC, BEDROCK, RESPONSES, Said, VERTEX, Vendor};
use crate::support::{Act, Asked, Server, call, head, hello, piece};

/// What the hooks saw.
#[derive(Default)]
struct Seen {
    requests: Vec<Request>,
    answers: Vec<Came>,
}

struct Came {
    exchange: u64,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    ended: bool,
}

struct Request {
    exchange: u64,
    target: (String, String),
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

type Log = Arc<Mutex<Seen>>;

fn request(log: &Log, sent: &SentRequest<'_>) {
    log.lock().unwrap().requests.push(Request {
        exchange: sent.exchange,
        target: (sent.provider.to_owned(), sent.model.to_owned()),
        method: sent.method.to_owned(),
        url: sent.url.to_owned(),
        headers: sent.headers.to_vec(),
        body: sent.body.to_vec(),
    });
}

fn answer(log: &Log, part: &ReceivedPart<'_>) {
    let mut log = log.lock().unwrap();
    match part.part {
        Received::Head { status, headers } => {
            let exchange = part.exchange;
            log.answers.push(Came {
                exchange,
                status,
                headers: headers.to_vec(),
                body: Vec::new(),
                ended: false,
            });
        }
        Received::Body(bytes) => log.answers.last_mut().unwrap().body.extend_from_slice(bytes),
        Received::End => log.answers.last_mut().unwrap().ended = true,
        other => panic!("{other:?}"),
    }
}

fn watched(mut request_: ModelRequest) -> (ModelRequest, Log) {
    let log = Log::default();
    let (one, two) = (Arc::clone(&log), Arc::clone(&log));
    request_.options.wire_hooks.on_request = Some(Arc::new(move |sent| request(&one, sent)));
    request_.options.wire_hooks.on_response = Some(Arc::new(move |part| answer(&two, part)));
    (request_, log)
}

/// All that was seen, as one text.
fn all_text(seen: &Seen) -> String {
    let mut text = String::new();
    for request in &seen.requests {
        text.push_str(&format!("{} {:?} ", request.url, request.headers));
        text.push_str(&String::from_utf8_lossy(&request.body));
    }
    for came in &seen.answers {
        text.push_str(&format!("{:?}", came.headers));
        text.push_str(&String::from_utf8_lossy(&came.body));
    }
    text
}

/// The bytes of a script's body.
fn body_of(script: &[Act]) -> Vec<u8> {
    script
        .iter()
        .filter_map(|act| if let Act::Piece(p) = act { Some(p.clone()) } else { None })
        .flatten()
        .collect()
}

/// The request that was seen is the one that arrived.
fn assert_same(seen: &Request, asked: &Asked, base: &str) {
    assert_eq!(seen.body, asked.body.as_bytes());
    let path = seen.url.strip_prefix(base).unwrap_or_else(|| panic!("{}", seen.url));
    assert_eq!(format!("{} {path} HTTP/1.1", seen.method), asked.line);
    let arrived: Vec<(String, &str)> = asked
        .headers
        .lines()
        .filter_map(|line| line.split_once(": ").map(|(n, v)| (n.to_ascii_lowercase(), v)))
        .collect();
    for (name, value) in &seen.headers {
        let there = arrived.iter().any(|(n, v)| n == name && (v == value || value == HIDDEN));
        assert!(there, "{name}: {value} of {arrived:?}");
    }
    for (name, value) in &arrived {
        let of_the_connection = ["host", "content-length"].contains(&name.as_str())
            || (name == "accept" && *value == "*/*")
            || (name == "accept-encoding");
        let shown = seen.headers.iter().any(|(n, _)| n == name);
        assert!(of_the_connection || shown, "{name}: {value} arrived and was not shown");
    }
}

async fn check(vendor: Vendor, change: impl FnOnce(&mut ModelRequest)) -> Seen {
    let script = vendor.answer(&Said { thinks: true, ..Said::text("Grüße — 日本") });
    let server = Server::start(vec![script.clone()]).await;
    let base = format!("http://{}", server.address);
    let mut asking = hello(vendor.at(&base));
    change(&mut asking);
    let (asking, log) = watched(asking);
    // A transport of its own: what is left of an answer is read before the next one.
    let registry = ProviderRegistry::with_transport(&Transport::new(TransportConfig::default()));
    let outcome = call(&registry, &asking).await;
    assert_eq!(outcome.text(), "Grüße — 日本", "{}: {:?}", vendor.name, outcome.end);
    let seen = std::mem::take(&mut *log.lock().unwrap());
    assert_eq!((seen.requests.len(), seen.answers.len()), (1, 1), "{}", vendor.name);
    let (sent, came) = (&seen.requests[0], &seen.answers[0]);
    assert_same(sent, &server.asked()[0], &base);
    assert_eq!(sent.target, (asking.model.provider.clone(), vendor.model.to_owned()));
    assert_eq!((came.exchange, came.status), (sent.exchange, 200), "{}", vendor.name);
    assert!(came.headers.iter().any(|(n, v)| n == "transfer-encoding" && v == "chunked"));
    assert_eq!(came.body, body_of(&script), "{}: the bytes of the answer", vendor.name);
    let text = all_text(&seen);
    for secret in vendor.secrets() {
        assert!(!text.contains(secret), "{}: {secret} in {text}", vendor.name);
        let arrived = format!("{:?}", server.asked());
        // The secret key of AWS signs and is not sent.
        assert!(arrived.contains(secret) || secret == "its-secret-key-seven", "{}: {arrived}", vendor.name);
    }
    seen
}

#[tokio::test]
async fn the_bytes_seen_are_the_bytes_on_the_wire_and_hold_no_credential() {
    for vendor in ALL {
        let seen = check(vendor, |_| {}).await;
        let hidden = seen.requests[0].headers.iter().filter(|(_, v)| v == HIDDEN).count();
        assert!(hidden >= 1, "{}: the key is shown to be there", vendor.name);
    }
}

#[tokio::test]
async fn headers_of_the_caller_are_hidden_unless_they_are_known_to_be_harmless() {
    for vendor in ALL {
        let seen = check(vendor, |request| {
            request.options.headers.insert("X-Their-Own".into(), Some("a-secret-of-the-caller".into()));
            request.options.headers.insert("anthropic-beta".into(), Some("a-feature".into()));
        })
        .await;
        let headers = &seen.requests[0].headers;
        assert!(headers.contains(&("x-their-own".into(), HIDDEN.into())), "{headers:?}");
        assert!(headers.iter().any(|(n, v)| n == "anthropic-beta" && v.contains("a-feature")), "{headers:?}");
        assert!(!all_text(&seen).contains("a-secret-of-the-caller"));
    }
}

#[tokio::test]
async fn a_key_that_a_server_sends_back_is_hidden_in_whatever_pieces_it_comes() {
    for vendor in ALL {
        for secret in vendor.secrets() {
            if secret == "its-secret-key-seven" {
                continue;
            }
            let (first, second) = secret.split_at(secret.len() / 2);
            let script = vec![
                Act::Head(401, vec![("content-type", "application/json".into()), ("x-echo", secret.into())]),
                piece(&format!("{{\"error\": {{\"message\": \"no such key: {first}")),
                piece(&format!("{second}\"}}, \"message\": \"{secret}\"}}")),
                Act::End,
            ];
            let server = Server::start(vec![script]).await;
            let (asking, log) = watched(hello(vendor.at(&format!("http://{}", server.address))));
            let outcome = call(&ProviderRegistry::default(), &asking).await;
            assert!(outcome.end.is_err());
            let seen = log.lock().unwrap();
            assert_eq!(seen.answers[0].status, 401);
            let body = String::from_utf8(seen.answers[0].body.clone()).unwrap();
            assert_eq!(
                body, "{\"error\": {\"message\": \"no such key: ****\"}, \"message\": \"****\"}",
                "{}: {secret}",
                vendor.name
            );
            assert!(seen.answers[0].ended, "the end of an error answer is said");
            assert!(!all_text(&seen).contains(secret), "{}", vendor.name);
        }
    }
}

#[tokio::test]
async fn the_token_of_the_remote_form_is_not_shown() {
    let mut answer = Vec::new();
    let end = Ok(agent_core::Completion::new(agent_core::StopReason::Stop));
    agent_providers::remote::end_frame(&mut answer, &end);
    let server = Server::answering("text/event-stream", answer).await;
    let (asking, log) = watched(hello(ANTHROPIC.at("http://unused")));
    let remote = RemoteProvider::new(format!("http://{}", server.address), "token-of-the-server");
    call(&remote, &asking).await.end.unwrap();
    let seen = log.lock().unwrap();
    assert_same(&seen.requests[0], &server.asked()[0], &format!("http://{}", server.address));
    assert!(format!("{:?}", server.asked()).contains("token-of-the-server"));
    assert!(!all_text(&seen).contains("token-of-the-server"));
    assert!(!all_text(&seen).contains(ANTHROPIC.key));
}

#[tokio::test]
async fn a_hook_that_panics_changes_nothing() {
    for vendor in [ANTHROPIC, BEDROCK, VERTEX] {
        let server = Server::start(vec![vendor.answer(&Said::text("fine"))]).await;
        let mut asking = hello(vendor.at(&format!("http://{}", server.address)));
        asking.options.wire_hooks.on_request = Some(Arc::new(|_| panic!("of the hook")));
        asking.options.wire_hooks.on_response = Some(Arc::new(|_| panic!("of the hook")));
        assert_eq!(call(&ProviderRegistry::default(), &asking).await.text(), "fine");
    }
}

#[tokio::test]
async fn an_agent_shows_every_attempt_after_the_hook_that_changes_bodies() {
    let script =
        vec![vec![head(500, "application/json"), piece("{}"), Act::End], RESPONSES.answer(&Said::text("ok"))];
    let server = Server::start(script).await;
    let log = Log::default();
    let (one, two) = (Arc::clone(&log), Arc::clone(&log));
    let mut retry = RetryConfig::default();
    retry.initial_delay_ms = 1;
    let agent = BasicAgent::new(RESPONSES.at(&format!("http://{}", server.address)))
        .with_provider(ProviderRegistry::default())
        .with_retry_config(retry)
        .with_request_hook(Arc::new(|body| {
            let mut body = body.clone();
            body["metadata"] = json!({"changed": "yes"});
            Some(body)
        }))
        .with_on_request(move |sent| request(&one, sent))
        .with_on_response(move |part| answer(&two, part));
    assert_eq!(agent.chat("Hello").await.unwrap(), "ok");
    let seen = log.lock().unwrap();
    let statuses: Vec<u16> = seen.answers.iter().map(|a| a.status).collect();
    assert_eq!(statuses, [500, 200]);
    assert!(seen.requests[0].exchange != seen.requests[1].exchange);
    for (sent, asked) in seen.requests.iter().zip(server.asked()) {
        assert_eq!(sent.body, asked.body.as_bytes());
        assert!(asked.body.contains("\"changed\":\"yes\""));
    }
}

#[test]
fn a_model_and_a_request_show_no_hooks_and_no_keys_in_their_debug_form() {
    for vendor in ALL {
        let (asking, _) = watched(hello(ModelConfig::clone(&vendor.at("http://localhost"))));
        let text = format!(
            "{asking:?} {:?} {:?}",
            asking.options.wire_hooks,
            StreamProvider::provider_id(&ProviderRegistry::default())
        );
        for secret in vendor.secrets() {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
