//! Bedrock over real loopback HTTP: what is signed and sent, what is read as it comes, what an error says.

#![cfg(feature = "bedrock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly, and says so when it skips"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::{
    CancellationToken, Content, ErrorKind, ModelConfig, ModelRequest, OwnedStreamEvent, StopReason,
    StreamEvent, StreamProvider, ToolChoice, ToolDefinition, complete,
};
use agent_providers::bedrock::Credentials;
use agent_providers::eventstream::{Header, HeaderValue, Message};
use agent_providers::{BedrockProvider, ProviderRegistry, Transport, TransportConfig};
use serde_json::{Value, json};
use support::{Act, Asked, Server, call, call_until, head, hello, piece};
use tokio::sync::Notify;

const STREAM: &str = "application/vnd.amazon.eventstream";
const KEYS: &str = "AKIDEXAMPLE0000000:wJalrXUtnFEMI-K7MDENG:FwoGZXIvYXdzEXAMPLE";

fn frame(kind: &str, name: &str, payload: Value) -> Vec<u8> {
    let text = |t: &str| HeaderValue::String(t.to_owned().into());
    let name_of = if kind == "exception" { ":exception-type" } else { ":event-type" };
    let message = Message::new(payload.to_string().into_bytes())
        .add_header(Header::new(":message-type", text(kind)))
        .add_header(Header::new(name_of, text(name)));
    let mut out = Vec::new();
    aws_smithy_eventstream::frame::write_message_to(&message, &mut out).unwrap();
    out
}

fn event(name: &str, payload: Value) -> Vec<u8> {
    frame("event", name, payload)
}

fn text(delta: &str) -> Vec<u8> {
    event("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": delta}, "p": "abc"}))
}

/// A good reply: text, then a call.
fn reply() -> Vec<u8> {
    [
        event("messageStart", json!({"role": "assistant"})),
        text("Hel"),
        text("lo"),
        event("contentBlockStop", json!({"contentBlockIndex": 0})),
        event(
            "contentBlockStart",
            json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "read"}}}),
        ),
        event(
            "contentBlockDelta",
            json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{\"path\": \"x\"}"}}}),
        ),
        event("contentBlockStop", json!({"contentBlockIndex": 1})),
        event("messageStop", json!({"stopReason": "tool_use"})),
        event("metadata", tokens()),
    ]
    .concat()
}

fn tokens() -> Value {
    json!({"usage": {"inputTokens": 9, "outputTokens": 12, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 2}})
}

fn model(server: &Server) -> ModelConfig {
    ModelConfig::bedrock("eu-west-3", "anthropic.claude-test-v1:0")
        .with_base_url(format!("http://{}", server.address))
        .with_api_key(KEYS)
}

fn header<'a>(asked: &'a Asked, name: &str) -> Option<&'a str> {
    asked.headers.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A good reply, until the event that names the stop reason.
fn reply_without_tokens() -> Act {
    let reply = reply();
    let metadata = event("metadata", tokens()).len();
    Act::Piece(reply[..reply.len() - metadata].to_vec())
}

/// The tokens follow the stop reason, and the vendor may take its time.
#[tokio::test]
async fn the_tokens_are_waited_for_as_long_as_the_server_may_be_silent() {
    let script = vec![
        head(200, STREAM),
        reply_without_tokens(),
        Act::Pause(Duration::from_millis(400)),
        Act::Piece(event("metadata", tokens())),
        // What is complete does not wait for the connection to end.
        Act::Stall,
    ];
    let server = Server::start(vec![script]).await;
    let message = call(&BedrockProvider::new(), &hello(model(&server))).await.message();
    assert_eq!((message.usage.input, message.usage.output), (9, 12));
    assert_eq!(message.stop_reason, StopReason::ToolUse);
}

