//! Measures simulations, and searches for errors: `cargo xtask bench sim` builds and runs it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures"
)]

#[path = "../tests/scene/mod.rs"]
mod scene;

use std::time::Instant;

use agent_core::testing::ScriptedTool;
use agent_core::{BasicAgent, ModelConfig};
use agent_sim::{Faults, Sim};
use serde_json::json;

/// A simulation whose runs have one prompt and exactly five turns with a tool call, then an answer.
fn five_turns() -> Sim {
    let steps: Vec<_> = std::iter::once(json!({"prompt": "Begin."}))
        .chain((0..4).map(|n| {
            let arguments = json!({"n": n}).to_string();
            json!({"reply": {"calls": [{"tool": "read", "arguments": arguments}], "tokens": [100, 20]}})
        }))
        .collect();
    let script = serde_json::from_value(json!({"seed": 0, "steps": steps})).unwrap();
    let sim = Sim::new(|_| {
        BasicAgent::new(ModelConfig::default()).with_tool(ScriptedTool::saying("read", "line\n".repeat(20)))
    })
    .faults(Faults::none());
    let log = sim.replay(&script).unwrap();
    let turns = log.events().filter(|event| matches!(event, agent_core::AgentEvent::TurnEnd { .. })).count();
    assert_eq!(turns, 5);
    let (began, mut runs) = (Instant::now(), 0_u32);
    while began.elapsed().as_secs_f64() < 10.0 {
        sim.replay(&script).unwrap();
        runs += 1;
    }
    rate("runs of 5 turns, without faults", runs.into(), began.elapsed().as_secs_f64());
    sim
}

fn rate(what: &str, runs: f64, seconds: f64) {
    println!("{what}: {:.0} a minute ({:.0} microseconds each)", runs / seconds * 60.0, seconds / runs * 1e6);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds = |n: usize| arguments.get(n).and_then(|text| text.parse().ok()).unwrap_or(20_000_u64);
    let scene = || match arguments.get(2).map(String::as_str) {
        Some("stored") => scene::stored(),
        Some("branches") => scene::branches(),
        Some("resumed_branches") => scene::resumed_branches(),
        _ => scene::sim(),
    };
    match arguments.first().map(String::as_str) {
        Some("find") => match scene().seeds(0..seeds(1)).run() {
            Ok(report) => println!("{}", json!({"found": null, "runs": report.runs})),
            Err(failure) => {
                let again = scene().seeds(failure.seed..failure.seed + 1).run();
                let repeats = again.is_err_and(|again| again.script == failure.script);
                let steps = failure.script.steps.len();
                let found = json!({
                    "found": failure.rule, "message": failure.message, "seed": failure.seed, "steps": steps,
                    "drawn": failure.drawn_steps, "repeats": repeats, "script": failure.script,
                });
                println!("{found}");
            }
        },
        _ => {
            five_turns();
            let seeds = seeds(1);
            let began = Instant::now();
            let report = scene::sim().seeds(0..seeds).run().unwrap();
            let seconds = began.elapsed().as_secs_f64();
            rate("runs of the agent with all settings and all faults", report.runs as f64, seconds);
            println!(
                "{:.1} model calls, {:.1} executions of tools and {:.2} kills a run; ends: {:?}",
                report.model_calls as f64 / report.runs as f64,
                report.executions.values().sum::<usize>() as f64 / report.runs as f64,
                report.kills as f64 / report.runs as f64,
                report.ends
            );
        }
    }
}
