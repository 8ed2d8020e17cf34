//! Attack 15: a server cannot hold a run for ever, whatever it sends instead of an answer.

#![cfg(all(feature = "openai-chat", feature = "remote", feature = "anthropic"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail loudly"
)]

use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::assert_well_formed;
use agent_core::{
    AgentEvent, BasicAgent, CancellationToken, Ended, ErrorKind, ExecutionLimits, History, ModelConfig,
    ModelRequest, StreamProvider, SystemEnvironment,
};
use agent_providers::{AnthropicProvider, OpenAiChatProvider, RemoteProvider, Transport, TransportConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const MAX: Duration = Duration::from_secs(5);

/// What a server sends, once a second and for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trick {
    Nothing,
    Comments,
    EmptyDeltas,
    UsageOnly,
    Pings,
    Blanks,
    DrippedHeaders,
    DrippedError,
    Informational,
}

const TRICKS: [Trick; 9] = [
    Trick::Nothing,
    Trick::Comments,
    Trick::EmptyDeltas,
    Trick::UsageOnly,
    Trick::Pings,
    Trick::Blanks,
    Trick::DrippedHeaders,
    Trick::DrippedError,
    Trick::Informational,
];

impl Trick {
    fn begin(self) -> &'static str {
        match self {
            Self::Nothing | Self::Informational => "",
            Self::DrippedHeaders => "HTTP/1.1 200 OK\r\nx-long: ",
            Self::DrippedError => {
                "HTTP/1.1 500 X\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n{"
            }
            _ => "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
        }
    }

    fn again(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Comments => ": keep-alive\n\n",
            Self::EmptyDeltas => {
                "data: {\"id\":\"r\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n"
            }
            Self::UsageOnly => {
                "data: {\"id\":\"r\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n"
            }
            Self::Pings => "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            Self::Blanks => "\n\n",
            Self::DrippedHeaders | Self::DrippedError => "x",
            Self::Informational => "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
        }
    }
}

/// The address of a server that does this to every request.
async fn server(trick: Trick, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, trick, pause));
        }
    });
    url
}

async fn serve(mut stream: TcpStream, trick: Trick, pause: Duration) {
    let mut request = [0; 64 * 1024];
    let _ = stream.read(&mut request).await;
    let mut sent = stream.write_all(trick.begin().as_bytes()).await;
    // A flood is written in large pieces.
    let again = trick.again().repeat(if pause.is_zero() { 4_096 } else { 1 });
    while sent.is_ok() {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        sent = stream.write_all(again.as_bytes()).await;
    }
}

fn transport() -> Transport {
    let config = TransportConfig::default()
        .with_header_timeout(Duration::from_secs(3))
        .with_idle_timeout(Duration::from_secs(2))
        .with_content_timeout(Duration::from_secs(8));
    Transport::new(config)
}

/// The longest time until one of these limits ends a call: a limit of content, and the timer that checks it.
const LONGEST: Duration = Duration::from_secs(9);

fn providers(url: &str, transport: impl Fn() -> Transport) -> Vec<(Arc<dyn StreamProvider>, ModelConfig)> {
    let chat = ModelConfig::local(url, "m", "");
    let mut claude = ModelConfig::anthropic("claude-sonnet-4-6", "Claude", "key-0123456789");
    claude.base_url = Some(url.to_owned());
    vec![
        (Arc::new(OpenAiChatProvider::with_transport(transport())), chat.clone()),
        (Arc::new(AnthropicProvider::with_transport(transport())), claude),
        (Arc::new(RemoteProvider::new(url, "token-0123456789").with_transport(transport())), chat),
    ]
}

