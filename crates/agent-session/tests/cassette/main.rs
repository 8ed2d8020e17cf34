//! A run on record replays without a model, a tool or a clock, and says where it went another way.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

mod differs;
mod files;
mod law;
mod same;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentEvent, AgentTool, BasicAgent, ModelConfig};
use agent_session::cassette::{Cassette, CassetteRecorder, Replay};
use serde_json::json;

/// All events of one prompt. A run that would hang fails instead.
async fn run(agent: &BasicAgent, prompt: &str) -> Vec<AgentEvent> {
    let events = agent.prompt(prompt).expect("the agent is idle");
    tokio::time::timeout(Duration::from_secs(30), events.collect()).await.expect("it hangs")
}

/// The whole path: written as text and read again.
fn reread(recorder: &CassetteRecorder) -> Cassette {
    let text = recorder.cassette().to_json().unwrap();
    let read = Cassette::from_json(&text).unwrap();
    assert_eq!(read, recorder.cassette());
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
async fn recorded() -> Cassette {
    let recorder = CassetteRecorder::new();
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