/// A reply whose tokens never come is complete; its usage is unknown.
#[tokio::test]
async fn a_reply_without_tokens_is_complete_and_reports_no_usage() {
    let config = TransportConfig::default().with_idle_timeout(Duration::from_millis(200));
    let provider = BedrockProvider::with_transport(Transport::new(config));
    for end in [Act::Stall, Act::Cut, Act::End] {
        let script = vec![head(200, STREAM), reply_without_tokens(), end];
        let server = Server::start(vec![script]).await;
        let outcome = call(&provider, &hello(model(&server))).await;
        assert_eq!(outcome.message().tool_calls().count(), 1);
        assert!(!outcome.events.iter().any(|e| matches!(e, OwnedStreamEvent::Usage { .. })));
        assert!(outcome.message().usage.is_zero());
    }
}

/// REQ-122, REQ-186.
#[tokio::test]
async fn a_streamed_reply_becomes_a_message_and_the_request_is_signed() {
    let server = Server::answering(STREAM, reply()).await;
    let mut request = hello(model(&server));
    request.tools = vec![ToolDefinition::new("read", "Reads.", json!({"type": "object"}))].into();
    let provider = BedrockProvider::new();
    assert_eq!(provider.provider_id(), "bedrock");
    let message = complete(&provider, &request, &CancellationToken::new()).await.unwrap();
    assert_eq!((message.text().as_str(), message.stop_reason), ("Hello", StopReason::ToolUse));
    let call = message.tool_calls().next().unwrap();
    assert_eq!((call.id.as_str(), call.arguments.text()), ("tooluse_1", "{\"path\": \"x\"}"));
    let usage = &message.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (9, 12, 5, 2));

    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /model/anthropic.claude-test-v1%3A0/converse-stream HTTP/1.1");
    let authorization = header(asked, "authorization").unwrap();
    assert!(
        authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE0000000/")
            && authorization.contains("/eu-west-3/bedrock/aws4_request"),
        "{authorization}"
    );
    assert_eq!(header(asked, "x-amz-security-token"), Some("FwoGZXIvYXdzEXAMPLE"));
    assert!(header(asked, "x-amz-date").is_some());
    assert!(header(asked, "user-agent").unwrap().contains("looptree"));
    assert_eq!(header(asked, "accept"), Some(STREAM));
    assert_eq!(header(asked, "content-type"), Some("application/json"));
    assert!(!asked.headers.contains("wJalrXUtnFEMI"), "the secret signs and is not sent");
    let body = asked.json();
    assert_eq!(body["messages"], json!([{"role": "user", "content": [{"text": "hello"}]}]));
    assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"]["name"], "read");
}

/// One call is one request: the loop retries, with a policy that the user sees.
#[tokio::test]
async fn a_failed_call_is_sent_once() {
    for status in [429, 500, 503] {
        let script = vec![head(status, "application/json"), piece("{\"message\":\"no\"}"), Act::End];
        let server = Server::start(vec![script]).await;
        assert!(call(&BedrockProvider::new(), &hello(model(&server))).await.error().is_retryable());
        assert_eq!(server.asked().len(), 1, "{status}");
    }
}

/// The signature that AWS would compute over what has arrived.
#[tokio::test]
async fn the_signature_is_over_the_body_and_the_headers_that_were_sent() {
    let server = Server::answering(STREAM, reply()).await;
    let mut request = hello(model(&server));
    request.options.headers.insert("X-Own".into(), Some("signed too".into()));
    request.options.request_hook = Some(Arc::new(|body| {
        let mut body = body.clone();
        body["requestMetadata"] = json!({"team": "a"});
        Some(body)
    }));
    call(&BedrockProvider::new(), &request).await.end.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(asked.json()["requestMetadata"]["team"], "a");
    assert_eq!(header(asked, "x-own"), Some("signed too"));
    let authorization = header(asked, "authorization").unwrap();
    let signed = authorization.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    for name in ["host", "x-amz-date", "x-amz-security-token", "x-own"] {
        assert!(signed.split(';').any(|n| n == name), "{signed}");
    }
    let length: usize = header(asked, "content-length").unwrap().parse().unwrap();
    assert_eq!(length, asked.body.len());
    let mut canonical = String::from("POST\n/model/anthropic.claude-test-v1%253A0/converse-stream\n\n");
    for name in signed.split(';') {
        canonical.push_str(&format!("{name}:{}\n", header(asked, name).unwrap()));
    }
    canonical.push_str(&format!("\n{signed}\n{}", hex(&sha256(asked.body.as_bytes()))));
    let date = header(asked, "x-amz-date").unwrap();
    let scope = format!("{}/eu-west-3/bedrock/aws4_request", &date[..8]);
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&sha256(canonical.as_bytes())));
    let mut key = hmac(b"AWS4wJalrXUtnFEMI-K7MDENG", &date.as_bytes()[..8]);
    for part in ["eu-west-3", "bedrock", "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    let wanted = hex(&hmac(&key, to_sign.as_bytes()));
    assert!(authorization.ends_with(&format!("Signature={wanted}")), "{authorization}\n{canonical}");
}

