//! Telemetry that is compiled in, and not subscribed to, allocates nothing in a run.
#![allow(clippy::unwrap_used, reason = "a test fails loudly, also in the functions it shares with others")]

use std::alloc::System;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, ModelConfig};
use agent_otel::{Metrics, Telemetry, WithTelemetry as _};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of runs of each kind.
const RUNS: usize = 30;

/// Returns the least allocations of a run. Threads of the exporter and of the test harness allocate, too.
fn least(change: impl Fn(BasicAgent) -> BasicAgent) -> usize {
    (0..RUNS).map(|_| allocations(&change)).min().unwrap()
}

/// Returns the allocations of a run with a tool call.
fn allocations(change: impl Fn(BasicAgent) -> BasicAgent) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let script =
        ScriptedProvider::new([ScriptedReply::call("c1", "look", json!({})), ScriptedReply::text("done")]);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(script)
        .with_session_id("s-1")
        .with_tool(ScriptedTool::saying("look", "seen"));
    let agent = change(agent);
    let region = Region::new(ALLOCATOR);
    runtime.block_on(async { agent.chat("go").await }).unwrap();
    region.change().allocations
}

#[test]
fn a_connection_without_a_subscriber_allocates_nothing_in_a_run() {
    let telemetry = Telemetry::to("http://127.0.0.1:9").with_metrics(Metrics::Omitted).start().unwrap();
    let without = least(|agent| agent);
    assert_eq!(without, least(|agent| agent), "the count is not stable");
    assert_eq!(without, least(|agent| agent.with_telemetry(telemetry.connection())));
}
