//! `cargo xtask bench ws`: the time of a tool turn over WebSocket and over HTTP, against a server on loopback that delays.

mod server;

use std::time::{Duration, Instant};

use agent_core::{
    AgentMessage, CancellationToken, Content, Entry, History, Message, ModelConfig, ModelRequest,
    StreamProvider, ToolDefinition, ToolResultMessage, complete,
};
use agent_providers::{OpenAiResponsesProvider, OpenAiResponsesWsProvider, Transport, TransportConfig};
use anyhow::{Context as _, ensure};
use serde_json::json;

use server::{Server, Settings};

/// The number of tool turns of a run. One more reply ends it.
const TURNS: usize = 30;

/// The size of the system prompt and of each tool result.
const PROMPT_BYTES: usize = 8 << 10;
const RESULT_BYTES: usize = 4 << 10;

/// The simulated one-way latencies.
const LATENCIES: [u64; 3] = [0, 20, 80];

/// The time per byte of a request: for no upload and no parsing, and for an upload of 8 Mbit/s.
const BYTE_NANOS: [u64; 2] = [0, 1_000];

/// The turn at which the connection is cut in the last run.
const CUT_AT: usize = 15;

/// What one run needed.
struct Measured {
    per_turn: Duration,
    request_bytes: usize,
    connections: usize,
    failed: usize,
}

/// Measures and prints a table; `false` if a reconnect loses or doubles something.
pub(super) fn ws() -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        println!(
            "{TURNS} tool turns, a system prompt of {PROMPT_BYTES} bytes, tool results of {RESULT_BYTES} bytes, one connection\n\
             simulated: the latency once for each direction of each request, of the TCP handshake and of the upgrade;\n\
             the time per byte of a request before its answer; no TLS, no model, no tool time\n"
        );
        println!(
            "{:>10} {:>10} {:>14} {:>14} {:>8} {:>14} {:>14}",
            "latency", "per KiB", "HTTP a turn", "WS a turn", "less", "HTTP bytes", "WS bytes"
        );
        for nanos in BYTE_NANOS {
            for latency in LATENCIES {
                let settings = Settings { latency: Duration::from_millis(latency), byte_nanos: nanos, cut_at: None };
                let http = run(&OpenAiResponsesProvider::with_transport(transport()), settings).await?;
                let ws = run(&OpenAiResponsesWsProvider::with_transport(transport()), settings).await?;
                let less = 100.0 * (1.0 - ws.per_turn.as_secs_f64() / http.per_turn.as_secs_f64());
                println!(
                    "{:>7} ms {:>7.2} ms {:>11.2} ms {:>11.2} ms {less:>6.0} % {:>14} {:>14}",
                    latency,
                    Duration::from_nanos(nanos * 1024).as_secs_f64() * 1e3,
                    http.per_turn.as_secs_f64() * 1e3,
                    ws.per_turn.as_secs_f64() * 1e3,
                    http.request_bytes,
                    ws.request_bytes
                );
            }
        }
        let settings = Settings { latency: Duration::ZERO, byte_nanos: 0, cut_at: Some(CUT_AT) };
        let cut = run(&OpenAiResponsesWsProvider::with_transport(transport()), settings).await?;
        println!(
            "\na cut within reply {CUT_AT}: {} failed call, {} connections, every call and result once",
            cut.failed, cut.connections
        );
        Ok((cut.failed, cut.connections) == (1, 2))
    })
}

fn transport() -> Transport {
    Transport::new(TransportConfig::default())
}

async fn run(provider: &dyn StreamProvider, settings: Settings) -> anyhow::Result<Measured> {
    let server = Server::start(TURNS, settings).await?;
    let mut history = History::new();
    history.push("Look at everything.".into())?;
    let model = ModelConfig::openai_responses("gpt-5.5", "GPT-5.5", "sk-bench").with_base_url(server.url());
    let mut request = ModelRequest::new(model, history);
    request.system_prompt = "p".repeat(PROMPT_BYTES).into();
    request.session_id = Some("bench".to_owned());
    request.tools = vec![ToolDefinition::new("look", "Looks", json!({"type": "object"}))].into();
    let cancel = CancellationToken::new();
    let begun = Instant::now();
    let mut failed = 0;
    loop {
        let reply = match complete(provider, &request, &cancel).await {
            Ok(reply) => reply,
            Err(error) if error.is_retryable() && failed == 0 => {
                failed += 1;
                continue;
            }
            Err(error) => return Err(error).context("the call failed"),
        };
        let Some(call) = reply.tool_calls().next() else { break };
        let content = vec![Content::text("r".repeat(RESULT_BYTES))];
        let result = ToolResultMessage::new(call.id.clone(), call.name.clone(), content);
        request.history.push_exchange(entry(reply.into()), vec![entry(result.into())])?;
    }
    let per_turn = begun.elapsed() / u32::try_from(TURNS + 1)?;
    let seen = server.seen();
    ensure!(seen.problem.is_none(), "the server refused a request: {:?}", seen.problem);
    ensure!(
        (seen.calls, seen.outputs) == (TURNS, TURNS),
        "the server has {} calls, {} results",
        seen.calls,
        seen.outputs
    );
    Ok(Measured { per_turn, request_bytes: seen.request_bytes, connections: seen.connections, failed })
}

fn entry(message: Message) -> Entry {
    Entry::from(AgentMessage::from(message))
}
