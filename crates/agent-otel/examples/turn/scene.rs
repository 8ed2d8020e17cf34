//! The run whose instructions are counted: a tool call in each turn, with a scripted model.

use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, ModelConfig};
use serde_json::json;

/// Runs as many turns as the first argument says, 1,000 by default.
pub(crate) fn run(change: impl Fn(BasicAgent) -> BasicAgent) -> Result<(), Box<dyn std::error::Error>> {
    let turns: usize = std::env::args().nth(1).map_or(Ok(1_000), |count| count.parse())?;
    let left = AtomicUsize::new(turns);
    let script = ScriptedProvider::responding(move |_| {
        let now = left.fetch_sub(1, Ordering::Relaxed);
        if now <= 1 {
            return ScriptedReply::text("done");
        }
        ScriptedReply::call(&format!("c{now}"), "look", json!({ "at": "here" }))
    });
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(script)
        .with_limits(None)
        .with_tool(ScriptedTool::saying("look", "seen"));
    let agent = change(agent);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { agent.chat("go").await })?;
    Ok(())
}
