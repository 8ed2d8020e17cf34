//! A run on record replays without a model, a tool or a clock, and says where it went another way.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

#[path = "../support/runs.rs"]
mod runs;

mod differs;
mod files;
mod same;
mod tasks;

use std::sync::Arc;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentEvent, AgentTool, BasicAgent, ModelConfig, Recorder, Recording, Replay};
use runs::run;
use serde_json::json;

/// The whole path: written as text and read again.
fn reread(recorder: &Recorder) -> Recording {
    let text = recorder.recording().to_json().unwrap();
    let read = Recording::from_json(&text).unwrap();
    assert_eq!(read, recorder.recording());
    read
}

fn clock() -> Arc<dyn AgentTool> {
    Arc::new(ScriptedTool::saying("clock", "12:00"))
}

fn call_and_text() -> ScriptedProvider {
    ScriptedProvider::new([
        ScriptedReply::call("call_1", "clock", json!({"zone": "CET"})),
        ScriptedReply::text("It is noon.").in_pieces_of(2),
    ])
}

/// A run with one call of the clock.
async fn recorded() -> Recording {
    let recorder = Recorder::new();
    let agent = BasicAgent::new(ModelConfig::default())
        .with_system_prompt("Be short.\nBe kind.")
        .with_provider(call_and_text())
        .with_tools(vec![clock()]);
    run(&recorder.attach(agent), "What time is it?").await;
    reread(&recorder)
}

fn replaying(replay: &Replay) -> BasicAgent {
    let agent = BasicAgent::new(ModelConfig::default())
        .with_system_prompt("Be short.\nBe kind.")
        .with_tools(replay.tools());
    replay.attach(agent)
}