/// An API key is a bearer token, and no AWS key is ever one.
#[tokio::test]
async fn an_api_key_is_sent_as_a_bearer_token() {
    let server = Server::answering(STREAM, reply()).await;
    let request = hello(model(&server).with_api_key("ABSKQmVkcm9ja0FQSUtleQ=="));
    call(&BedrockProvider::new(), &request).await.end.unwrap();
    let mut by_call = hello(model(&server));
    by_call.api_key = Some("bedrock-api-key-of-the-call".into());
    call(&BedrockProvider::new(), &by_call).await.end.unwrap();
    let asked = server.asked();
    assert_eq!(header(&asked[0], "authorization"), Some("Bearer ABSKQmVkcm9ja0FQSUtleQ=="));
    assert_eq!(header(&asked[1], "authorization"), Some("Bearer bedrock-api-key-of-the-call"));
    assert!(header(&asked[0], "x-amz-security-token").is_none());
}

#[tokio::test]
async fn credentials_may_come_from_a_provider_of_the_callers() {
    let server = Server::answering(STREAM, reply()).await;
    let mut bare = model(&server);
    bare.api_key = None;
    let error = call(&BedrockProvider::new(), &hello(bare.clone())).await.error().to_string();
    assert!(error.contains("AWS_BEARER_TOKEN_BEDROCK"), "{error}");
    assert!(server.asked().is_empty());
    let credentials = Credentials::new("AKIDFROMELSEWHERE", "other-secret", None, None, "test");
    let provider = BedrockProvider::new().with_credentials(credentials);
    assert!(provider.check(&bare).is_ok());
    call(&provider, &hello(bare)).await.end.unwrap();
    assert!(header(&server.asked()[0], "authorization").unwrap().contains("AKIDFROMELSEWHERE"));
    assert!(!format!("{provider:?}").contains("other-secret"));
}

/// B-155.
#[tokio::test]
async fn the_callers_headers_win_also_over_those_of_the_sdk() {
    let server = Server::answering(STREAM, reply()).await;
    let mut request = hello(model(&server).with_header("Authorization", "Token of-a-gateway"));
    request.options.headers.insert("User-Agent".into(), Some("mine/1".into()));
    request.options.headers.insert("Amz-Sdk-Invocation-Id".into(), None);
    request.options.headers.insert("Accept".into(), Some("*/*".into()));
    call(&BedrockProvider::new(), &request).await.end.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(header(asked, "authorization"), Some("Token of-a-gateway"));
    assert_eq!(header(asked, "user-agent"), Some("mine/1"));
    assert_eq!(header(asked, "accept"), Some("*/*"));
    assert!(header(asked, "amz-sdk-invocation-id").is_none());
}

