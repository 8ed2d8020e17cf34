//! Abort, in every phase of a run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::hooks::Hooks;
use agent_core::provider::{Completion, ErrorKind, EventSink, ModelRequest, ProviderError};
use agent_core::testing::{
    Latch, ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript,
};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AssistantMessage, BasicAgent, CancellationToken, Content,
    Ended, Message, ModelConfig, OwnedStreamEvent, RunEnd, StopReason, StreamProvider, ToolExecutionStrategy,
    ToolResult, agent_loop, event_channel,
};
use async_trait::async_trait;
use serde_json::json;

use runs::{agent, asked, kinds, run, said, within};

/// "Promptly" is within 100 ms; ten times that for a machine that is busy.
const PROMPTLY: Duration = Duration::from_secs(1);

fn last_reply(agent: &BasicAgent) -> AssistantMessage {
    let messages = agent.messages();
    let last = messages.last().and_then(|m| m.as_llm()).and_then(Message::as_assistant);
    last.expect("the last message is a reply").clone()
}

fn results(agent: &BasicAgent) -> Vec<(String, bool, String)> {
    let messages = agent.messages();
    messages
        .iter()
        .filter_map(|m| m.as_llm())
        .filter_map(|m| m.as_tool_result().map(|r| (r.tool_call_id.to_string(), r.is_error, m.text())))
        .collect()
}

fn calls(ids: &[&str]) -> ScriptedReply {
    ids.iter().fold(ScriptedReply::new(), |reply, id| reply.and_call(id, "work", json!({"id": id})))
}

/// A provider that is not at home: it neither answers nor looks at its token.
struct Deaf(Arc<AtomicBool>);

#[async_trait]
impl StreamProvider for Deaf {
    fn provider_id(&self) -> &'static str {
        "deaf"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        _: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        struct Dropped(Arc<AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let _dropped = Dropped(Arc::clone(&self.0));
        std::future::pending().await
    }
}

/// B-053, B-061.
#[tokio::test]
async fn the_text_that_had_arrived_is_kept_and_marked() {
    let latch = Latch::new();
    let reply = ScriptedReply::text("Half a word").and_wait(&latch).and_text("never");
    let (agent, _) = agent([reply]);
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    agent.abort();
    let events = within(events.collect()).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant!(Half a word) turn_end agent_end(aborted)"
    );
    assert_well_formed(&events);
    let reply = last_reply(&agent);
    assert_eq!((reply.text().as_str(), reply.stop_reason), ("Half a word", StopReason::Aborted));
    assert!(reply.error_message.is_some());
    assert_eq!(said(&agent), "user(Hi) assistant(Half a word)");
    assert_eq!(agent.finish().await, Some(RunEnd::Aborted));
}

/// B-054, REQ-067.
#[tokio::test]
async fn an_abort_before_the_answer_ends_the_run_promptly_whatever_the_provider_does() {
    let dropped = Arc::new(AtomicBool::new(false));
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(Deaf(Arc::clone(&dropped)));
    let mut events = agent.prompt("Hi").unwrap();
    while !matches!(within(events.recv()).await, Some(AgentEvent::MessageEnd { .. })) {}
    tokio::task::yield_now().await;
    agent.abort();
    tokio::time::timeout(PROMPTLY, agent.wait_for_idle()).await.expect("it ends promptly");
    assert_eq!(last_reply(&agent).stop_reason, StopReason::Aborted);
    assert!(dropped.load(Ordering::SeqCst), "the request was given up");
}

/// B-055.
#[tokio::test]
async fn an_abort_without_a_run_does_nothing() {
    let (agent, _) = agent(["a"]);
    agent.steer("s");
    agent.abort();
    agent.abort();
    assert!(!agent.is_streaming() && agent.messages().is_empty() && agent.error_message().is_none());
    assert!(agent.has_queued_messages());
    agent.clear_all_queues();
    assert!(transcript(&run(&agent, "Hi").await).ends_with("agent_end(completed)"));
}

