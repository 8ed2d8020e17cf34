//! The memory of a long run with compaction and a store does not grow with the number of its turns.
//!
//! The test counts the live bytes of the whole process, so it is the only one of its binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::alloc::System;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_core::compat::SeedSetters as _;
use agent_core::testing::ScriptedTool;
use agent_core::{
    AgentEvent, BasicAgent, CancellationToken, Completion, ContextConfig, EventSink, ModelConfig,
    ModelRequest, ProviderError, StopReason, StreamEvent, StreamProvider, ToolResult,
};
use agent_session::{JsonStore, SessionRecorder};
use async_trait::async_trait;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TURNS: usize = 100;
const RESULT_BYTES: usize = 200_000;
/// The turn from which on the memory is flat: the conversation and the caches have reached their size.
const SETTLED: usize = 30;
const MIB: usize = 1 << 20;

fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// A text of this length that is no other's.
fn text(n: usize, length: usize) -> String {
    let mut text = format!("result {n} ");
    while text.len() < length {
        text.push_str(&format!("word {n} of a line {}\n", text.len()));
    }
    text.truncate(length);
    text
}

/// Calls the tool in each turn but the last, and counts the live bytes. It keeps no request.
struct Rounds {
    turn: AtomicUsize,
    samples: Arc<Mutex<Vec<usize>>>,
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
        // On a busy machine several turns pass before the reader takes their events, which hold the results.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        self.samples.lock().unwrap().push(live_bytes());
        let (turn, index) = (self.turn.fetch_add(1, Ordering::Relaxed) + 1, 0);
        sink(StreamEvent::Start { response_id: None, model: None });
        if turn == TURNS {
            sink(StreamEvent::TextDelta { index, delta: "done" });
            return Ok(Completion::new(StopReason::Stop));
        }
        sink(StreamEvent::ToolCallStart { index, id: &format!("call-{turn}"), name: "read" });
        sink(StreamEvent::ToolCallDelta { index, delta: "{}" });
        sink(StreamEvent::BlockEnd { index });
        Ok(Completion::new(StopReason::ToolUse))
    }
}

/// An agent that calls a tool in each turn, whose conversation has room for about five results, and the live bytes at
/// the start of each turn.
fn agent() -> (BasicAgent, Arc<Mutex<Vec<usize>>>) {
    let result = AtomicUsize::new(0);
    let samples = Arc::new(Mutex::new(Vec::with_capacity(TURNS)));
    let provider = Rounds { turn: AtomicUsize::new(0), samples: Arc::clone(&samples) };
    let tool = ScriptedTool::new("read", move |_, _| {
        let n = result.fetch_add(1, Ordering::Relaxed);
        async move { Ok(ToolResult::text(text(n, RESULT_BYTES))) }
    });
    let compaction = ContextConfig::default()
        .with_max_context_tokens(300_000)
        .with_system_prompt_tokens(0)
        .with_keep_recent(4);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_session_id("s-1")
        .with_tool(tool)
        .with_context_config(compaction)
        .with_execution_limits(None);
    (agent, samples)
}

#[tokio::test]
async fn the_memory_of_a_long_run_with_a_store_does_not_grow_with_its_turns() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let (mut agent, samples) = agent();
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let mut events = agent.prompt("go").unwrap();
    let mut compactions = 0;
    let mut end = None;
    while let Some(event) = events.recv().await {
        match event {
            AgentEvent::CompactionEnded(_) => compactions += 1,
            AgentEvent::AgentEnd(ended) => end = Some(ended),
            _ => {}
        }
    }
    let samples = samples.lock().unwrap().clone();
    assert!(compactions > 10);
    let highest = |samples: &[usize]| samples.iter().copied().max().unwrap();
    let (early, late) = (highest(&samples[SETTLED..SETTLED + 20]), highest(&samples[TURNS - 20..]));
    assert!(late < early + MIB, "{} KiB at first, {} KiB at the end", early / 1024, late / 1024);
    let end = end.unwrap();
    assert_eq!((end.messages.len(), samples.len()), (2 * TURNS, TURNS));
    assert!(end.messages.released() > TURNS / 2);
    // The store has all of it.
    let stored = end.messages.read().await.unwrap();
    let results = stored.iter().filter(|m| m.as_llm().is_some_and(|m| m.as_tool_result().is_some()));
    assert!(results.map(|m| m.text()).eq((0..TURNS - 1).map(|n| text(n, RESULT_BYTES))));
    recorder.close().await.unwrap();
    let loaded = store.load_session("s-1").unwrap();
    assert!(loaded.loops[0].messages == stored);
    assert!(loaded.history().unwrap() == agent.history());
}
