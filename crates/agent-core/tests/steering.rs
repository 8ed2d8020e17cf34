//! Steering and follow-ups: when queued messages are delivered, and what they do to calls that have not begun.
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
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::hooks::Hooks;
use agent_core::provider::ErrorKind;
use agent_core::testing::{Latch, ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentMessage, BasicAgent, CancellationToken, Message,
    ModelConfig, QueueKind, QueueMode, SteeringPolicy, ToolExecutionStrategy, ToolResult, agent_loop,
    event_channel,
};
use serde_json::json;

use runs::{agent, asked, run, said, within};

fn calls(ids: &[&str]) -> ScriptedReply {
    ids.iter().fold(ScriptedReply::new(), |reply, id| reply.and_call(id, "work", json!({"id": id})))
}

/// A tool that queues a steering message while the call of this id runs.
fn steering_tool(agent: &BasicAgent, at: &'static str) -> ScriptedTool {
    let agent = agent.handle();
    ScriptedTool::new("work", move |arguments, _| {
        if arguments["id"] == at {
            agent.steer("Stop that.");
        }
        async { Ok(ToolResult::text("done")) }
    })
}

/// The error results of a conversation: `c2: text`.
fn error_results(agent: &BasicAgent) -> Vec<String> {
    let messages = agent.messages();
    let results = messages.iter().filter_map(|m| m.as_llm()).filter_map(Message::as_tool_result);
    let text = |m: &agent_core::ToolResultMessage| Message::from(m.clone()).text();
    results.filter(|r| r.is_error).map(|r| format!("{}: {}", r.tool_call_id, text(r))).collect()
}

/// B-027, REQ-087, REQ-066.
#[tokio::test]
async fn steering_that_was_queued_before_the_prompt_comes_right_after_it() {
    let (agent, model) = agent(["ok"]);
    agent.steer("Be short.");
    assert_eq!(agent.queued_messages(QueueKind::Steering), [AgentMessage::user("Be short.")]);
    let elsewhere = agent.handle();
    let there = std::thread::spawn(move || elsewhere.queued_messages(QueueKind::Steering).len());
    assert_eq!(there.join().unwrap(), 1);

    let events = run(&agent, "Hi").await;
    assert_eq!(asked(&model.requests()[0]), "user(Hi) user(Be short.)");
    assert_eq!(model.requests().len(), 1);
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user user assistant(ok) turn_end agent_end(completed)"
    );
    assert!(!agent.has_queued_messages());
}

/// REQ-087, REQ-029.
#[tokio::test]
async fn a_source_of_steering_is_asked_before_the_first_call_of_the_model() {
    let model = agent_core::testing::ScriptedProvider::texts(["ok"]).exhaustive();
    let mut config = AgentLoopConfig::system(Arc::new(model.clone()), ModelConfig::default());
    let given = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&given);
    *config.hooks = Hooks::new().steering_messages(move || {
        let first = count.fetch_add(1, Ordering::Relaxed) == 0;
        if first { vec![AgentMessage::user("Be short.")] } else { Vec::new() }
    });
    let mut context = AgentContext::new("");
    let (tx, _rx) = event_channel();
    let ran = agent_loop(vec!["Hi".into()], &mut context, &config, tx, CancellationToken::new());
    let new = within(ran).await.unwrap();
    assert_eq!(asked(&model.requests()[0]), "user(Hi) user(Be short.)");
    assert_eq!(runs::shown_refs(&new), "user(Hi) user(Be short.) assistant(ok)");
}

/// B-028, REQ-090, B-041.
#[tokio::test]
async fn one_at_a_time_each_steering_message_gets_its_own_answer_in_order() {
    let (agent, model) = agent(["one", "two"]);
    agent.steer("first");
    agent.steer("second");
    assert_eq!(agent.peek_queued_messages(), [AgentMessage::user("first")]);
    assert_eq!(agent.queued_messages(QueueKind::Steering).len(), 2, "a peek takes nothing");
    run(&agent, "Hi").await;
    assert_eq!(said(&agent), "user(Hi) user(first) assistant(one) user(second) assistant(two)");
    assert_eq!(model.requests().len(), 2);
}