/// B-056, REQ-161.
#[tokio::test]
async fn one_after_the_other_later_calls_never_start() {
    let (agent, model) = agent([calls(&["c1", "c2", "c3"])]);
    let handle = agent.handle();
    let tool = ScriptedTool::new("work", move |_, _| {
        handle.abort();
        async { Ok(ToolResult::text("done")) }
    });
    let agent = agent.with_tool(tool.clone()).with_tool_execution(ToolExecutionStrategy::Sequential);
    let events = run(&agent, "Go.").await;
    assert_well_formed(&events);
    assert!(transcript(&events).ends_with("turn_end agent_end(aborted)"), "{}", transcript(&events));
    assert_eq!(tool.calls().len(), 1);
    assert_eq!(model.requests().len(), 1);
    let results = results(&agent);
    assert_eq!(results.len(), 3, "each call has its result");
    for result in &results[1..] {
        assert_eq!((result.1, result.2.as_str()), (true, "Operation aborted"));
    }
}

/// B-057.
#[tokio::test]
async fn side_by_side_calls_that_were_prepared_and_had_not_started_end_as_aborted() {
    // The hook of the last call aborts: those before it have been let through and none has started.
    let (agent, _) = agent([calls(&["c1", "c2", "c3"])]);
    let tool = ScriptedTool::saying("work", "done");
    let handle = agent.handle();
    let agent = agent.with_tool(tool.clone()).with_hooks(Hooks::new().before_tool(move |info| {
        if info.call.id == "c3" {
            handle.abort();
        }
        async { true }
    }));
    let events = run(&agent, "Go.").await;
    assert_well_formed(&events);
    assert_eq!(tool.calls(), Vec::<serde_json::Value>::new());
    let expect = |id: &str| (id.to_owned(), true, "Operation aborted".to_owned());
    assert_eq!(results(&agent), ["c1", "c2", "c3"].map(expect));
}

/// B-057.
#[tokio::test]
async fn calls_that_wait_for_a_free_place_end_as_aborted() {
    let (agent, _) = agent([calls(&["c1", "c2", "c3"])]);
    let latch = Latch::new();
    let held = latch.clone();
    let tool = ScriptedTool::new("work", move |_, ctx| {
        let held = held.clone();
        async move {
            tokio::select! {
                () = held.wait() => {}
                () = ctx.cancel.cancelled() => {}
            }
            ctx.check_cancelled().map(|()| ToolResult::text("done"))
        }
    });
    let agent = agent.with_tool(tool.clone()).with_max_concurrent_tools(1);
    let events = agent.prompt("Go.").unwrap();
    within(latch.reached()).await;
    agent.abort();
    let events = within(events.collect()).await;
    assert_well_formed(&events);
    assert_eq!(tool.calls().len(), 1);
    let results = results(&agent);
    assert_eq!(results.iter().filter(|r| r.1).count(), 3, "{results:?}");
    assert_eq!(results[1].2, "Operation aborted");
    assert_eq!(results[2].2, "Operation aborted");
}

/// B-058.
#[tokio::test]
async fn a_hook_that_allows_a_call_during_an_abort_is_not_heeded() {
    for strategy in [ToolExecutionStrategy::Sequential, ToolExecutionStrategy::Parallel] {
        let (agent, _) = agent([calls(&["c1"])]);
        let tool = ScriptedTool::saying("work", "done");
        let handle = agent.handle();
        let hooks = Hooks::new().before_tool(move |_| {
            handle.abort();
            async { true }
        });
        let agent = agent.with_tool(tool.clone()).with_hooks(hooks).with_tool_execution(strategy);
        let events = run(&agent, "Go.").await;
        assert!(transcript(&events).ends_with("agent_end(aborted)"));
        assert!(tool.calls().is_empty(), "{strategy:?}");
        assert_eq!(results(&agent), [("c1".into(), true, "Operation aborted".into())]);
    }
}

