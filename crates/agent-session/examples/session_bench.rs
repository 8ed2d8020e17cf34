//! What a session costs: `cargo xtask bench session` and `cargo xtask bench store` start this.
#![expect(clippy::print_stdout, reason = "a program, not a library")]

use std::alloc::System;
use std::path::Path;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, Ended, Finished, ModelConfig};
use agent_session::{BoxError, JsonStore, SessionRecorder};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes of each tool result.
const RESULT_BYTES: usize = 2_048;

fn main() -> Result<(), BoxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words[..] {
        ["record", how, rounds] => runtime.block_on(record(how, rounds.parse()?)),
        _ => Err("usage: session_bench record off|json|sqlite ROUNDS".into()),
    }
}

fn agent(rounds: usize) -> BasicAgent {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let provider = ScriptedProvider::responding(move |_| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if n == rounds {
            return ScriptedReply::text("Done.");
        }
        ScriptedReply::call(&format!("call_{n}"), "fill", json!({ "n": n }))
    });
    BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_session_id("bench")
        .with_execution_limits(None)
        .with_context_config(None)
        .with_tool(ScriptedTool::saying("fill", "x".repeat(RESULT_BYTES)))
}

async fn record(how: &str, rounds: usize) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let agent = agent(rounds);
    let recorder = match how {
        "off" => None,
        "json" => Some(
            SessionRecorder::attach(&agent, JsonStore::open(dir.path())?)
                .with_flushing(agent_session::Flushing::Never),
        ),
        other => return Err(format!("{other} is neither off nor json nor sqlite").into()),
    };
    let region = Region::new(ALLOCATOR);
    let before = cpu()?;
    drop(agent.prompt("Go.")?);
    let Finished::Ended { ended: Ended::Completed, .. } = agent.finish().await else {
        return Err("the run did not end as it should".into());
    };
    let used = cpu()? - before;
    let change = region.change();
    let journal = bytes(&dir.path().join("bench.journal.jsonl"));
    if std::env::var("SHOW").is_ok() {
        println!(
            "{}",
            std::fs::read_to_string(dir.path().join("bench.journal.jsonl"))?
                .lines()
                .skip(20)
                .take(14)
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
    // What a save costs is measured on its own.
    std::mem::forget((recorder, agent));
    println!(
        "{}",
        json!({
            "cpu_us": used,
            "cpu_us_round": used / rounds as f64,
            "allocations": change.allocations + change.reallocations,
            "bytes": change.bytes_allocated,
            "journal": journal,
        })
    );
    Ok(())
}

fn bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

/// CPU time of this process so far, in microseconds.
fn cpu() -> Result<f64, BoxError> {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)?;
    let micros = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 * 1e6 + t.tv_usec() as f64;
    Ok(micros(usage.user_time()) + micros(usage.system_time()))
}