/// B-029, REQ-090, B-041.
#[tokio::test]
async fn all_at_once_two_steering_messages_are_in_one_call() {
    let (agent, model) = agent(["ok"]);
    let agent = agent.with_steering_mode(QueueMode::All);
    agent.steer("first");
    agent.steer("second");
    assert_eq!(agent.peek_queued_messages().len(), 2);
    run(&agent, "Hi").await;
    assert_eq!(said(&agent), "user(Hi) user(first) user(second) assistant(ok)");
    assert_eq!(model.requests().len(), 1);
    assert!(agent.peek_queued_messages().is_empty());
}

/// B-030, REQ-088.
#[tokio::test]
async fn after_turn_lets_all_calls_run_and_delivers_then() {
    for strategy in [ToolExecutionStrategy::Sequential, ToolExecutionStrategy::Parallel] {
        let (agent, model) = agent([calls(&["c1", "c2"]), "ok".into()]);
        let agent = agent.with_steering_policy(SteeringPolicy::AfterTurn).with_tool_execution(strategy);
        let tool = steering_tool(&agent, "c1");
        let agent = agent.with_tool(tool.clone());
        run(&agent, "Go.").await;
        assert_eq!(tool.calls().len(), 2, "{strategy:?}");
        assert_eq!(
            asked(&model.requests()[1]),
            "user(Go.) assistant() result(c1) result(c2) user(Stop that.)",
            "{strategy:?}"
        );
    }
}

/// B-031, B-033, REQ-088.
#[tokio::test]
async fn one_after_the_other_steering_skips_the_calls_that_have_not_begun() {
    let (agent, model) = agent([calls(&["c1", "c2", "c3"]), "ok".into()]);
    let agent = agent.with_tool_execution(ToolExecutionStrategy::Sequential);
    let tool = steering_tool(&agent, "c1");
    let agent = agent.with_tool(tool.clone());
    let events = run(&agent, "Go.").await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() tool+(c1) tool-(c1) tool+(c2) tool-!(c2) tool+(c3) tool-!(c3) \
         result(c1) result!(c2) result!(c3) turn_end turn_start user assistant(ok) turn_end agent_end(completed)"
    );
    assert_well_formed(&events);
    assert_eq!(tool.calls(), [json!({"id": "c1"})]);
    let skipped = "Skipped due to queued user message.";
    assert_eq!(error_results(&agent), [format!("c2: {skipped}"), format!("c3: {skipped}")]);
    assert_eq!(
        asked(&model.requests()[1]),
        "user(Go.) assistant() result(c1) result(c2) result(c3) user(Stop that.)"
    );
}

/// B-033.
#[tokio::test]
async fn whatever_the_strategy_each_call_has_one_result_and_only_begun_groups_run() {
    let table = [
        (ToolExecutionStrategy::Sequential, 1),
        (ToolExecutionStrategy::Batched { size: 2 }, 2),
        (ToolExecutionStrategy::Parallel, 5),
    ];
    for (strategy, ran) in table {
        let (agent, model) = agent([calls(&["c1", "c2", "c3", "c4", "c5"]), "ok".into()]);
        let agent = agent.with_tool_execution(strategy);
        let tool = steering_tool(&agent, "c1");
        let agent = agent.with_tool(tool.clone());
        run(&agent, "Go.").await;
        assert_eq!(tool.calls().len(), ran, "{strategy:?}");
        assert_eq!(error_results(&agent).len(), 5 - ran, "{strategy:?}");
        assert_eq!(
            asked(&model.requests()[1]),
            "user(Go.) assistant() result(c1) result(c2) result(c3) result(c4) result(c5) user(Stop that.)",
            "{strategy:?}"
        );
    }
}

/// B-034.
#[tokio::test]
async fn steering_while_the_last_reply_arrives_keeps_the_run_going() {
    let latch = Latch::new();
    let (agent, _) = agent([ScriptedReply::text("so").and_wait(&latch), "yes".into()]);
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    agent.steer("Really?");
    assert_eq!(runs::shown_refs(&agent.messages()), "user(Hi)", "queued is not delivered");
    latch.open();
    let events = within(events.collect()).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant(so) turn_end turn_start user assistant(yes) turn_end agent_end(completed)"
    );
}

