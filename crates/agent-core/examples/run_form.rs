//! Measures the size of a whole run in JSON, and the time to write and read it.
//!
//! `cargo run --release -p looptree-core --example run_form`

use std::time::Instant;

use agent_core::run::{Input, Reply, Run, RunSetup, ToolOutcome, ToolVerdict};
use agent_core::{AssistantMessage, Content, History, StopReason, Timestamp, ToolResult, Usage};

type AnyError = Box<dyn std::error::Error>;

/// Returns a run after this many turns, each with one tool call.
fn run_of(turns: u64) -> Result<Run, AnyError> {
    let mut events = Vec::new();
    let mut setup = RunSetup::new("s-1.demo.1");
    setup.policy.context = None;
    setup.policy.limits = None;
    let mut run =
        Run::start(setup, History::new(), vec!["Read every file.".into()], Timestamp(1), &mut events)?;
    for n in 0..turns {
        let now = Timestamp(1_800_000_000_000 + n);
        let mut message = AssistantMessage::new("anthropic", "claude-sonnet-4-6", StopReason::ToolUse);
        message.usage = Usage::new(1_000 + n, 40, 900, 0);
        message.content.push(Content::text("Next."));
        let (id, path) = (format!("call_{n}"), format!("src/file_{n}.rs"));
        message.content.push(Content::tool_call(
            id.clone(),
            "read_file",
            serde_json::json!({ "path": path }),
        ));
        let outcome = ToolOutcome::new(ToolResult::text("fn main() {}"), Some(3));
        let inputs = [
            Input::ModelReplied { reply: Reply::new(message)? },
            Input::ToolBegan { id: id.as_str().into(), verdict: ToolVerdict::Allow },
            Input::ToolEnded { id: id.as_str().into(), outcome: Box::new(outcome) },
            Input::QueuesRead,
        ];
        for input in inputs {
            run.apply(now, input, &mut events)?;
        }
    }
    Ok(run)
}

/// Returns the shortest of several durations of `work`, in microseconds.
fn microseconds<T>(mut work: impl FnMut() -> T) -> u128 {
    let time = |work: &mut dyn FnMut() -> T| {
        let begin = Instant::now();
        std::hint::black_box(work());
        begin.elapsed().as_micros()
    };
    (0..20).map(|_| time(&mut work)).min().unwrap_or_default()
}

fn main() -> Result<(), AnyError> {
    for turns in [10, 100, 1_000] {
        let run = run_of(turns)?;
        let json = serde_json::to_string(&run)?;
        assert_eq!(serde_json::from_str::<Run>(&json)?, run);
        let write = microseconds(|| serde_json::to_string(&run));
        let read = microseconds(|| serde_json::from_str::<Run>(&json));
        println!("{turns} turns: {} bytes, written in {write} us, read in {read} us", json.len());
    }
    Ok(())
}