/// B-059, REQ-140, REQ-067.
#[tokio::test]
async fn tools_that_heed_their_token_are_ended_all_at_once() {
    let (agent, _) = agent([calls(&["c1", "c2"])]);
    let latch = Latch::new();
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let (held, seen) = (latch.clone(), Arc::clone(&tokens));
    let tool = ScriptedTool::new("work", move |_, ctx| {
        seen.lock().unwrap().push(ctx.cancel.clone());
        let held = held.clone();
        async move {
            tokio::select! {
                () = held.wait() => Ok(ToolResult::text("never")),
                () = ctx.cancel.cancelled() => Err(agent_core::ToolError::Cancelled),
            }
        }
    });
    let agent = agent.with_tool(tool);
    let events = agent.prompt("Go.").unwrap();
    within(latch.reached()).await;
    within(latch.reached()).await;
    assert!(tokens.lock().unwrap().iter().all(|t| !t.is_cancelled()));
    agent.abort();
    assert!(tokens.lock().unwrap().iter().all(CancellationToken::is_cancelled), "at once");
    let events = within(events.collect()).await;
    assert_well_formed(&events);
    assert!(transcript(&events).ends_with("turn_end agent_end(aborted)"));
    let results = results(&agent);
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|r| r.1), "{results:?}");
}

/// B-060, B-061.
#[tokio::test]
async fn a_tool_that_ignores_its_token_is_left_behind_after_the_grace_period() {
    let (agent, _) = agent([calls(&["c1"])]);
    let clock = ManualEnvironment::at(0);
    let latch = Latch::new();
    let held = latch.clone();
    let agent =
        agent.with_environment(Arc::new(clock.clone())).with_tool(ScriptedTool::new("work", move |_, _| {
            let held = held.clone();
            async move {
                held.wait().await;
                Ok(ToolResult::text("never"))
            }
        }));
    let events = agent.prompt("Go.").unwrap();
    within(latch.reached()).await;
    agent.abort();
    within(clock.sleeps_begun(1)).await;
    clock.advance(Duration::from_millis(499));
    tokio::task::yield_now().await;
    assert!(agent.is_streaming(), "the grace period is 500 ms");
    clock.advance(Duration::from_millis(1));
    let events = within(events.collect()).await;
    assert_well_formed(&events);
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() tool+(c1) tool-!(c1) result!(c1) turn_end agent_end(aborted)"
    );
    assert_eq!(results(&agent), [("c1".into(), true, "Operation aborted".into())]);
    assert!(!agent.is_streaming());
}

/// B-060.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_thread_does_not_hold_an_abort_back() {
    let (agent, _) = agent([calls(&["c1"])]);
    let (free, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let latch = Latch::new();
    let begun = latch.clone();
    let agent = agent.with_tool(ScriptedTool::new("work", move |_, _| {
        let (blocked, begun) = (Arc::clone(&blocked), begun.clone());
        async move {
            begun.open();
            let _ = blocked.lock().unwrap().recv();
            Ok(ToolResult::text("late"))
        }
    }));
    let events = agent.prompt("Go.").unwrap();
    within(latch.wait()).await;
    agent.abort();
    let events = within(events.collect()).await;
    assert_well_formed(&events);
    assert_eq!(results(&agent), [("c1".into(), true, "Operation aborted".into())]);
    drop(free);
}

/// B-062.
#[tokio::test]
async fn an_aborted_reply_is_kept_and_never_sent_again() {
    let latch = Latch::new();
    let reply = ScriptedReply::call("c1", "work", json!({})).and_text("half").and_wait(&latch);
    let (agent, model) = agent([reply, "ok".into()]);
    let tool = ScriptedTool::saying("work", "x");
    let agent = agent.with_tool(tool.clone());
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    agent.abort();
    let events = within(events.collect()).await;
    assert!(!kinds(&events).contains(&"tool_execution_start".to_owned()));
    assert_eq!(last_reply(&agent).tool_calls().count(), 1, "the call is kept as data");
    run(&agent, "Again").await;
    assert_eq!(asked(&model.requests()[1]), "user(Hi) user(Again)");
    assert!(tool.calls().is_empty());
    assert_eq!(said(&agent), "user(Hi) assistant(half) user(Again) assistant(ok)");
}

