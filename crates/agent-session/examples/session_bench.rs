//! What sessions cost. `cargo xtask bench session` and `cargo xtask bench store` start this and hold the figures against
//! their bounds; each command prints one line of JSON.
//!
//! | command | what |
//! |---|---|
//! | `record off\|json\|flushed\|sqlite ROUNDS BYTES` | a run of tool rounds with results of so many bytes, recorded or not |
//! | `long json\|sqlite TURNS BYTES` | the memory of one run with compaction, every 50 turns |
//! | `size TURNS BYTES` | the bytes of the file of a session of such turns, and of its messages as compact JSON |
//! | `many AGENTS AT_ONCE TURNS` | agents one after the other and at once over one recorder, while a session of so many turns is saved |
//! | `rate json\|sqlite AGENTS ROUNDS` | the records a second of so many agents at once, not flushed |
//! | `prompts json\|sqlite PROMPTS` | the time of a prompt in one session, at its beginning and at its end |
//! | `large json\|sqlite FOLDER TURNS BYTES` | a stored session of so many turns with results of so many bytes |
//! | `load json\|sqlite FOLDER` | loads that session: the time, the size of its file, and the peak of the memory |
//! | `fill json\|sqlite FOLDER SESSIONS BYTES` | a store of so many sessions with so many bytes of messages in all |
//! | `ask json\|sqlite FOLDER` | lists and searches, with their times and the peak of the memory |
//! | `lists json\|sqlite FOLDER idle\|cut` | lists, searches and open runs of 10,000 small sessions beside one with a journal of 100 MB |
//! | `travel SHAPE TURNS...` | the seconds of each operation on a loaded session, at each number of turns |
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures, not a library"
)]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "session_bench/lists.rs"]
mod lists;
#[path = "session_bench/many.rs"]
mod many;
#[path = "../tests/shapes/mod.rs"]
mod shapes;
#[path = "session_bench/travel.rs"]
mod travel;

use agent_core::compat::SeedSetters as _;
use std::alloc::System;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use agent_core::testing::ScriptedTool;
use agent_core::{
    AgentMessage, BasicAgent, CancellationToken, Completion, ContextConfig, CostConfig, EventSink, LoopId,
    Message, MessageRef, ModelConfig, ModelRequest, ProviderError, RunEnd, StopReason, StreamEvent,
    StreamProvider, Timestamp, Usage,
};
use agent_session::{
    BlockingSessionStore, BoxError, Flushing, JsonStore, LoopRecord, LoopStatus, Order, Session,
    SessionQuery, SessionRecorder, SortBy,
};
use async_trait::async_trait;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<(), BoxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words[..] {
        ["record", how, rounds, bytes] => runtime.block_on(record(how, rounds.parse()?, bytes.parse()?)),
        ["long", kind, turns, bytes] => runtime.block_on(long(kind, turns.parse()?, bytes.parse()?)),
        ["size", turns, bytes] => runtime.block_on(size(turns.parse()?, bytes.parse()?)),
        ["many", agents, at_once, turns] => many::many(many::Load {
            agents: agents.parse()?,
            at_once: at_once.parse()?,
            turns: turns.parse()?,
        }),
        ["rate", kind, agents, rounds] => many::rate(kind, agents.parse()?, rounds.parse()?),
        ["prompts", kind, count] => runtime.block_on(many::prompts(kind, count.parse()?)),
        ["large", kind, folder, turns, bytes] => {
            runtime.block_on(large(kind, folder.as_ref(), turns.parse()?, bytes.parse()?))
        }
        ["load", kind, folder] => load(kind, folder.as_ref()),
        ["fill", kind, folder, sessions, bytes] => {
            fill(&*open(kind, folder.as_ref())?, sessions.parse()?, bytes.parse()?)
        }
        ["ask", kind, folder] => ask(&*open(kind, folder.as_ref())?),
        ["lists", kind, folder, "idle"] => {
            runtime.block_on(lists::lists(kind, folder.as_ref(), lists::Large::Idle))
        }
        ["lists", kind, folder, "cut"] => {
            runtime.block_on(lists::lists(kind, folder.as_ref(), lists::Large::Cut))
        }
        ["travel", shape, ref sizes @ ..] => travel::travel(shape, sizes),
        _ => Err("usage: see the head of examples/session_bench.rs".into()),
    }
}

