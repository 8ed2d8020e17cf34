//! What a run costs in allocations: `serve` is a model server on loopback, `run BASE MODEL` one agent run against it, and
//! `ask BASE UNITS COUNT` so many bare requests with so many tool calls behind them.
//!
//! Models: `text-N` answers with N deltas; `tools-N` asks for N tool calls, one a turn, and each result has 2 KiB.
//! `cargo xtask bench` starts both, for several N, and compares. Under valgrind the same program counts instructions.
#![expect(clippy::print_stdout, reason = "a program, not a library")]

use looptree::compat::SeedSetters as _;
use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context as _, Result, bail};
use looptree::event::Ended;
use looptree::history::Entry;
use looptree::history::History;
use looptree::identity::ToolCallId;
use looptree::message::AssistantMessage;
use looptree::message::StopReason;
use looptree::message::ToolCall;
use looptree::message::ToolResultMessage;
use looptree::provider::ModelRequest;
use looptree::provider::complete;
use looptree::{
    AgentEvent, AgentMessage, AgentTool, CancellationToken, Content, Effects, Message, ModelConfig,
    ProviderRegistry, StreamDelta, ToolContext, ToolError, ToolResult,
};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes of each tool result.
const RESULT_BYTES: usize = 2_048;
/// Events in one write of the server.
const EVENTS_A_WRITE: usize = 16;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match (words.next().as_deref(), words.next(), words.next(), words.next()) {
        (Some("serve"), None, None, None) => runtime.block_on(serve()),
        (Some("run"), Some(base), Some(model), None) => runtime.block_on(run(&base, &model)),
        (Some("ask"), Some(base), Some(units), Some(count)) => {
            runtime.block_on(ask(&base, units.parse()?, count.parse()?))
        }
        _ => bail!("usage: looptree_bench serve | run BASE MODEL | ask BASE UNITS COUNT"),
    }
}

struct Fill;

#[async_trait::async_trait]
impl AgentTool for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }

    fn description(&self) -> &'static str {
        "Gives two kibibytes of text."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"n": {"type": "integer"}}})
    }

    async fn execute(&self, _arguments: Value, _ctx: ToolContext) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text("x".repeat(RESULT_BYTES)))
    }

    fn effects(&self, _arguments: &Value) -> Effects {
        Effects::ReadOnly
    }
}

async fn run(base: &str, model: &str) -> Result<()> {
    let agent = || {
        looptree::agent(ModelConfig::local(format!("{base}/v1"), model, "sk-test"))
            .with_tool(Fill)
            .with_execution_limits(None)
            .with_context_config(None)
    };
    // A first run opens the connection and fills what is made once for the process.
    let warm = looptree::agent(ModelConfig::local(format!("{base}/v1"), "text-1", "sk-test"));
    let mut events = warm.prompt("Go.")?;
    while events.recv().await.is_some() {}

    let region = Region::new(ALLOCATOR);
    let mut events = agent().prompt("Go.")?;
    let (mut deltas, mut turns, mut ended) = (0_u64, 0_u64, None);
    while let Some(event) = events.recv().await {
        match event {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { .. }, .. } => deltas += 1,
            AgentEvent::TurnEnd { .. } => turns += 1,
            AgentEvent::AgentEnd(end) => ended = Some(end.ended),
            _ => {}
        }
    }
    let change = region.change();
    if ended != Some(Ended::Completed) {
        bail!("the run ended {ended:?}");
    }
    let line = json!({
        "allocations": change.allocations + change.reallocations,
        "bytes": change.bytes_allocated,
        "deltas": deltas,
        "turns": turns,
    });
    println!("{line}");
    Ok(())
}

async fn ask(base: &str, units: usize, count: usize) -> Result<()> {
    let mut history = History::default();
    history.push(AgentMessage::user("Go."))?;
    for n in 0..units {
        let id = ToolCallId::new(format!("call_{n}"));
        let mut reply = AssistantMessage::new("local", "text-1", StopReason::ToolUse);
        reply.content.push(Content::ToolCall(ToolCall::new(id.clone(), "fill", json!({"n": n}))));
        let result = ToolResultMessage::new(id, "fill".into(), vec![Content::text("x".repeat(RESULT_BYTES))]);
        history.push_exchange(entry(Message::from(reply)), vec![entry(Message::from(result))])?;
    }
    let request = ModelRequest::new(ModelConfig::local(format!("{base}/v1"), "text-1", "sk-test"), history);
    let registry = ProviderRegistry::default();
    for _ in 0..count {
        complete(&registry, &request, &CancellationToken::new()).await?;
    }
    Ok(())
}

fn entry(message: Message) -> Entry {
    Entry::from(AgentMessage::from(message))
}

#[derive(Default)]
struct Stats {
    request_bytes: AtomicU64,
}

async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let stats = Arc::new(Stats::default());
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer_all(stream, Arc::clone(&stats)));
    }
}

async fn answer_all(mut stream: TcpStream, stats: Arc<Stats>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = find(&buffer, b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).to_lowercase();
        let length = head
            .lines()
            .find_map(|l| l.strip_prefix("content-length:"))
            .map_or(Ok(0), |v| v.trim().parse::<usize>())?;
        while buffer.len() < end + length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let body: Vec<u8> = buffer.drain(..end + length).skip(end).collect();
        if head.starts_with("get /stats") {
            // What was sent since the last look.
            let text = stats.request_bytes.swap(0, Relaxed).to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                text.len()
            );
            stream.write_all(answer.as_bytes()).await?;
            return Ok(());
        }
        stats.request_bytes.fetch_add(length as u64, Relaxed);
        answer(&mut stream, &body).await?;
    }
}

async fn answer(stream: &mut TcpStream, body: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(body);
    let model = text
        .split("\"model\":\"")
        .nth(1)
        .and_then(|t| t.split('"').next())
        .context("a request without a model")?;
    let (kind, count) = model.split_once('-').context("a model without a count")?;
    let count: usize = count.parse()?;
    let mut events = Vec::new();
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let done = text.matches("\"role\":\"tool\"").count();
    if kind == "tools" && done < count {
        let call = format!(
            "{{\"tool_calls\":[{{\"index\":0,\"id\":\"call_{done}\",\"function\":{{\"name\":\"fill\",\"arguments\":\"{{\\\"n\\\":{done}}}\"}}}}]}}"
        );
        events.push(chunk(&call, "null"));
        events.push(chunk("{}", "\"tool_calls\""));
    } else {
        let deltas = if kind == "text" { count } else { 1 };
        events.extend((0..deltas).map(|_| chunk("{\"content\":\" twelve char\"}", "null")));
        events.push(chunk("{}", "\"stop\""));
    }
    events.push("data: [DONE]\n\n".to_owned());
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await?;
    for group in events.chunks(EVENTS_A_WRITE) {
        let group = group.concat();
        stream.write_all(format!("{:x}\r\n{group}\r\n", group.len()).as_bytes()).await?;
    }
    Ok(stream.write_all(b"0\r\n\r\n").await?)
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|w| w == pattern)
}