/// B-063.
#[tokio::test]
async fn blank_scaffolding_of_an_aborted_reply_is_dropped() {
    let latch = Latch::new();
    let blank = ScriptedReply::text("  \n")
        .and_event(OwnedStreamEvent::ToolCallStart { index: 1, id: String::new(), name: String::new() })
        .and_wait(&latch);
    let unfinished = ScriptedReply::new()
        .and_event(OwnedStreamEvent::ToolCallStart { index: 0, id: "c1".into(), name: "work".into() })
        .and_event(OwnedStreamEvent::ToolCallDelta { index: 0, delta: "{\"a".into() })
        .and_wait(&latch);
    for reply in [blank, unfinished, ScriptedReply::new().and_wait(&latch)] {
        let (agent, _) = agent([reply]);
        let events = agent.prompt("Hi").unwrap();
        within(latch.reached()).await;
        agent.abort();
        assert_well_formed(&within(events.collect()).await);
        let reply = last_reply(&agent);
        assert_eq!(reply.content, Vec::<Content>::new());
        assert_eq!(reply.stop_reason, StopReason::Aborted);
        assert_eq!(reply.error_message.as_deref(), Some("Request was aborted"));
    }
}

/// B-064, REQ-033.
#[tokio::test]
async fn after_an_abort_the_next_run_has_a_token_of_its_own() {
    let latch = Latch::new();
    let (agent, _) = agent([ScriptedReply::text("half").and_wait(&latch), calls(&["c1"]), "ok".into()]);
    let tool = ScriptedTool::new("work", |_, ctx| async move {
        ctx.check_cancelled()?;
        Ok(ToolResult::text("done"))
    });
    let agent = agent.with_tool(tool);
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    agent.abort();
    within(events.collect()).await;
    let events = run(&agent, "Again").await;
    assert!(transcript(&events).ends_with(
        "tool+(c1) tool-(c1) result(c1) turn_end turn_start assistant(ok) turn_end agent_end(completed)"
    ));
    assert!(agent.error_message().is_none());

    let root = CancellationToken::new();
    let child = root.child_token();
    assert!(!root.is_cancelled() && !child.is_cancelled());
    child.child_token().cancel();
    assert!(!child.is_cancelled(), "a child does not cancel its parent");
    root.cancel();
    assert!(root.is_cancelled() && child.is_cancelled() && root.child_token().is_cancelled());
}

/// B-065.
#[tokio::test]
async fn an_abort_ends_the_wait_before_a_retry() {
    let (agent, model) = agent([ScriptedReply::error(ErrorKind::RateLimited, "slow down"), "late".into()]);
    let clock = ManualEnvironment::at(0);
    let agent = agent.with_environment(Arc::new(clock.clone()));
    let events = agent.prompt("Hi").unwrap();
    within(clock.sleeps_begun(1)).await;
    agent.abort();
    let events = within(events.collect()).await;
    assert_well_formed(&events);
    assert!(transcript(&events).ends_with("agent_end(aborted)"), "{}", transcript(&events));
    assert_eq!(last_reply(&agent).stop_reason, StopReason::Aborted);
    assert_eq!(model.requests().len(), 1);
}