/// B-035, B-036, REQ-089.
#[tokio::test]
async fn a_follow_up_waits_until_neither_calls_nor_steering_are_left() {
    let (agent, model) = agent([calls(&["c1"]), calls(&["c2"]), "a".into(), "b".into()]);
    agent.follow_up("Then sum up.");
    let tool = steering_tool(&agent, "c2");
    let agent = agent.with_tool(tool);
    let events = run(&agent, "Go.").await;
    assert_well_formed(&events);
    assert_eq!(
        said(&agent),
        "user(Go.) assistant() result(c1) assistant() result(c2) user(Stop that.) assistant(a) user(Then sum up.) assistant(b)"
    );
    assert_eq!(model.requests().len(), 4);
}

/// B-036.
#[tokio::test]
async fn of_steering_and_a_follow_up_the_steering_comes_first() {
    let (agent, _) = agent(["a", "b"]);
    agent.follow_up("later");
    agent.steer("now");
    assert_eq!(agent.peek_queued_messages(), [AgentMessage::user("now")]);
    run(&agent, "Hi").await;
    assert_eq!(said(&agent), "user(Hi) user(now) assistant(a) user(later) assistant(b)");
}

/// B-037, REQ-089, REQ-090.
#[tokio::test]
async fn follow_ups_come_one_by_one_or_all_together() {
    for (mode, expect) in [
        (QueueMode::OneAtATime, "user(Hi) assistant(a) user(f1) assistant(b) user(f2) assistant(c)"),
        (QueueMode::All, "user(Hi) assistant(a) user(f1) user(f2) assistant(b)"),
    ] {
        let (agent, _) = agent(["a", "b", "c"]);
        let agent = agent.with_follow_up_mode(mode);
        agent.follow_up("f1");
        agent.follow_up("f2");
        let events = run(&agent, "Hi").await;
        assert_eq!(said(&agent), expect, "{mode:?}");
        assert_well_formed(&events);
    }
}

/// B-038.
#[tokio::test]
async fn after_an_error_or_an_abort_queued_messages_stay_queued() {
    let latch = Latch::new();
    let error = ScriptedReply::text("half").and_wait(&latch).failing(ErrorKind::Auth, "no key");
    let abort = ScriptedReply::text("half").and_wait(&latch).and_hang();
    for (reply, aborted) in [(error, false), (abort, true)] {
        let (agent, model) = agent([reply]);
        let events = agent.prompt("Hi").unwrap();
        within(latch.reached()).await;
        agent.steer("s");
        agent.follow_up("f");
        latch.open();
        if aborted {
            agent.abort();
        }
        within(events.collect()).await;
        assert!(agent.has_queued_messages());
        assert_eq!(agent.queued_messages(QueueKind::Steering), [AgentMessage::user("s")]);
        assert_eq!(agent.queued_messages(QueueKind::FollowUp), [AgentMessage::user("f")]);
        assert_eq!(model.requests().len(), 1);
    }
}

/// B-040.
#[test]
fn clearing_empties_the_named_queue_only() {
    let filled = || {
        let (agent, _) = agent(["x"]);
        agent.steer("s");
        agent.steer_passively("p");
        agent.follow_up("f");
        agent
    };
    let left = |agent: &BasicAgent| {
        [QueueKind::Steering, QueueKind::PassiveSteering, QueueKind::FollowUp]
            .map(|kind| agent.queued_messages(kind).len())
    };
    let agent = filled();
    agent.clear_steering_queue();
    assert_eq!(left(&agent), [0, 0, 1]);
    let agent = filled();
    agent.clear_follow_up_queue();
    assert_eq!(left(&agent), [1, 1, 0]);
    let agent = filled();
    agent.clear_all_queues();
    assert_eq!(left(&agent), [0, 0, 0]);
    assert!(!agent.has_queued_messages());
}

/// B-040.
#[tokio::test]
async fn a_queue_can_be_emptied_while_a_run_is_open() {
    let latch = Latch::new();
    let (agent, model) = agent([ScriptedReply::text("a").and_wait(&latch)]);
    agent.follow_up("f");
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    agent.steer("s");
    agent.clear_all_queues();
    assert!(!agent.has_queued_messages());
    latch.open();
    within(events.collect()).await;
    assert_eq!(model.requests().len(), 1);
}