fn open(kind: &str, folder: &Path) -> Result<Arc<dyn BlockingSessionStore>, BoxError> {
    match kind {
        "json" => Ok(Arc::new(JsonStore::open(folder.join("json"))?)),
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(agent_session::SqliteStore::open(folder.join("sessions.db"))?)),
        other => Err(format!("there is no store {other} here; sqlite needs the feature of this name").into()),
    }
}

/// A text of this length that is no other's.
fn text(n: usize, length: usize) -> String {
    format!("result {n} ").chars().chain("word of a line \n".chars().cycle()).take(length).collect()
}

/// Answers at once without reading the conversation: each reply calls the tool, until all rounds are done. The call is that of workload w2.
struct Rounds {
    left: AtomicUsize,
    /// Whether it reports the same small usage each time. Without a report, the conversation is estimated and compacted.
    reports: bool,
}

#[async_trait]
impl StreamProvider for Rounds {
    fn provider_id(&self) -> &'static str {
        "rounds"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        sink: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        sink(StreamEvent::Start { response_id: None, model: None });
        if self.reports {
            sink(StreamEvent::Usage(Usage::new(1_000, 20, 0, 0)));
        }
        let index = 0;
        let Some(left) = self.left.load(Ordering::Relaxed).checked_sub(1) else {
            sink(StreamEvent::TextDelta { index, delta: "Done." });
            return Ok(Completion::new(StopReason::Stop));
        };
        self.left.store(left, Ordering::Relaxed);
        sink(StreamEvent::ToolCallStart { index, id: &format!("call_{left:06}x0000"), name: "noop" });
        for delta in [r#"{"pa"#, r#"th":"/tmp/da"#, r#"ta.txt","li"#, r#"mit":1"#, "000}"] {
            sink(StreamEvent::ToolCallDelta { index, delta });
        }
        sink(StreamEvent::BlockEnd { index });
        Ok(Completion::new(StopReason::ToolUse))
    }
}

fn agent(rounds: usize, result_bytes: usize) -> BasicAgent {
    agent_with(rounds, result_bytes, true, |_| {})
}

/// Calls `turn` with the number of each round.
fn agent_with(
    rounds: usize,
    result_bytes: usize,
    reports: bool,
    turn: impl Fn(usize) + Send + Sync + 'static,
) -> BasicAgent {
    let count = AtomicUsize::new(0);
    let tool = ScriptedTool::new("noop", move |_, _| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        turn(n);
        let text = if result_bytes < 10 { "ok".to_owned() } else { text(n, result_bytes) };
        async move { Ok(agent_core::ToolResult::text(text)) }
    });
    BasicAgent::new(ModelConfig::default())
        .with_provider(Rounds { left: AtomicUsize::new(rounds), reports })
        .with_session_id("bench")
        .with_config_id("m")
        .with_execution_limits(None)
        .with_context_config(None)
        .with_tool(tool)
}

