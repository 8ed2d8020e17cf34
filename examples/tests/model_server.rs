//! The server that holds the keys, over loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use looptree::compat::SeedSetters as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use looptree::event::Ended;
use looptree::message::StopReason;
use looptree::provider::Completion;
use looptree::provider::EventSink;
use looptree::provider::ModelRequest;
use looptree::provider::StreamEvent;
use looptree::providers::RemoteProvider;
use looptree::retry::RetryConfig;
use looptree::serve::models::{Limits, Server, Tokens, serve};
use looptree::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool};
use looptree::{
    AgentEvent, BasicAgent, CancellationToken, ErrorKind, Message, ModelConfig, ProviderError, StreamDelta,
    StreamProvider, Usage,
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const TOKEN: &str = "a-token-that-is-long-enough";
const KEY: &str = "sk-that-stays-on-the-server";

/// Far more than anything here takes.
const HANG: Duration = Duration::from_secs(30);

/// A server on a free port, ended when this goes.
struct Running {
    url: String,
    _stop: oneshot::Sender<()>,
}

async fn running(provider: impl StreamProvider + 'static, limits: Limits) -> Running {
    let models = |provider: &str, model: &str| {
        (provider == "anthropic" && model != "unknown").then(|| ModelConfig::anthropic(model, model, KEY))
    };
    let tokens = Tokens::parse(&format!("another-token-of-somebody,{TOKEN}")).unwrap();
    let server = Server::new(Arc::new(provider), Arc::new(models), tokens, limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(serve(listener, server, async {
        let _ = stopped.await;
    }));
    Running { url, _stop: stop }
}

fn bounds(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

fn agent(provider: impl StreamProvider + 'static) -> BasicAgent {
    BasicAgent::new(ModelConfig::anthropic("claude", "Claude", ""))
        .with_provider(provider)
        .with_retry_config(RetryConfig::none())
}

fn remote(running: &Running) -> RemoteProvider {
    RemoteProvider::new(&running.url, TOKEN)
}

async fn run(agent: &BasicAgent) -> Vec<AgentEvent> {
    let events = agent.prompt("go").unwrap();
    tokio::time::timeout(HANG, events.collect()).await.expect("it hangs")
}

fn ended(events: &[AgentEvent]) -> Ended {
    match events.last() {
        Some(AgentEvent::AgentEnd(end)) => end.ended.clone(),
        other => panic!("{other:?}"),
    }
}

/// What was said, without times.
fn said(agent: &BasicAgent) -> Vec<serde_json::Value> {
    let messages = agent.messages();
    let plain = messages.iter().filter_map(|m| m.as_llm()).map(|m| {
        let mut value = serde_json::to_value(m).unwrap();
        value.as_object_mut().unwrap().remove("timestamp");
        value.as_object_mut().unwrap().remove("durationMs");
        value
    });
    plain.collect()
}

fn script() -> ScriptedProvider {
    ScriptedProvider::new([
        ScriptedReply::new()
            .and_thinking("hm, \u{1f914}", Some("signed"))
            .and_text("I look.")
            .and_call("c1", "look", json!({"path": "ä"}))
            .and_call("c2", "look", json!({"path": "b"}))
            .using(Usage::new(10, 20, 30, 0).with_reasoning(5)),
        ScriptedReply::text("A line\nand \"another\".").in_pieces_of(3),
    ])
    .exhaustive()
}

/// Seed 001, B-189.
#[tokio::test]
async fn a_run_through_the_server_gives_the_messages_of_a_run_without_it() {
    let tools = || vec![Arc::new(ScriptedTool::saying("look", "found")) as Arc<dyn looptree::AgentTool>];
    let here = agent(script()).with_tools(tools());
    run(&here).await;
    let upstream = script();
    let server = running(upstream.clone(), Limits::default()).await;
    let there = agent(remote(&server)).with_tools(tools());
    let events = run(&there).await;
    assert_eq!(ended(&events), Ended::Completed);
    assert_eq!(said(&there), said(&here));
    let asked = upstream.requests();
    assert_eq!(asked[0].key().map(looptree::model::Secret::expose), Some(KEY), "the key is the server's");
    assert_eq!(asked[1].messages().count(), 4);
    assert!(asked[0].tools.definitions()[0].name == "look");
}

/// Seed 001.
#[tokio::test]
async fn a_piece_is_here_before_the_next_one_is_made() {
    let latch = Latch::new();
    let reply = ScriptedReply::text("first").and_wait(&latch).and_text("second");
    let server = running(ScriptedProvider::new([reply]), Limits::default()).await;
    let mut events = agent(remote(&server)).prompt("go").unwrap();
    let mut text = String::new();
    while let Some(event) = tokio::time::timeout(HANG, events.recv()).await.expect("it hangs") {
        if let AgentEvent::MessageUpdate { delta: StreamDelta::Text { text: delta }, .. } = event {
            text.push_str(&delta);
            if text == "first" {
                latch.open();
            }
        }
    }
    assert_eq!(text, "firstsecond");
}

#[tokio::test]
async fn nothing_is_answered_without_a_token() {
    #[track_caller]
    fn check(
        url: &str,
        method: &str,
        path: &str,
        auth: Option<&str>,
        expect: u16,
    ) -> impl Future<Output = ()> {
        let request = reqwest::Client::new()
            .request(method.parse().unwrap(), format!("{url}{path}"))
            .body(r#"{"version":2,"provider":"anthropic","model":"unknown","messages":[]}"#);
        let request = match auth {
            Some(auth) => request.header("authorization", auth),
            None => request,
        };
        let what = format!("{method} {path} {auth:?}");
        async move {
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status().as_u16(), expect, "{what}");
            let text = answer.text().await.unwrap();
            assert!(!text.contains(KEY) && !text.contains(TOKEN), "{text}");
        }
    }
    let server = running(script(), Limits::default()).await;
    let good = format!("Bearer {TOKEN}");
    for (method, path) in
        [("POST", "/v1/stream"), ("GET", "/"), ("GET", "/health"), ("DELETE", "/v1/stream"), ("GET", "/../x")]
    {
        for auth in [
            None,
            Some("Bearer wrong"),
            Some(TOKEN),
            Some("Basic YTpi"),
            Some("Bearer a-token-that-is-long-enoug"),
        ] {
            check(&server.url, method, path, auth, 401).await;
        }
        check(&server.url, method, path, Some(&good), 404).await;
    }
    check(&server.url, "POST", "/v1/stream", Some("bearer another-token-of-somebody"), 404).await;
}

#[tokio::test]
async fn the_server_s_refusals_are_typed_errors_of_the_run() {
    let server = running(script(), Limits::default()).await;
    let stranger = agent(RemoteProvider::new(&server.url, "not-the-right-token"));
    match ended(&run(&stranger).await) {
        Ended::Error { kind: ErrorKind::Auth, message } => assert!(message.contains("token"), "{message}"),
        other => panic!("{other:?}"),
    }
    let elsewhere = agent(remote(&server)).with_model_config(ModelConfig::anthropic("unknown", "?", ""));
    match ended(&run(&elsewhere).await) {
        Ended::Error { kind: ErrorKind::ModelNotFound, message } => {
            assert!(message.contains("unknown"), "{message}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_error_of_the_model_s_vendor_comes_through_as_it_is() {
    let reply = ScriptedReply::text("hel").failing(ErrorKind::Quota, "credit is used up");
    let server = running(ScriptedProvider::new([reply]), Limits::default()).await;
    let agent = agent(remote(&server));
    match ended(&run(&agent).await) {
        Ended::Error { kind: ErrorKind::Quota, message } => {
            assert!(message.contains("credit is used up"), "{message}")
        }
        other => panic!("{other:?}"),
    }
    let last = agent.messages().last().and_then(|m| m.as_llm().map(Message::text));
    assert_eq!(last.as_deref(), Some("hel"), "what had arrived is kept");
}

#[tokio::test]
async fn what_is_too_large_or_comes_too_slowly_is_refused() {
    let limits = bounds(|l| {
        l.body_bytes = 2_000;
        l.body_time = Duration::from_millis(300);
    });
    let server = running(script(), limits).await;
    let large = agent(remote(&server)).with_system_prompt("x".repeat(3_000));
    match ended(&run(&large).await) {
        Ended::Error { message, .. } => assert!(message.contains("2000 bytes"), "{message}"),
        other => panic!("{other:?}"),
    }
    let head = format!(
        "POST /v1/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 50\r\n\r\n{{"
    );
    let mut slow = connect(&server, &head).await;
    assert!(answer(&mut slow).await.starts_with("HTTP/1.1 408"));
}

#[tokio::test]
async fn a_head_that_never_ends_is_hung_up_on() {
    let limits = bounds(|l| {
        l.head_time = Duration::from_millis(200);
    });
    let server = running(script(), limits).await;
    let mut slow = connect(&server, "POST /v1/stream HTTP/1.1\r\nx: ").await;
    answer(&mut slow).await;
}

#[tokio::test]
async fn one_stream_more_than_are_allowed_is_told_to_come_again() {
    let latch = Latch::new();
    let replies = [ScriptedReply::text("a").and_wait(&latch).and_text("b"), "c".into()];
    let server = running(
        ScriptedProvider::new(replies),
        bounds(|l| {
            l.streams = 1;
        }),
    )
    .await;
    let first = agent(remote(&server));
    let mut events = first.prompt("go").unwrap();
    while !matches!(events.recv().await, Some(AgentEvent::MessageUpdate { .. })) {}
    match ended(&run(&agent(remote(&server))).await) {
        Ended::Error { kind: ErrorKind::Network, message } => {
            assert!(message.contains("as many streams"), "{message}")
        }
        other => panic!("{other:?}"),
    }
    latch.open();
    assert_eq!(ended(&events.collect().await), Ended::Completed);
    // The place is free when the task has ended, which the client need not see.
    let patient = agent(remote(&server)).with_retry_config(RetryConfig::default());
    assert_eq!(ended(&run(&patient).await), Ended::Completed);
}

#[tokio::test]
async fn signs_of_life_keep_a_silent_stream_and_a_reply_that_takes_too_long_is_ended() {
    let limits = bounds(|l| {
        l.keep_alive = Duration::from_millis(5);
        l.stream_time = Duration::from_millis(200);
    });
    let server = running(ScriptedProvider::new([ScriptedReply::text("hm").and_hang()]), limits).await;
    let request = format!(
        "POST /v1/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{ASKED}",
        ASKED.len()
    );
    let text = answer(&mut connect(&server, &request).await).await;
    assert!(text.contains(": still here") && text.contains("\"text\":\"hm\""), "{text}");
    assert!(text.contains("event: error") && text.contains("the server allows"), "{text}");
}

const ASKED: &str = r#"{"version":2,"provider":"anthropic","model":"m","messages":[{"role":"user","content":[{"type":"text","text":"go"}],"timestamp":0}]}"#;

/// A model that talks without end, and knows whether somebody still listens.
#[derive(Clone, Default)]
struct Talking {
    pieces: Arc<AtomicU64>,
    gone: Arc<AtomicBool>,
}

struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[async_trait::async_trait]
impl StreamProvider for Talking {
    fn provider_id(&self) -> &str {
        "talking"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        sink: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let _gone = Gone(Arc::clone(&self.gone));
        let text = "word ".repeat(2_000);
        sink(StreamEvent::Start { response_id: None, model: None });
        while self.pieces.fetch_add(1, SeqCst) < 1_000_000 {
            sink(StreamEvent::TextDelta { index: 0, delta: &text });
            tokio::task::yield_now().await;
        }
        Ok(Completion::new(StopReason::Stop))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_not_read_for_and_one_that_goes_ends_the_call() {
    let model = Talking::default();
    let server = running(model.clone(), Limits::default()).await;
    let request = format!(
        "POST /v1/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n\r\n{ASKED}",
        ASKED.len()
    );
    let idle = connect(&server, &request).await;
    // It goes on until the buffers of the connection are full, and then stands still.
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = model.pieces.load(SeqCst);
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    assert!(before < 10_000, "{before} pieces of 10 KB were made for somebody who reads none");
    drop(idle);
    let gone = async {
        while !model.gone.load(SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HANG, gone).await.expect("the call goes on for nobody");
}

#[tokio::test]
async fn a_client_that_reads_nothing_for_too_long_is_left() {
    let model = Talking::default();
    let server = running(
        model.clone(),
        bounds(|l| {
            l.write_time = Duration::from_millis(200);
        }),
    )
    .await;
    let request = format!(
        "POST /v1/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n\r\n{ASKED}",
        ASKED.len()
    );
    let _idle = connect(&server, &request).await;
    let gone = async {
        while !model.gone.load(SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HANG, gone).await.expect("the call goes on for nobody");
}

#[test]
fn tokens_that_could_be_guessed_are_not_taken() {
    #[track_caller]
    fn check(text: &str, expect: Option<&str>) {
        let said = Tokens::parse(text).err().map(|error| error.to_string());
        assert_eq!(said.is_some(), expect.is_some(), "{said:?}");
        assert!(said.unwrap_or_default().contains(expect.unwrap_or_default()));
    }
    check("", Some("no token"));
    check(" ,\n", Some("no token"));
    check("a-token-that-is-long-enough,short", Some("number 2 is shorter"));
    check(TOKEN, None);
    assert!(!format!("{:?}", Tokens::parse(TOKEN).unwrap()).contains("long"));
}

async fn connect(server: &Running, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Everything until the other side closes.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    tokio::time::timeout(HANG, stream.read_to_end(&mut bytes)).await.expect("it hangs").unwrap();
    String::from_utf8(bytes).unwrap()
}