/// B-066.
#[test]
fn when_the_runtime_goes_the_run_ends_and_what_it_had_begun_is_cancelled() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // In a request.
    let dropped = Arc::new(AtomicBool::new(false));
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(Deaf(Arc::clone(&dropped)));
    let rt = runtime();
    let mut events = rt.block_on(async {
        let mut events = agent.prompt("Hi").unwrap();
        while !matches!(events.recv().await, Some(AgentEvent::MessageEnd { .. })) {}
        tokio::task::yield_now().await;
        events
    });
    drop(rt);
    assert!(dropped.load(Ordering::SeqCst), "the request was given up");
    assert!(!agent.is_streaming(), "the agent is idle");
    let mut last = None;
    while let Some(event) = events.try_recv() {
        last = Some(event);
    }
    assert!(
        matches!(last, Some(AgentEvent::AgentEnd(end)) if matches!(end.ended, Ended::Interrupted { .. }))
    );

    // In a tool.
    let (agent, _) = runs::agent([calls(&["c1"])]);
    let token = Arc::new(Mutex::new(None));
    let (kept, latch) = (Arc::clone(&token), Latch::new());
    let held = latch.clone();
    let agent = agent.with_tool(ScriptedTool::new("work", move |_, ctx| {
        *kept.lock().unwrap() = Some(ctx.cancel.clone());
        let held = held.clone();
        async move {
            held.wait().await;
            Ok(ToolResult::text("never"))
        }
    }));
    let rt = runtime();
    rt.block_on(async {
        agent.prompt("Go.").unwrap();
        latch.reached().await;
    });
    drop(rt);
    assert!(token.lock().unwrap().as_ref().is_some_and(CancellationToken::is_cancelled));
    assert!(!agent.is_streaming() && agent.state().pending_tool_calls.is_empty());
    assert_eq!(results(&agent).len(), 1, "the call has a result all the same");
    assert!(runtime().block_on(async { agent.prompt("Again").is_ok() }), "the agent is usable");
}

/// B-066, B-016, B-119.
#[tokio::test]
async fn a_loop_whose_future_is_dropped_says_its_end_and_leaves_the_context_as_it_was() {
    let latch = Latch::new();
    let model = ScriptedProvider::new([ScriptedReply::text("Half").and_wait(&latch)]);
    let config = AgentLoopConfig::system(Arc::new(model), ModelConfig::default());
    let mut context = AgentContext::new("");
    let (tx, rx) = event_channel();
    {
        let ran = agent_loop(vec!["Hi".into()], &mut context, &config, tx, CancellationToken::new());
        tokio::select! {
            _ = ran => panic!("the model waits"),
            () = latch.reached() => {}
        }
    }
    let events = within(rx.collect()).await;
    assert_well_formed(&events);
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant!(Half) turn_end agent_end(interrupted)"
    );
    assert!(context.history.is_empty());
}

/// B-061, REQ-161.
#[tokio::test]
async fn wherever_it_comes_an_abort_ends_the_run_as_aborted() {
    type Build = fn(BasicAgent) -> (BasicAgent, Vec<ScriptedReply>);
    let cases: [(&str, Build); 6] = [
        ("before_loop", |agent| {
            let handle = agent.handle();
            let hooks = Hooks::new().before_loop(move |_| {
                handle.abort();
                async { true }
            });
            (agent.with_hooks(hooks), vec![])
        }),
        ("before_turn", |agent| {
            let handle = agent.handle();
            let hooks = Hooks::new().before_turn(move |_| {
                handle.abort();
                async { true }
            });
            (agent.with_hooks(hooks), vec![])
        }),
        ("transform", |agent| {
            let handle = agent.handle();
            let hooks = Hooks::new().transform_context(move |history| {
                handle.abort();
                async { Ok(history) }
            });
            (agent.with_hooks(hooks), vec![])
        }),
        ("filter", |agent| {
            let handle = agent.handle();
            let agent = agent.with_input_filter(move |_: &str| {
                handle.abort();
                agent_core::FilterResult::Pass
            });
            (agent, vec![])
        }),
        ("tool", |agent| {
            let handle = agent.handle();
            let tool = ScriptedTool::new("work", move |_, _| {
                handle.abort();
                async { Ok(ToolResult::text("x")) }
            });
            (agent.with_tool(tool), vec![calls(&["c1"])])
        }),
        ("listener at the end of a turn", |agent| {
            let handle = agent.handle();
            let _listening = agent.subscribe(move |event| {
                if matches!(event, AgentEvent::TurnEnd { .. }) {
                    handle.abort();
                }
            });
            let tool = ScriptedTool::saying("work", "x");
            (agent.with_tool(tool), vec![calls(&["c1"])])
        }),
    ];
    for (name, build) in cases {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ended);
        let (agent, replies) = build(BasicAgent::new(ModelConfig::default()));
        let agent = agent.with_provider(ScriptedProvider::new(replies).exhaustive());
        let agent = agent.configure(move |c| {
            *c.hooks = std::mem::take(&mut *c.hooks).after_loop(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
            });
        });
        let events = run(&agent, "Hi").await;
        assert_well_formed(&events);
        let text = transcript(&events);
        assert!(text.ends_with("agent_end(aborted)"), "{name}: {text}");
        let started = kinds(&events).contains(&"agent_start".to_owned());
        assert_eq!(
            ended.load(Ordering::SeqCst),
            usize::from(started),
            "after_loop follows AgentStart: {name}"
        );
    }
}