async fn record(how: &str, rounds: usize, bytes: usize) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let mut agent = agent(rounds, bytes);
    let recorder = match how {
        "off" => None,
        "flushed" => Some(SessionRecorder::attach(&mut agent, open("json", dir.path())?)),
        kind => {
            Some(SessionRecorder::attach(&mut agent, open(kind, dir.path())?).with_flushing(Flushing::Never))
        }
    };
    let region = Region::new(ALLOCATOR);
    let before = cpu()?;
    let began = Instant::now();
    drop(agent.prompt("Go.")?);
    let Some(RunEnd::Completed(_)) = agent.finish().await else {
        return Err("the run did not end as it should".into());
    };
    let (user, system) = cpu()?;
    let wall = began.elapsed().as_secs_f64() * 1e6;
    let change = region.change();
    let journal = std::fs::metadata(dir.path().join("json/bench.journal.jsonl")).map_or(0, |m| m.len());
    println!(
        "{}",
        json!({
            "user": user - before.0,
            "system": system - before.1,
            "wall": wall,
            "allocations": change.allocations + change.reallocations,
            "bytes": change.bytes_allocated,
            "journal": journal,
        })
    );
    // What a save costs is no part of this.
    std::mem::forget((recorder, agent));
    Ok(())
}

/// Records a run whose conversation has room for some of its results, and prints the memory at every 50th turn.
async fn long(kind: &str, turns: usize, bytes: usize) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let samples = Arc::new(Mutex::new(Vec::with_capacity(turns / 50 + 1)));
    let taken = Arc::clone(&samples);
    let room = ContextConfig::default()
        .with_max_context_tokens(bytes as u64 * 3 / 2)
        .with_system_prompt_tokens(0)
        .with_keep_recent(4);
    let mut agent = agent_with(turns, bytes, false, move |turn| {
        if turn % 50 == 0 {
            let stats = ALLOCATOR.stats();
            let live = stats.bytes_allocated.saturating_sub(stats.bytes_deallocated) / 1024;
            let sample = json!({ "turn": turn, "resident_kib": status("VmRSS:"), "live_kib": live });
            taken.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        }
    })
    .with_context_config(room);
    let recorder =
        SessionRecorder::attach(&mut agent, open(kind, dir.path())?).with_flushing(Flushing::Never);
    drop(agent.prompt("Go.")?);
    let Some(RunEnd::Completed(reply)) = agent.finish().await else {
        return Err("the run did not end as it should".into());
    };
    let samples = samples.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (messages, released) = (reply.messages.len(), reply.messages.released());
    println!("{}", json!({ "samples": samples, "messages": messages, "released": released }));
    // What a save costs is no part of this.
    std::mem::forget((recorder, agent));
    Ok(())
}

/// Prints the size of the file of a session, and of its messages as compact JSON.
async fn size(turns: usize, bytes: usize) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let mut agent = agent(turns, bytes);
    let recorder =
        SessionRecorder::attach(&mut agent, open("json", dir.path())?).with_flushing(Flushing::Never);
    drop(agent.prompt("Go.")?);
    agent.finish().await;
    recorder.close().await?;
    let file = std::fs::metadata(dir.path().join("json/bench.json"))?.len();
    let messages = serde_json::to_string(&agent.messages())?.len();
    println!("{}", json!({ "session": file, "messages": messages, "ratio": file as f64 / messages as f64 }));
    Ok(())
}

/// Records a session into a folder.
async fn large(kind: &str, folder: &Path, turns: usize, bytes: usize) -> Result<(), BoxError> {
    let mut agent = agent(turns, bytes);
    let recorder = SessionRecorder::attach(&mut agent, open(kind, folder)?).with_flushing(Flushing::Never);
    drop(agent.prompt("Go.")?);
    agent.finish().await;
    recorder.close().await?;
    println!("{}", json!({ "turns": turns }));
    Ok(())
}

/// Loads what [`large`] recorded.
fn load(kind: &str, folder: &Path) -> Result<(), BoxError> {
    let store = open(kind, folder)?;
    let before = peak();
    let began = Instant::now();
    let session = store.load_session("bench")?;
    let seconds = began.elapsed().as_secs_f64();
    let name = if kind == "json" { "json/bench.json" } else { "sessions.db" };
    let file = std::fs::metadata(folder.join(name))?.len();
    let memory = peak().saturating_sub(before) * 1024;
    println!(
        "{}",
        json!({
            "turns": session.loops.iter().map(|record| record.turns.len()).sum::<usize>(),
            "seconds": seconds,
            "file": file,
            "megabytes_a_second": file as f64 / 1e6 / seconds,
            "memory_of_file": memory as f64 / file as f64,
        })
    );
    Ok(())
}