/// Each delta is passed on before the next one is sent.
#[tokio::test]
async fn deltas_are_there_as_soon_as_they_are_sent() {
    let go: Vec<Arc<Notify>> = (0..4).map(|_| Arc::default()).collect();
    let mut script = vec![head(200, STREAM), Act::Piece(event("messageStart", json!({"role": "assistant"})))];
    for (n, notify) in go.iter().enumerate() {
        script.extend([Act::Wait(Arc::clone(notify)), Act::Piece(text(&n.to_string()))]);
    }
    script.extend([Act::Piece(event("messageStop", json!({"stopReason": "end_turn"}))), Act::End]);
    let server = Server::start(vec![script]).await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (notes, request) = (Arc::clone(&seen), hello(model(&server)));
    let task = tokio::spawn(async move {
        let mut sink = |event: StreamEvent<'_>| {
            if let StreamEvent::TextDelta { delta, .. } = event {
                notes.lock().unwrap().push(delta.to_owned());
            }
        };
        BedrockProvider::new().stream(&request, &mut sink, &CancellationToken::new()).await
    });
    for (n, notify) in go.iter().enumerate() {
        assert_eq!(seen.lock().unwrap().len(), n, "nothing comes before it is sent");
        notify.notify_one();
        tokio::time::timeout(Duration::from_secs(20), async {
            while seen.lock().unwrap().len() <= n {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("a delta is passed on when it is there");
    }
    task.await.unwrap().unwrap();
    assert_eq!(seen.lock().unwrap().concat(), "0123");
}

/// The AWS SDK ends the stream there; this is why its own decoder is not used.
#[tokio::test]
async fn unknown_members_and_events_do_not_end_a_stream() {
    let odd = json!({"contentBlockIndex": 0, "delta": {"text": "b", "ofNextYear": {"x": [1]}}});
    let body = [
        event("messageStart", json!({"role": "assistant"})),
        text("a"),
        event("contentBlockDelta", odd),
        event("ofNextYear", json!({"y": 1})),
        frame("of-next-year", "thing", json!({})),
        text("c"),
        event("messageStop", json!({"stopReason": "end_turn"})),
        event("metadata", json!({"usage": {"inputTokens": 1, "outputTokens": 2}})),
    ];
    let server = Server::answering(STREAM, body.concat()).await;
    let outcome = call(&BedrockProvider::new(), &hello(model(&server))).await;
    assert!(outcome.end.is_ok());
    assert_eq!((outcome.text().as_str(), outcome.log.unrecognised()), ("abc", 2));
}

/// B-159, B-120.
#[tokio::test]
async fn a_stream_that_fails_is_a_typed_error_and_keeps_what_came() {
    let broken = |tail: Vec<u8>, end: Act| {
        let begin = [event("messageStart", json!({"role": "assistant"})), text("half"), tail].concat();
        vec![head(200, STREAM), Act::Piece(begin), end]
    };
    let mut corrupt = text("lost");
    let at = corrupt.len() - 6;
    corrupt[at] ^= 1;
    let exception = |name, message| frame("exception", name, json!({ "message": message }));
    let cases = [
        (broken(exception("throttlingException", "slow down"), Act::End), ErrorKind::RateLimited),
        (broken(exception("modelStreamErrorException", "broke"), Act::End), ErrorKind::Network),
        (broken(exception("validationException", "bad"), Act::End), ErrorKind::Api),
        (broken(corrupt, Act::End), ErrorKind::Network),
        (broken(text("cut")[..20].to_vec(), Act::End), ErrorKind::Network),
        (broken(vec![], Act::Cut), ErrorKind::Network),
        (broken(vec![], Act::End), ErrorKind::Network),
    ];
    for (script, kind) in cases {
        let server = Server::start(vec![script]).await;
        let outcome = call(&BedrockProvider::new(), &hello(model(&server))).await;
        assert_eq!(outcome.error().kind(), kind, "{}", outcome.error());
        assert_eq!(outcome.text(), "half");
    }
}

#[tokio::test]
async fn a_frame_beyond_the_bound_is_refused_before_it_is_read() {
    let server = Server::answering(STREAM, [text(&"x".repeat(5_000)), text("y")].concat()).await;
    let transport = Transport::new(TransportConfig::default().with_max_frame_bytes(4_096));
    let outcome = call(&BedrockProvider::with_transport(transport), &hello(model(&server))).await;
    assert_eq!(outcome.error().kind(), ErrorKind::Other);
    assert!(outcome.error().to_string().contains("at most 4096 are taken"), "{}", outcome.error());
}

/// REQ-167.
#[tokio::test]
async fn a_refusal_names_who_what_and_which_request_and_no_credential() {
    let leak =
        format!("denied for {KEYS}; The Canonical String was 'x-amz-security-token:FwoGZXIvYXdzEXAMPLE'");
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("x-amzn-errortype", "ThrottlingException:http://internal.amazon.com/coral/".to_owned()),
        ("x-amzn-requestid", "req-7".to_owned()),
        ("retry-after", "17".to_owned()),
    ];
    let body = json!({ "message": leak }).to_string();
    let server = Server::start(vec![vec![Act::Head(429, headers), piece(&body), Act::End]]).await;
    let request = hello(model(&server));
    let outcome = call(&BedrockProvider::new(), &request).await;
    let error = outcome.error();
    assert_eq!((error.kind(), error.request_id()), (ErrorKind::RateLimited, Some("req-7")));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(17)));
    assert_eq!(error.context().unwrap().code.as_deref(), Some("ThrottlingException"));
    let shown = format!("{error} {error:?} {request:?} {:?}", outcome.events);
    assert!(shown.contains("bedrock (anthropic.claude-test-v1:0) answered 429: denied"), "{shown}");
    for secret in KEYS.split(':') {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// D35, D15.
#[tokio::test]
async fn json_is_taken_only_from_who_says_that_it_is() {
    let whole = json!({"output": {"message": {"role": "assistant", "content": [{"text": "whole"}]}},
        "stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 2}})
    .to_string();
    let lines = "{\"contentBlockDelta\":{\"contentBlockIndex\":0,\"delta\":{\"text\":\"whole\"}}}\n\
        {\"messageStop\":{\"stopReason\":\"end_turn\"}}\n{\"metadata\":{\"usage\":{\"inputTokens\":1,\"outputTokens\":2}}}\n";
    for (kind, body) in [
        ("application/json", whole.as_str()),
        ("application/json; charset=utf-8", lines),
        ("application/x-ndjson", lines),
    ] {
        let server = Server::answering(kind, body).await;
        let outcome = call(&BedrockProvider::new(), &hello(model(&server))).await;
        assert_eq!(outcome.text(), "whole", "{kind}");
        assert_eq!((outcome.end.is_ok(), outcome.log.usage().output), (true, 2), "{kind}");
    }
    for kind in [STREAM, "application/octet-stream", "text/plain"] {
        for body in [whole.as_str(), lines] {
            let server = Server::answering(kind, body).await;
            let outcome = call(&BedrockProvider::new(), &hello(model(&server))).await;
            assert_eq!((outcome.error().kind(), outcome.text().as_str()), (ErrorKind::Api, ""), "{kind}");
        }
    }
    let untyped = vec![Act::Head(200, vec![]), Act::Piece(reply()), Act::End];
    let server = Server::start(vec![untyped]).await;
    assert_eq!(call(&BedrockProvider::new(), &hello(model(&server))).await.text(), "Hello");
}

/// B-154.
#[tokio::test]
async fn an_abort_ends_the_call_at_once() {
    let begin = [event("messageStart", json!({"role": "assistant"})), text("half")].concat();
    for script in [vec![Act::Stall], vec![head(200, STREAM), Act::Piece(begin), Act::Stall]] {
        let server = Server::start(vec![script]).await;
        let (request, cancel) = (hello(model(&server)), CancellationToken::new());
        let stop = cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            stop.cancel();
        });
        let outcome = call_until(&BedrockProvider::new(), &request, &cancel).await;
        assert_eq!(outcome.error().kind(), ErrorKind::Cancelled);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_network_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model =
        ModelConfig::bedrock("eu-west-1", "m").with_base_url(format!("http://{address}")).with_api_key(KEYS);
    let outcome = call(&BedrockProvider::new(), &hello(model)).await;
    assert_eq!(outcome.error().kind(), ErrorKind::Network);
    assert!(outcome.error().to_string().contains("no connection"), "{}", outcome.error());
}

/// REQ-042.
#[tokio::test]
async fn the_registry_serves_it_and_checks_before_sending() {
    let server = Server::answering(STREAM, reply()).await;
    let registry = ProviderRegistry::default();
    assert_eq!(registry.provider_id_for(&model(&server)), "bedrock");
    assert!(registry.check(&model(&server)).is_ok());
    let odd = ModelConfig::bedrock("eu-west-1", "m").with_api_key("half:");
    assert_eq!(registry.check(&odd).unwrap_err().kind(), ErrorKind::Auth);
    let outcome = call(&registry, &hello(model(&server))).await;
    assert!(matches!(outcome.events.first(), Some(OwnedStreamEvent::Start { .. })));
    let mut asked: ModelRequest = hello(model(&server));
    asked.options.tool_choice = ToolChoice::Required;
    assert!(call(&registry, &asked).await.error().to_string().contains("names no tools"));
    assert_eq!(server.asked().len(), 1);
    assert_eq!(outcome.log.content()[0], Content::text("Hello"));
}

/// The vendor itself. Reads the key from the environment; without one it says so and passes.
#[tokio::test]
#[ignore = "calls the vendor and costs money"]
#[expect(clippy::disallowed_methods, reason = "a live test takes its key from the environment")]
async fn live_the_vendor_answers() {
    let Ok(key) = std::env::var("AWS_BEARER_TOKEN_BEDROCK") else {
        println!("skipped: AWS_BEARER_TOKEN_BEDROCK is not set");
        return;
    };
    let model = ModelConfig::bedrock("us-east-1", "us.amazon.nova-micro-v1:0").with_api_key(key);
    let outcome = call(&BedrockProvider::new(), &hello(model)).await;
    outcome.end.as_ref().unwrap();
    assert!(outcome.log.usage().output > 0);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    assert!(key.len() <= 64);
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(b, k)| *b ^= k);
        block.to_vec()
    };
    let inner = sha256(&[pad(0x36), message.to_vec()].concat());
    sha256(&[pad(0x5c), inner].concat())
}