/// B-042.
#[tokio::test]
async fn a_mode_that_changes_during_a_run_holds_for_the_next_drain() {
    let latch = Latch::new();
    let (mut agent, _) = agent([ScriptedReply::text("a").and_wait(&latch), "b".into(), "c".into()]);
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    agent.steer("s1");
    agent.steer("s2");
    agent.set_steering_mode(QueueMode::All);
    assert_eq!(agent.steering_mode(), QueueMode::All);
    latch.open();
    within(events.collect()).await;
    assert_eq!(said(&agent), "user(Hi) assistant(a) user(s1) user(s2) assistant(b)");
    assert_eq!(agent.steering_mode(), QueueMode::All, "and for later runs");
}

/// B-042, REQ-026.
#[test]
fn a_mode_set_by_configure_is_the_mode() {
    let (agent, _) = agent(["x"]);
    let agent = agent.configure(|c| {
        c.policy.steering_mode = QueueMode::All;
        c.policy.follow_up_mode = QueueMode::All;
    });
    assert_eq!((agent.steering_mode(), agent.follow_up_mode()), (QueueMode::All, QueueMode::All));
}

/// B-043.
#[tokio::test]
async fn queued_messages_are_not_in_the_state_before_they_are_delivered() {
    let latch = Latch::new();
    let (agent, _) = agent([ScriptedReply::text("a").and_wait(&latch), "b".into()]);
    agent.follow_up("f");
    assert!(agent.state().messages.is_empty());
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    assert_eq!(runs::shown_refs(&agent.state().messages), "user(Hi)");
    latch.open();
    within(events.collect()).await;
    assert_eq!(said(&agent), "user(Hi) assistant(a) user(f) assistant(b)");
}

/// B-044.
#[tokio::test]
async fn passive_steering_does_not_wake_an_agent_that_would_stop() {
    let latch = Latch::new();
    let (agent, model) = agent([ScriptedReply::text("a").and_wait(&latch), "b".into()]);
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    agent.steer_passively("by the way");
    latch.open();
    within(events.collect()).await;
    assert_eq!(model.requests().len(), 1);
    assert_eq!(agent.queued_messages(QueueKind::PassiveSteering), [AgentMessage::user("by the way")]);
    run(&agent, "More").await;
    assert_eq!(said(&agent), "user(Hi) assistant(a) user(More) user(by the way) assistant(b)");
}

/// B-044.
#[tokio::test]
async fn passive_steering_is_delivered_where_the_run_goes_on_anyway_and_skips_nothing() {
    let (agent, model) = agent([calls(&["c1", "c2"]), "ok".into()]);
    let handle = agent.handle();
    let tool = ScriptedTool::new("work", move |_, _| {
        handle.steer_passively("by the way");
        async { Ok(ToolResult::text("done")) }
    });
    let agent = agent.with_tool(tool.clone()).with_tool_execution(ToolExecutionStrategy::Sequential);
    let agent = agent.with_steering_mode(QueueMode::All);
    run(&agent, "Go.").await;
    assert_eq!(tool.calls().len(), 2);
    assert_eq!(
        asked(&model.requests()[1]),
        "user(Go.) assistant() result(c1) result(c2) user(by the way) user(by the way)"
    );
}

/// B-044, REQ-089.
#[tokio::test]
async fn passive_steering_is_delivered_with_the_follow_up_that_opens_a_turn() {
    let latch = Latch::new();
    let (agent, model) = agent([ScriptedReply::text("a").and_wait(&latch), "b".into(), "c".into()]);
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    agent.steer_passively("by the way");
    agent.follow_up("next");
    agent.follow_up("last");
    latch.open();
    within(events.collect()).await;
    assert_eq!(
        said(&agent),
        "user(Hi) assistant(a) user(by the way) user(next) assistant(b) user(last) assistant(c)"
    );
    assert_eq!(model.requests().len(), 3, "the passive message has no turn of its own");
    assert!(!agent.has_queued_messages());
}

