//! Many agents at once.

use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{BasicAgent, ModelConfig, ToolResult};
use serde_json::json;

use crate::room::{boxed, results, said};

const AGENTS: usize = 100;
const CALLS: usize = 10;

/// One agent with ten calls side by side, each of which waits until the other nine run, too.
async fn one(name: usize, alive: Arc<()>, ran: Arc<AtomicUsize>) {
    let together = Arc::new(tokio::sync::Barrier::new(CALLS));
    let tool = ScriptedTool::new("t", move |args, _| {
        let (together, ran, alive) = (Arc::clone(&together), Arc::clone(&ran), Arc::clone(&alive));
        async move {
            together.wait().await;
            ran.fetch_add(1, Ordering::Relaxed);
            drop(alive);
            Ok(ToolResult::text(args["n"].to_string()))
        }
    });
    let calls = (0..CALLS)
        .fold(ScriptedReply::new(), |r, n| r.and_call(&format!("c{n}"), "t", json!({"n": name * 100 + n})));
    let model = ScriptedProvider::new([calls, ScriptedReply::text(format!("done {name}"))]).exhaustive();
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tools(boxed([tool]));
    let events = agent.prompt("go").unwrap().collect().await;
    assert_well_formed(&events);
    let said: Vec<String> = results(&events).iter().map(said).collect();
    assert_eq!(said, (0..CALLS).map(|n| (name * 100 + n).to_string()).collect::<Vec<_>>());
    assert_eq!(agent.history().last().unwrap().text(), format!("done {name}"));
}

/// REQ-170.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_agents_with_ten_calls_each_neither_mix_nor_hang_nor_leak() {
    let (alive, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let agents: Vec<_> =
        (0..AGENTS).map(|n| tokio::spawn(one(n, Arc::clone(&alive), Arc::clone(&ran)))).collect();
    for agent in agents {
        agent.await.unwrap();
    }
    assert_eq!(ran.load(Ordering::Relaxed), AGENTS * CALLS);
    // A run's task may still be on its way out when its last event is read.
    for _ in 0..10_000 {
        if Arc::strong_count(&alive) == 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(Arc::strong_count(&alive), 1, "an agent or one of its tools is still held by somebody");
}

/// REQ-170.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_agent_may_be_used_from_many_tasks_at_once() {
    let model = ScriptedProvider::responding(|_| ScriptedReply::text("ok").in_pieces_of(1));
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model);
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let agent = agent.handle();
            tokio::spawn(async move {
                match n % 5 {
                    0 => agent.abort(),
                    1 => agent.steer("more"),
                    2 => agent.follow_up("and more"),
                    3 => drop(agent.state()),
                    _ => {}
                }
                match agent.prompt("go") {
                    Ok(events) => {
                        assert_well_formed(&events.collect().await);
                        1
                    }
                    Err(_) => 0,
                }
            })
        })
        .collect();
    let mut ran = 0;
    for task in tasks {
        ran += task.await.unwrap();
    }
    assert!(ran >= 1);
    agent.clear_all_queues();
    agent.wait_for_idle().await;
    assert_eq!(agent.chat("still there?").await.unwrap(), "ok");
}