/// SHA-256 as FIPS 180-4 has it, so that the signature is checked by other code than made it.
fn sha256(message: &[u8]) -> Vec<u8> {
    let primes = || (2_u32..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    let fraction = |root: f64| ((root - root.floor()) * f64::from(u32::MAX) + root.fract()) as u32;
    let k: Vec<u32> = primes().take(64).map(|p| fraction(f64::from(p).cbrt())).collect();
    let mut h: Vec<u32> = primes().take(8).map(|p| fraction(f64::from(p).sqrt())).collect();
    let mut bytes = message.to_vec();
    bytes.push(0x80);
    while bytes.len() % 64 != 56 {
        bytes.push(0);
    }
    bytes.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    for chunk in bytes.chunks(64) {
        let mut w: Vec<u32> = chunk.chunks(4).map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]])).collect();
        for i in 16..64 {
            let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
            let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
            w.push(w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1));
        }
        let mut v = h.clone();
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let one = v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(k[i]).wrapping_add(w[i]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let two = s0.wrapping_add((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(one);
            v[0] = one.wrapping_add(two);
        }
        h.iter_mut().zip(v).for_each(|(h, v)| *h = h.wrapping_add(v));
    }
    h.iter().flat_map(|h| h.to_be_bytes()).collect()
}

#[test]
fn the_hash_of_this_test_is_right() {
    assert_eq!(hex(&sha256(b"abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/// Everything that is logged while this thread runs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The SDK shows requests with their credentials to whoever listens at `trace`.
#[tokio::test(flavor = "current_thread")]
async fn no_credential_is_logged_at_any_level() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _listening = tracing::subscriber::set_default(subscriber);
    let server = Server::answering(STREAM, reply()).await;
    call(&BedrockProvider::new(), &hello(model(&server))).await.end.unwrap();
    let bearer = hello(model(&server).with_api_key("ABSK-an-api-key-for-bedrock"));
    call(&BedrockProvider::new(), &bearer).await.end.unwrap();
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("answer"), "the transport's own events are there: {logged}");
    for secret in KEYS.split(':').chain(["ABSK-an-api-key-for-bedrock"]) {
        assert!(!logged.contains(secret), "{logged}");
    }
}
