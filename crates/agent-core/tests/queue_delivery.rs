//! When a message that is queued during a run reaches the model: at every event, from a listener, a hook and a source.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agent_core::compat::SeedVerbs as _;
use agent_core::hooks::Hooks;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentHandle, AgentMessage, BasicAgent, ModelConfig, QueueKind, ToolResult, Verdict};
use serde_json::json;

use runs::{kinds, run, said};

const NOTE: &str = "note";

/// An agent whose first reply has a call, with enough replies for all turns that a queued message can cause.
fn agent() -> BasicAgent {
    let call = ScriptedReply::new().and_call("c1", "work", json!({}));
    let replies =
        std::iter::once(call).chain((0..6).map(|n| ScriptedReply::from(["a", "b", "c", "d", "e", "f"][n])));
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_tool(ScriptedTool::new("work", |_, _| async { Ok(ToolResult::text("done")) }))
}

fn queue(agent: &AgentHandle, kind: QueueKind) {
    match kind {
        QueueKind::FollowUp => agent.follow_up(NOTE),
        _ => agent.steer(NOTE),
    }
}

/// How often the model was shown the note.
fn delivered(agent: &BasicAgent) -> usize {
    said(agent).matches("user(note)").count()
}

/// Runs a prompt. A note that this run did not deliver must wait, and the next run must deliver it.
async fn deliver(agent: &BasicAgent) -> &'static str {
    run(agent, "Hi").await;
    if delivered(agent) == 1 {
        assert!(!agent.has_queued_messages());
        return "this run";
    }
    run(agent, "Again").await;
    assert_eq!(delivered(agent), 1, "{}", said(agent));
    "the next run"
}

/// REQ-089, B-034, B-035.
#[tokio::test]
async fn a_message_that_a_listener_queues_at_any_event_but_the_last_is_delivered_in_this_run() {
    let events = kinds(&run(&agent(), "Hi").await);
    assert_eq!(events.last().map(String::as_str), Some("agent_end"));
    for kind in [QueueKind::Steering, QueueKind::FollowUp] {
        for (at, name) in events.iter().enumerate() {
            for is_async in [false, true] {
                let agent = agent();
                let (handle, seen) = (agent.handle(), AtomicUsize::new(0));
                let note = move || {
                    if seen.fetch_add(1, Ordering::Relaxed) == at {
                        queue(&handle, kind);
                    }
                };
                let _subscription = if is_async {
                    agent.subscribe_async(move |_| {
                        note();
                        async {}
                    })
                } else {
                    agent.subscribe(move |_| note())
                };
                let expected = if name == "agent_end" { "the next run" } else { "this run" };
                assert_eq!(deliver(&agent).await, expected, "{kind:?} at {name} ({at}), async: {is_async}");
            }
        }
    }
}

/// The kinds of hooks that can queue a message, and the run that delivers it.
const HOOKS: [(&str, &str); 7] = [
    ("before_loop", "this run"),
    ("before_turn", "this run"),
    ("before_tool", "this run"),
    ("after_tool", "this run"),
    ("transform_context", "this run"),
    ("after_turn", "this run"),
    ("after_loop", "the next run"),
];

fn hook(name: &str, act: impl Fn() + Send + Sync + Clone + 'static) -> Hooks {
    let hooks = Hooks::new();
    match name {
        "before_loop" => hooks.before_loop(move |_| {
            act();
            async { true }
        }),
        "before_turn" => hooks.before_turn(move |_| {
            act();
            async { true }
        }),
        "before_tool" => hooks.before_tool(move |_| {
            act();
            async { Verdict::Allow }
        }),
        "after_tool" => hooks.after_tool(move |_| {
            act();
            async { agent_core::run::ToolChange::none() }
        }),
        "transform_context" => hooks.transform_context(move |history| {
            act();
            async { Ok(history) }
        }),
        "after_turn" => hooks.after_turn(move |_| act()),
        _ => hooks.after_loop(move |_| act()),
    }
}

#[tokio::test]
async fn a_message_that_a_hook_queues_before_the_run_ends_is_delivered_in_this_run() {
    for kind in [QueueKind::Steering, QueueKind::FollowUp] {
        for (name, expected) in HOOKS {
            // At its first call, and, where it is called again, at its second.
            for at in 0..2 {
                let agent = agent();
                let (handle, calls) = (agent.handle(), Arc::new(AtomicUsize::new(0)));
                let count = Arc::clone(&calls);
                let agent = agent.with_hooks(hook(name, move || {
                    if count.fetch_add(1, Ordering::Relaxed) == at {
                        queue(&handle, kind);
                    }
                }));
                if at == 1 {
                    run(&agent, "Hi").await;
                    if calls.load(Ordering::Relaxed) < 2 {
                        continue;
                    }
                    assert!(
                        delivered(&agent) == 1 || agent.has_queued_messages(),
                        "{kind:?} from the second {name}: {}",
                        said(&agent)
                    );
                    assert_eq!(
                        delivered(&agent) == 1,
                        expected == "this run",
                        "{kind:?} from the second {name}"
                    );
                } else {
                    assert_eq!(deliver(&agent).await, expected, "{kind:?} from {name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_source_that_has_a_message_once_an_event_was_delivered_is_polled_again_in_this_run() {
    let events = kinds(&run(&agent(), "Hi").await);
    for follow_up in [false, true] {
        for (at, name) in events.iter().enumerate() {
            let ready = Arc::new(AtomicBool::new(false));
            let given = Arc::clone(&ready);
            let source = move || {
                let ready = given.swap(false, Ordering::Relaxed);
                if ready { vec![AgentMessage::user(NOTE)] } else { Vec::new() }
            };
            let hooks = Hooks::new();
            let agent = agent().with_hooks(if follow_up {
                hooks.follow_up_messages(source)
            } else {
                hooks.steering_messages(source)
            });
            let seen = AtomicUsize::new(0);
            let _subscription = agent.subscribe(move |_| {
                if seen.fetch_add(1, Ordering::Relaxed) == at {
                    ready.store(true, Ordering::Relaxed);
                }
            });
            let expected = if name == "agent_end" { "the next run" } else { "this run" };
            assert_eq!(deliver(&agent).await, expected, "follow-up: {follow_up}, at {name} ({at})");
        }
    }
}
