//! Runs agents against a model server for benchmarks and prints one line of JSON.
//!
//! The environment configures it: `BENCH_BASE`, `BENCH_API` (`openai`, `anthropic`, `responses`, `gemini`, `ollama`,
//! `bedrock`), `BENCH_MODEL`, `BENCH_REPEAT`, `BENCH_CONC`, `BENCH_WARMUP`, `BENCH_FIRST`, `BENCH_RT`. If `BENCH_RECORD`
//! names a directory, each run is recorded there without flushing.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program, not a library"
)]

use looptree::compat::SeedSetters as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use looptree::event::Ended;
use looptree::session::{Flushing, JsonStore, SessionRecorder};
use looptree::{
    AgentEvent, AgentTool, BasicAgent, Effects, ModelConfig, StreamDelta, ToolContext, ToolError, ToolResult,
    Tools,
};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};

#[derive(Default)]
struct Counters {
    deltas: AtomicU64,
    bytes: AtomicU64,
    events: AtomicU64,
    tool_calls: AtomicU64,
    tool_bytes: AtomicU64,
    done: AtomicU64,
    errors: AtomicU64,
}

struct Bench {
    base: String,
    api: String,
    model: String,
    repeat: usize,
    conc: usize,
    first: bool,
    counters: Counters,
    /// One for all agents.
    kit: OnceLock<Tools>,
    recorder: Option<SessionRecorder>,
}

/// The tool of the tool workloads: it does nothing.
struct Noop(Arc<Bench>);

#[async_trait::async_trait]
impl AgentTool for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn description(&self) -> &'static str {
        "Does nothing."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {
            "path": {"type": "string"}, "limit": {"type": "integer"}, "text": {"type": "string"}
        }})
    }

    async fn execute(&self, arguments: Value, _ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let bytes = arguments.get("text").and_then(Value::as_str).map_or(0, str::len);
        self.0.counters.tool_calls.fetch_add(1, Relaxed);
        self.0.counters.tool_bytes.fetch_add(bytes as u64, Relaxed);
        Ok(ToolResult::text("ok"))
    }

    fn effects(&self, _arguments: &Value) -> Effects {
        Effects::ReadOnly
    }
}