/// B-045, REQ-066, REQ-090.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steering_from_eight_threads_is_neither_lost_nor_doubled_and_each_keeps_its_order() {
    const EACH: usize = 50;
    let model = agent_core::testing::ScriptedProvider::responding(|_| "ok".into());
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(model)
        .with_execution_limits(None)
        .with_context_config(None);
    let mut events = agent.prompt("Hi").unwrap();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let agent = agent.handle();
            std::thread::spawn(move || {
                for n in 0..EACH {
                    agent.steer(format!("{thread}:{n}"));
                    if n % 7 == 0 {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    // The run may end between two messages: what is left then waits for the next one.
    loop {
        within(async { while events.recv().await.is_some() {} }).await;
        let done = threads.iter().all(std::thread::JoinHandle::is_finished);
        if agent.has_queued_messages() {
            events = agent.continue_run().unwrap();
        } else if done {
            break;
        } else {
            tokio::task::yield_now().await;
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(!agent.has_queued_messages());
    let texts: Vec<String> =
        agent.messages().iter().filter(|m| m.role() == "user").map(|m| m.text()).skip(1).collect();
    assert_eq!(texts.len(), 8 * EACH);
    for thread in 0..8 {
        let prefix = format!("{thread}:");
        let own: Vec<_> = texts.iter().filter(|t| t.starts_with(&prefix)).cloned().collect();
        let expect: Vec<_> = (0..EACH).map(|n| format!("{thread}:{n}")).collect();
        assert_eq!(own, expect);
    }
}

/// B-045, B-038.
#[tokio::test]
async fn what_is_queued_while_the_end_is_being_told_waits_for_the_next_run() {
    let (agent, model) = agent(["a", "b"]);
    let handle = agent.handle();
    let listening = agent.subscribe(move |event| {
        if let AgentEvent::AgentEnd(_) = event {
            handle.steer("too late");
            handle.follow_up("much too late");
        }
    });
    run(&agent, "Hi").await;
    listening.unsubscribe();
    assert_eq!(model.requests().len(), 1);
    assert_eq!(agent.queued_messages(QueueKind::Steering), [AgentMessage::user("too late")]);
    assert_eq!(agent.queued_messages(QueueKind::FollowUp), [AgentMessage::user("much too late")]);
}

/// REQ-017.
#[test]
fn a_queue_gives_one_message_at_a_time_unless_told_otherwise() {
    assert_eq!(QueueMode::default(), QueueMode::OneAtATime);
    for (mode, name) in [(QueueMode::OneAtATime, "oneAtATime"), (QueueMode::All, "all")] {
        assert_eq!(serde_json::to_value(mode).unwrap(), json!(name));
        assert_eq!(serde_json::from_value::<QueueMode>(json!(name)).unwrap(), mode);
    }
}

/// REQ-027.
#[test]
fn the_queues_of_a_new_agent_are_there_and_empty() {
    let agent = BasicAgent::new(ModelConfig::default());
    assert!(!agent.has_queued_messages());
    assert_eq!(
        (agent.steering_mode(), agent.follow_up_mode()),
        (QueueMode::OneAtATime, QueueMode::OneAtATime)
    );
    agent.follow_up("f");
    assert!(agent.queued_messages(QueueKind::Steering).is_empty(), "each queue is its own");
}

/// A counter that looks at the agent, to be given to that agent.
#[derive(Debug)]
struct Curious(agent_core::AgentHandle);

impl agent_core::TokenCounter for Curious {
    fn count_text(&self, text: &str) -> u64 {
        let state = self.0.state();
        (text.len() + state.messages.len()) as u64
    }
}

/// REQ-029.
#[tokio::test]
async fn a_source_of_messages_and_a_token_counter_may_look_at_the_agent() {
    let (agent, _) = agent(["a", "b"]);
    let (handle, counted) = (agent.handle(), agent.handle());
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let agent =
        agent.with_token_counter(Curious(counted)).with_hooks(Hooks::new().follow_up_messages(move || {
            noted.lock().unwrap().push(handle.state().messages.len());
            Vec::new()
        }));
    let prompting = agent.handle();
    let (done, waiting) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let _inside = runtime.enter();
        prompting.steer("s");
        let appended = prompting.append_message("x").is_ok();
        let _ = done.send(appended && prompting.prompt("Hi").is_ok());
    });
    let started =
        tokio::task::spawn_blocking(move || waiting.recv_timeout(std::time::Duration::from_secs(20)));
    assert_eq!(within(started).await.unwrap(), Ok(true), "the agent hangs");
    within(agent.wait_for_idle()).await;
    assert_eq!(seen.lock().unwrap().first(), Some(&1));
    assert_eq!(said(&agent), "user(x) user(Hi) user(s) assistant(a)");
}