/// Attack 15: with the limits of the transport at their defaults.
#[tokio::test(start_paused = true)]
async fn max_duration_ends_a_run_whatever_the_server_sends() {
    for trick in TRICKS {
        let url = server(trick, Duration::from_secs(1)).await;
        for (provider, model) in providers(&url, Transport::default) {
            let agent = BasicAgent::new(model)
                .with_provider(provider)
                .with_environment(Arc::new(SystemEnvironment))
                .with_limits(ExecutionLimits::unlimited().with_max_duration(MAX));
            let begun = tokio::time::Instant::now();
            let events = tokio::time::timeout(MAX * 100, agent.prompt("Hi").unwrap().collect()).await;
            let events = events.unwrap_or_else(|_| panic!("{trick:?}: the run did not end"));
            let took = begun.elapsed();
            let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{trick:?}: no end") };
            assert_eq!(end.ended, Ended::Limit { reason: "max duration exceeded".into() }, "{trick:?}");
            assert!(took <= MAX + Duration::from_secs(1), "{trick:?}: {took:?}");
            assert_well_formed(&events);
        }
    }
}

/// Attack 15: without a limit of the run the limits of the transport end the call.
#[tokio::test(start_paused = true)]
async fn without_max_duration_the_transport_ends_the_call_with_a_typed_error() {
    for trick in TRICKS {
        let url = server(trick, Duration::from_secs(1)).await;
        for (provider, model) in providers(&url, transport) {
            let request = ModelRequest::new(model, History::new());
            let cancel = CancellationToken::new();
            let begun = tokio::time::Instant::now();
            let mut sink = |_: agent_core::StreamEvent<'_>| {};
            let call = provider.stream(&request, &mut sink, &cancel);
            let end = tokio::time::timeout(LONGEST * 100, call).await;
            let error = end.unwrap_or_else(|_| panic!("{trick:?}: the call did not end")).unwrap_err();
            let took = begun.elapsed();
            println!("{trick:?} {}: {took:?}: {error}", request.model.provider);
            assert_eq!(error.kind(), ErrorKind::Network, "{trick:?}: {error}");
            assert!(took <= LONGEST, "{trick:?}: {took:?}");
        }
    }
}

/// The defaults are documented, and a run ends with them, too.
#[tokio::test(start_paused = true)]
async fn the_default_limits_end_a_run_without_limits_of_its_own() {
    for trick in [Trick::Nothing, Trick::Comments] {
        let url = server(trick, Duration::from_secs(60)).await;
        let agent = BasicAgent::new(ModelConfig::local(&url, "m", ""))
            .with_provider(OpenAiChatProvider::with_transport(Transport::new(TransportConfig::default())))
            .with_environment(Arc::new(SystemEnvironment))
            .with_limits(ExecutionLimits::unlimited())
            .configure(|config| config.policy.retry.max_retries = 0);
        let begun = tokio::time::Instant::now();
        let events = agent.prompt("Hi").unwrap().collect().await;
        let took = begun.elapsed();
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{trick:?}: no end") };
        assert!(matches!(end.ended, Ended::Error { .. }), "{trick:?}: {:?}", end.ended);
        let limit = match trick {
            Trick::Nothing => agent_providers::transport::HEADER_TIMEOUT,
            _ => agent_providers::transport::CONTENT_TIMEOUT + agent_providers::transport::IDLE_TIMEOUT / 4,
        };
        assert!(took <= limit + Duration::from_secs(1), "{trick:?}: {took:?}");
    }
}

/// A flood never lets the timer of the transport run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_without_content_ends_with_a_typed_error() {
    for trick in [Trick::Comments, Trick::Blanks] {
        let url = server(trick, Duration::ZERO).await;
        let request = ModelRequest::new(ModelConfig::local(&url, "m", ""), History::new());
        let provider = OpenAiChatProvider::with_transport(Transport::new(TransportConfig::default()));
        let cancel = CancellationToken::new();
        let mut sink = |_: agent_core::StreamEvent<'_>| {};
        let call = provider.stream(&request, &mut sink, &cancel);
        let error = tokio::time::timeout(Duration::from_secs(300), call).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Network, "{trick:?}: {error}");
        let text = error.to_string();
        assert!(text.contains("no content: more than 67108864 bytes came without any"), "{trick:?}: {text}");
    }
}