fn env(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

impl Bench {
    fn from_env() -> anyhow::Result<Self> {
        let recorder = match env("BENCH_RECORD", "").as_str() {
            "" => None,
            dir => Some(SessionRecorder::with_store(JsonStore::open(dir)?).with_flushing(Flushing::Never)),
        };
        Ok(Self {
            base: env("BENCH_BASE", "http://127.0.0.1:18080"),
            api: env("BENCH_API", "openai"),
            model: env("BENCH_MODEL", "text-10"),
            repeat: env("BENCH_REPEAT", "1").parse().unwrap_or(1),
            conc: env("BENCH_CONC", "1").parse().unwrap_or(1),
            first: env("BENCH_FIRST", "") == "1",
            counters: Counters::default(),
            kit: OnceLock::new(),
            recorder,
        })
    }

    fn agent(self: &Arc<Self>, model: &str) -> BasicAgent {
        let key = "sk-test";
        let model = match self.api.as_str() {
            "anthropic" => ModelConfig::anthropic(model, model, key).with_base_url(&self.base),
            "responses" => {
                ModelConfig::openai_responses(model, model, key).with_base_url(format!("{}/v1", self.base))
            }
            "gemini" => ModelConfig::google(model, model, key).with_base_url(format!("{}/v1beta", self.base)),
            "ollama" => ModelConfig::ollama(model).with_base_url(&self.base),
            "bedrock" => ModelConfig::bedrock("us-east-1", model).with_api_key(key).with_base_url(&self.base),
            _ => ModelConfig::local(format!("{}/v1", self.base), model, key),
        };
        // Stated, because no catalogue knows the server's models: a run with an unknown model emits one event more.
        let model = model.with_limits(128_000, 4_096);
        let mut agent = looptree::agent(model)
            .with_system_prompt("You are a helpful assistant.")
            .with_shared_tools(
                self.kit.get_or_init(|| Tools::from(vec![Arc::new(Noop(Arc::clone(self))) as _])).clone(),
            )
            .with_execution_limits(None);
        if let Some(recorder) = &self.recorder {
            recorder.record(&mut agent);
        }
        agent
    }

    /// One whole run of a fresh agent.
    async fn run(self: Arc<Self>, model: String) {
        let c = &self.counters;
        let mut events = match self.agent(&model).prompt("Go.") {
            Ok(events) => events,
            Err(error) => return self.fail(&error),
        };
        while let Some(event) = events.recv().await {
            c.events.fetch_add(1, Relaxed);
            match event {
                AgentEvent::MessageUpdate {
                    delta: StreamDelta::Text { text: delta } | StreamDelta::Thinking { text: delta },
                    ..
                } => {
                    if c.deltas.fetch_add(1, Relaxed) == 0 && self.first {
                        println!("first");
                        let _ = std::io::stdout().flush();
                    }
                    c.bytes.fetch_add(delta.len() as u64, Relaxed);
                }
                AgentEvent::AgentEnd(end) => match end.ended {
                    Ended::Completed => {
                        c.done.fetch_add(1, Relaxed);
                    }
                    other => self.fail(&format!("{other:?}")),
                },
                _ => {}
            }
        }
    }

    fn fail(&self, error: &dyn std::fmt::Display) {
        if self.counters.errors.fetch_add(1, Relaxed) < 3 {
            eprintln!("driver error: {error}");
        }
    }

    fn reset(&self) {
        let c = &self.counters;
        for counter in [&c.deltas, &c.bytes, &c.events, &c.tool_calls, &c.tool_bytes, &c.done] {
            counter.store(0, Relaxed);
        }
    }
}

/// User and system time of this process, in microseconds.
fn cpu_us() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| {
        let (user, system) = (usage.user_time(), usage.system_time());
        (user.tv_sec() + system.tv_sec()) * 1_000_000 + user.tv_usec() + system.tv_usec()
    })
}

fn status_kb(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

async fn drive() -> anyhow::Result<()> {
    let bench = Arc::new(Bench::from_env()?);
    let warm = env("BENCH_WARMUP", "text-8");
    if !warm.is_empty() {
        Arc::clone(&bench).run(warm).await;
        bench.reset();
    }
    let rss0 = status_kb("VmRSS:");
    let (wall, cpu) = (Instant::now(), cpu_us());
    if bench.conc > 1 {
        let runs: Vec<_> =
            (0..bench.conc).map(|_| tokio::spawn(Arc::clone(&bench).run(bench.model.clone()))).collect();
        for run in runs {
            let _ = run.await;
        }
    } else {
        for _ in 0..bench.repeat {
            Arc::clone(&bench).run(bench.model.clone()).await;
        }
    }
    let (cpu, wall) = (cpu_us() - cpu, wall.elapsed().as_micros());
    let c = &bench.counters;
    let get = |counter: &AtomicU64| counter.load(Relaxed);
    let line = json!({
        "cpu_us": cpu, "wall_us": u64::try_from(wall).unwrap_or(u64::MAX),
        "rss0_kb": rss0, "hwm_kb": status_kb("VmHWM:"),
        "deltas": get(&c.deltas), "bytes": get(&c.bytes), "events": get(&c.events),
        "tool_calls": get(&c.tool_calls), "tool_bytes": get(&c.tool_bytes),
        "done": get(&c.done), "errors": get(&c.errors),
    });
    println!("{line}");
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let rt = env("BENCH_RT", "multi");
    let mut builder = if rt == "current" {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder.enable_all().build()?;
    if rt == "multi" {
        runtime.block_on(async { tokio::spawn(drive()).await })?
    } else {
        runtime.block_on(drive())
    }
}
