//! Agents that were used in every way and dropped leave nothing behind: no task, no memory, no file descriptor.
//!
//! The test counts what the whole process holds, so it is the only one of its binary.
#![cfg(all(feature = "tools", feature = "session", feature = "testing"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use std::alloc::System;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use looptree::hooks::Decision;
use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use looptree::tools::SubAgentTool;
use looptree::{Message, ToolPolicy, ToolRule};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const AGENTS: usize = 100;
const TOOLS: usize = 10;
const ROUNDS: usize = 6;
/// How many bytes more the process may hold after the last round than after the second one: ten for each agent of a round. An
/// agent holds far more than all of it.
const TOLERANCE: usize = 4 * 1024;

/// What the process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    tasks: usize,
    bytes: usize,
    descriptors: usize,
}

impl Held {
    fn now() -> Self {
        let stats = ALLOCATOR.stats();
        Self {
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
            bytes: stats.bytes_allocated.saturating_sub(stats.bytes_deallocated),
            // Elsewhere than on Linux this is not counted.
            descriptors: std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
        }
    }

    /// Waits until the tasks of dropped agents have ended, and what they held is freed; 20 seconds at most.
    async fn settled(tasks: usize) -> Self {
        let mut last = Self::now();
        for _ in 0..2_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = Self::now();
            if now.tasks <= tasks && now == last {
                return now;
            }
            last = now;
        }
        last
    }
}

/// The way in which an agent is used.
#[derive(Debug, Clone, Copy)]
enum Use {
    /// Ten calls at the same time, then a second prompt.
    Calls,
    /// Two sub-agents at the same time, each with a tool call.
    SubAgents,
    /// Aborted while the model answers.
    AbortedReply,
    /// Aborted while ten tools run.
    AbortedTools,
    /// Suspended, and dropped without an answer.
    Suspended,
    /// Suspended, recorded, restored from the store, answered and continued.
    Restored,
    /// The receiver and the owner are dropped while the run goes on.
    Abandoned,
    /// The model fails.
    Failed,
    /// Explored by three branches.
    Branches,
    /// Steered, and with a message that follows.
    Steered,
}

const USES: [Use; 10] = [
    Use::Calls,
    Use::SubAgents,
    Use::AbortedReply,
    Use::AbortedTools,
    Use::Suspended,
    Use::Restored,
    Use::Abandoned,
    Use::Failed,
    Use::Branches,
    Use::Steered,
];

/// Answers each prompt with a call of every tool, and results with a text. Sub-agents, which know their task only, do the
/// same with one tool.
fn model(way: Use) -> ScriptedProvider {
    ScriptedProvider::responding(move |request| {
        let last = request.messages().last().unwrap();
        let count = request.messages().count();
        match (way, last) {
            (Use::AbortedReply, _) => ScriptedReply::text("I begin").and_hang(),
            (Use::Failed, _) => ScriptedReply::error(looptree::ErrorKind::Auth, "the key is wrong"),
            (_, Message::ToolResult(_)) => ScriptedReply::text(format!("done after {count} messages")),
            (Use::SubAgents, _) if last.text() == "go" => ScriptedReply::new()
                .and_call("a", "helper", json!({"task": "paint"}))
                .and_call("b", "helper", json!({"task": "sing"})),
            (Use::SubAgents, _) => ScriptedReply::call("c", "tool_0", json!({})),
            _ => (0..TOOLS).fold(ScriptedReply::new(), |reply, n| {
                reply.and_call(&format!("c{count}-{n}"), &format!("tool_{n}"), json!({"n": n}))
            }),
        }
    })
}

fn tools(way: Use) -> Vec<Arc<dyn AgentTool>> {
    (0..TOOLS)
        .map(|n| {
            let tool = ScriptedTool::new(format!("tool_{n}"), move |_, cx| async move {
                if matches!(way, Use::AbortedTools) {
                    cx.cancel.cancelled().await;
                }
                tokio::task::yield_now().await;
                Ok(ToolResult::text("x".repeat(1_000)))
            });
            Arc::new(tool.with_effects(Effects::ReadOnly)) as Arc<dyn AgentTool>
        })
        .collect()
}

fn agent(way: Use) -> BasicAgent {
    let policy = ToolPolicy::new(Decision::Allow);
    let policy = match way {
        Use::Suspended | Use::Restored => policy.ask(ToolRule::tool("tool_3")),
        _ => policy,
    };
    let helper = SubAgentTool::new("helper", ModelConfig::default()).with_tools(tools(way));
    looptree::agent(ModelConfig::default())
        .with_provider(model(way))
        .with_tools(tools(way))
        .with_tool(helper)
        .with_hooks(Hooks::new().policy(policy))
}