/// B-061, B-006.
#[tokio::test]
async fn an_abort_at_any_event_of_a_run_leaves_a_closed_conversation() {
    let mut rounds = 0_usize;
    loop {
        let model = ScriptedProvider::responding(|request| {
            let n = request.history.len();
            ScriptedReply::text("Let me see.")
                .and_call(&format!("c{n}-1"), "work", json!({}))
                .and_call(&format!("c{n}-2"), "work", json!({}))
                .in_pieces_of(2)
        });
        let agent = BasicAgent::new(ModelConfig::default())
            .with_provider(model)
            .with_execution_limits(agent_core::ExecutionLimits::default().with_max_turns(2))
            .with_tool(ScriptedTool::new("work", |_, ctx| async move {
                tokio::task::yield_now().await;
                ctx.check_cancelled().map(|()| ToolResult::text("done"))
            }));
        let (handle, seen) = (agent.handle(), AtomicUsize::new(0));
        let _listening = agent.subscribe(move |_| {
            if seen.fetch_add(1, Ordering::SeqCst) == rounds {
                handle.abort();
            }
        });
        let events = run(&agent, "Go.").await;
        assert_well_formed(&events);
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end") };
        assert!(!agent.is_streaming() && agent.state().pending_tool_calls.is_empty());
        assert_eq!(agent.messages(), end.messages.in_memory(), "what was said is what is kept");
        match &end.ended {
            Ended::Aborted => rounds += 1,
            // The message about the limit and the end of the run are one step: an abort there comes too late.
            Ended::Limit { .. } => {
                assert_eq!(kinds(&events)[rounds..], ["message_start", "message_end", "agent_end"]);
                break;
            }
            other => panic!("at event {rounds}: {other:?}"),
        }
    }
    assert!(rounds > 36, "the abort was tried at {rounds} events");
}

/// The task of a call can be scheduled after an abort that came when the task was spawned.
#[tokio::test]
async fn a_call_whose_task_has_not_begun_is_not_executed_after_an_abort() {
    let reply = ScriptedReply::new().and_call("c1", "stops", json!({})).and_call("c2", "next", json!({}));
    let (agent, _) = agent([reply]);
    let own: Arc<Mutex<Option<agent_core::WeakAgent>>> = Arc::default();
    let handle = Arc::clone(&own);
    let stops = ScriptedTool::new("stops", move |_, _| {
        handle.lock().unwrap().as_ref().and_then(agent_core::WeakAgent::upgrade).unwrap().abort();
        async { Ok("stopped".into()) }
    });
    let next = ScriptedTool::saying("next", "executed");
    let agent = agent.with_tool(stops).with_tool(next.clone());
    *own.lock().unwrap() = Some(agent.downgrade());
    run(&agent, "go").await;
    assert!(next.calls().is_empty(), "a call began after the abort");
}