fn fill(store: &dyn BlockingSessionStore, sessions: usize, bytes: usize) -> Result<(), BoxError> {
    const TURNS: usize = 5;
    let words =
        ["linker", "borrow", "socket", "poem", "schema", "parser", "weather", "index", "branch", "budget"];
    let length = bytes / sessions / TURNS;
    for n in 0..sessions {
        let id = format!("session-{n:05}");
        let mut session =
            Session::new(id.as_str().into(), format!("agent-{}", n % 7).into(), Timestamp(1_000 + n as u64));
        session.last_active_at = Timestamp(2_000 + n as u64);
        let loop_id = LoopId::from(format!("{id}.m.1"));
        let mut record =
            LoopRecord::new(loop_id, id.as_str().into(), session.agent_id.clone(), session.created_at);
        record.status = LoopStatus::Completed;
        record.config.model = format!("model-{}", n % 3);
        record.config.prices = Some(CostConfig::per_million(3_000_000, 15_000_000, 0, 0));
        for turn in 0..TURNS {
            let asked = format!(
                "Why does the {} of {n} fail in turn {turn}?",
                words.iter().cycle().nth((n + turn) % words.len()).unwrap_or(&"word")
            );
            record.messages.push(MessageRef::from(AgentMessage::user(asked)));
            let mut reply =
                agent_core::AssistantMessage::new("p", record.config.model.clone(), StopReason::Stop);
            reply.usage = Usage::new(n as u64, 10, 0, 0);
            reply.content.push(text(n * TURNS + turn, length).into());
            record.usage = record.usage.combine(&reply.usage);
            record.messages.push(MessageRef::from(AgentMessage::from(Message::from(reply))));
        }
        session.loops.push(record);
        store.save_session(&session)?;
    }
    println!("{}", json!({ "sessions": sessions }));
    Ok(())
}

fn ask(store: &dyn BlockingSessionStore) -> Result<(), BoxError> {
    let page = |query: SessionQuery| query.page(0, 50);
    let questions = [
        ("list", page(SessionQuery::new())),
        ("list page 100", SessionQuery::new().page(5_000, 50)),
        ("by cost", page(SessionQuery::new().sorted(SortBy::Cost, Order::Descending))),
        ("agent and model", page(SessionQuery::new().with_agent("agent-3").with_model("model-1"))),
        ("rare text", page(SessionQuery::new().with_text("4711"))),
        ("text of a tenth", page(SessionQuery::new().with_text("borrow turn 3"))),
        ("text of all", page(SessionQuery::new().with_text("word line"))),
        (
            "text, agent, cost",
            page(SessionQuery::new().with_text("socket").with_agent("agent-1").with_min_cost(100)),
        ),
    ];
    let mut answers = Vec::new();
    for (name, query) in questions {
        let began = Instant::now();
        let found = store.find_sessions(&query)?;
        let wall = began.elapsed().as_secs_f64() * 1e3;
        answers.push(json!({ "name": name, "ms": wall, "found": found.total }));
    }
    println!("{}", json!({ "answers": answers, "peak_kib": peak() }));
    Ok(())
}

/// The most memory that this process has had, in KiB; 0 where the system does not say.
fn peak() -> u64 {
    status("VmHWM:")
}

/// A figure of this process in KiB; 0 where the system does not say.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(name));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// CPU time of this process so far, of its own and of the system for it, in microseconds.
fn cpu() -> Result<(f64, f64), BoxError> {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)?;
    let micros = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 * 1e6 + t.tv_usec() as f64;
    Ok((micros(usage.user_time()), micros(usage.system_time())))
}