/// Uses one agent and drops it.
async fn use_one(way: Use, folder: &Path) {
    let mut one = agent(way);
    match way {
        Use::Calls => {
            for _ in 0..2 {
                assert!(one.prompt("go").unwrap().end().await.is_completed());
            }
        }
        Use::SubAgents => assert!(one.prompt("go").unwrap().end().await.is_completed()),
        Use::AbortedReply => {
            let mut events = one.prompt("go").unwrap();
            while events.recv().await.is_some_and(|event| event.text_delta().is_none()) {}
            one.abort();
            assert!(matches!(events.end().await, RunEnd::Aborted));
        }
        Use::AbortedTools => {
            let mut events = one.prompt("go").unwrap();
            let mut started = 0;
            while started < TOOLS {
                started +=
                    usize::from(matches!(events.recv().await, Some(AgentEvent::ToolExecutionStart { .. })));
            }
            one.abort();
            assert!(matches!(events.end().await, RunEnd::Aborted));
        }
        Use::Suspended => assert!(matches!(one.prompt("go").unwrap().end().await, RunEnd::Suspended(_))),
        Use::Restored => {
            let store = JsonStore::open(folder).unwrap();
            let recorder = SessionRecorder::attach(&mut one, store.clone());
            assert!(matches!(one.prompt("go").unwrap().end().await, RunEnd::Suspended(_)));
            let id = one.session_id();
            recorder.close().await.unwrap();
            drop(one);
            let (one, recorder) = agent(way).restore_session(store.clone(), id.as_str()).await.unwrap();
            let question = one.questions().remove(0);
            assert!(one.answer(question.id, Answer::Allow).unwrap().end().await.is_completed());
            recorder.close().await.unwrap();
            store.delete_session(id.as_str()).unwrap();
        }
        Use::Abandoned => drop(one.prompt("go").unwrap()),
        Use::Failed => assert!(matches!(one.prompt("go").unwrap().end().await, RunEnd::Failed(_))),
        Use::Branches => {
            let branches = ["go", "go on", "go back"].map(BranchSpec::asking);
            let strategy = looptree::evaluation::PickFirstEvaluation;
            one.explore_and_adopt(branches, strategy, looptree::EventSender::none()).await.unwrap();
        }
        Use::Steered => {
            let mut events = one.prompt("go").unwrap();
            one.steer("faster");
            one.follow_up("and once more");
            assert!(events.end().await.is_completed());
        }
    }
}

async fn round(folder: &Path) {
    let agents: Vec<_> = (0..AGENTS)
        .map(|n| {
            let folder = folder.to_owned();
            tokio::spawn(async move { use_one(USES[n % USES.len()], &folder).await })
        })
        .collect();
    for agent in agents {
        agent.await.unwrap();
    }
}

/// REQ-170. Tasks and descriptors are those of the first round; memory is flat from the second round on, when the threads and
/// the caches of the process have what they need.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_agents_that_were_used_and_dropped_leave_no_task_no_memory_and_no_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let before = Held::settled(0).await;
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        round(folder.path()).await;
        rounds.push(Held::settled(before.tasks).await);
    }
    println!("before {before:?}");
    for held in &rounds {
        println!("{held:?}");
    }
    let (second, last) = (rounds[1], rounds[ROUNDS - 1]);
    for held in &rounds {
        assert_eq!(held.tasks, before.tasks, "{rounds:?}");
        assert_eq!(held.descriptors, rounds[0].descriptors, "{rounds:?}");
    }
    assert!(last.bytes <= second.bytes + TOLERANCE, "{rounds:?}");

    // The opposite: one run that hangs and one agent that is kept are seen.
    let hanging = agent(Use::AbortedReply);
    let mut events = hanging.prompt("go").unwrap();
    while events.recv().await.is_some_and(|event| event.text_delta().is_none()) {}
    tokio::time::sleep(Duration::from_millis(100)).await;
    let held = Held::now();
    assert!(held.tasks > before.tasks, "a task of the run is not counted: {held:?}");
    assert!(held.bytes > last.bytes + TOLERANCE, "the memory of an agent is not counted: {held:?}, {last:?}");
    hanging.abort();
    drop(events.end().await);
    drop(hanging);
    let end = Held::settled(before.tasks).await;
    assert!(end.tasks == before.tasks && end.bytes <= last.bytes + TOLERANCE, "{end:?}");
}
