//! Deferred tool results through an agent: the call ends at once, and its result comes in a later message.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use std::sync::{Arc, Mutex};

use agent_core::compat::SeedVerbs as _;
use agent_core::hooks::ToolCallInfo;
use agent_core::run::{Input, Run, RunSetup};
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentError, AgentEvent, AgentHandle, AgentMessage, Answer, BasicAgent, Content, ExecutionLimits, History,
    HistoryError, Hooks, Message, ModelConfig, RunEnd, ToolResult, Verdict,
};
use serde_json::json;
use tokio::sync::Notify;

use runs::{asked, run, said, within};

/// A tool that defers every call to the job `job-1`.
fn render() -> ScriptedTool {
    ScriptedTool::new("render", |_, _| async { Ok(ToolResult::deferred("job-1")) })
}

fn agent(replies: Vec<ScriptedReply>) -> (BasicAgent, ScriptedProvider) {
    let model = ScriptedProvider::new(replies).exhaustive();
    (BasicAgent::new(ModelConfig::default()).with_provider(model.clone()).with_tool(render()), model)
}

fn call() -> ScriptedReply {
    ScriptedReply::call("c1", "render", json!({}))
}

fn rejected(agent: &AgentHandle, id: &str) -> HistoryError {
    match agent.complete(id, ToolResult::text("late")) {
        Err(AgentError::Message(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// The texts of the user messages and the results that a request has.
fn texts(messages: &[&Message]) -> Vec<String> {
    messages.iter().filter(|m| m.role() != "assistant").map(|m| m.text()).collect()
}

const PRELIMINARY: &str =
    "This call is still running (handle `job-1`). Its result will come in a later message.";
const RESULT: &str = "Result of the call `render` (handle `job-1`):\n42 frames";

#[tokio::test]
async fn a_run_ends_while_its_call_is_deferred_and_the_next_one_gets_the_result() {
    let (agent, model) = agent(vec![call(), "I will tell you.".into(), "It has 42 frames.".into()]);
    let end = within(agent.prompt("Render it").unwrap().end()).await;
    assert!(matches!(end, RunEnd::Completed(_)));
    let open = agent.history().deferred();
    assert_eq!(
        (open[0].tool_call_id.as_str(), open[0].tool_name.as_str(), open[0].handle.as_str()),
        ("c1", "render", "job-1")
    );

    assert!(matches!(agent.continue_run(), Err(AgentError::AssistantTail)));
    agent.complete("c1", ToolResult::text("42 frames")).unwrap();
    assert_eq!(rejected(&agent, "c1"), HistoryError::AlreadyCompleted("c1".into()));
    let _ = within(agent.continue_run().unwrap().end()).await;

    let requests = model.requests();
    let last: Vec<&Message> = requests[2].messages().collect();
    assert_eq!(texts(&last), ["Render it", PRELIMINARY, RESULT]);
    assert!(agent.history().deferred().is_empty());
    assert_eq!(rejected(&agent, "c1"), HistoryError::AlreadyCompleted("c1".into()));
    assert_eq!(rejected(&agent, "c9"), HistoryError::UnknownCall("c9".into()));
    // Earlier messages stay as they were sent.
    let before: Vec<&Message> = requests[1].messages().collect();
    assert_eq!(before[..], last[..before.len()]);
}

#[tokio::test]
async fn a_call_that_has_its_result_cannot_be_completed_and_a_result_cannot_be_deferred_again() {
    let model = ScriptedProvider::new([call(), "Done.".into()]);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(model)
        .with_tool(ScriptedTool::saying("render", "42 frames"));
    run(&agent, "Render it").await;
    assert_eq!(rejected(&agent, "c1"), HistoryError::NotDeferred("c1".into()));
    let again = agent.complete("c1", ToolResult::deferred("job-2")).unwrap_err();
    assert!(matches!(again, AgentError::Message(HistoryError::DeferredAgain(_))), "{again}");
    assert!(!agent.has_queued_messages());
}

#[tokio::test]
async fn a_result_during_a_run_enters_before_the_next_model_call_and_continues_the_run() {
    let latch = Latch::new();
    let waiting = ScriptedReply::text("I wait.").and_wait(&latch);
    let (agent, model) = agent(vec![call(), waiting, "It has 42 frames.".into()]);
    let mut events = agent.prompt("Render it").unwrap();
    let mut seen = Vec::new();
    while let Some(event) = within(events.recv()).await {
        if matches!(event, AgentEvent::MessageUpdate { .. }) && seen.is_empty() {
            seen.push("completed");
            agent.complete("c1", ToolResult::text("42 frames")).unwrap();
            latch.open();
        }
    }
    assert_eq!(seen, ["completed"]);
    assert_eq!(
        asked(&model.requests()[2]),
        format!("user(Render it) assistant() result(c1) assistant(I wait.) user({RESULT})")
    );
    assert!(agent.history().deferred().is_empty());
}

/// A question is open when the work begins, and the work ends while the call that was asked about runs.
#[tokio::test]
async fn a_result_that_comes_while_an_answered_call_runs_enters_the_run() {
    let (began, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let notify = (Arc::clone(&began), Arc::clone(&ended));
    let tool = ScriptedTool::new("erase", move |_, _| {
        let (began, ended) = notify.clone();
        async move {
            began.notify_one();
            ended.notified().await;
            Ok(ToolResult::text("erased"))
        }
    });
    let calls = call().and_call("c2", "erase", json!({}));
    let (agent, model) = agent(vec![calls, "It has 42 frames.".into()]);
    let hooks = Hooks::new().before_tool(|call: ToolCallInfo| async move {
        if call.call.name.as_str() == "erase" { Verdict::Ask("Erase?".to_owned()) } else { Verdict::Allow }
    });
    let agent = agent.with_tool(tool).with_hooks(hooks);
    let _ = within(agent.prompt("Render it").unwrap().end()).await;
    let question = agent.questions()[0].clone();
    let mut events = agent.answer(question.id, Answer::Allow).unwrap();
    within(began.notified()).await;
    agent.complete("c1", ToolResult::text("42 frames")).unwrap();
    assert_eq!(rejected(&agent, "c1"), HistoryError::AlreadyCompleted("c1".into()));
    ended.notify_one();
    assert!(matches!(within(events.end()).await, RunEnd::Completed(_)));
    assert_eq!(texts(&model.requests()[1].messages().collect::<Vec<_>>()).last().unwrap(), RESULT);
    assert!(agent.history().deferred().is_empty());
}

/// The work can end before the tool that started it has returned.
#[tokio::test]
async fn a_result_that_comes_before_its_call_has_ended_gets_the_handle() {
    let slot: Arc<Mutex<Option<AgentHandle>>> = Arc::default();
    let inner = Arc::clone(&slot);
    let tool = ScriptedTool::new("render", move |_, _| {
        let agent = inner.lock().unwrap().clone().unwrap();
        async move {
            agent.complete("c1", ToolResult::text("42 frames")).unwrap();
            assert_eq!(rejected(&agent, "c1"), HistoryError::AlreadyCompleted("c1".into()));
            Ok(ToolResult::deferred("job-1"))
        }
    });
    let model = ScriptedProvider::new([call(), "It has 42 frames.".into()]).exhaustive();
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model.clone()).with_tool(tool);
    *slot.lock().unwrap() = Some(agent.handle());
    run(&agent, "Render it").await;
    assert_eq!(asked(&model.requests()[1]), format!("user(Render it) assistant() result(c1) user({RESULT})"));
    assert!(agent.history().deferred().is_empty());
    slot.lock().unwrap().take();
}

/// Steering skips calls that have not started; the result of a deferred call does not.
#[tokio::test]
async fn a_result_skips_no_call_and_clearing_the_queues_does_not_lose_it() {
    let (agent, _) = agent(vec![
        call(),
        "I wait.".into(),
        ScriptedReply::new().and_call("c2", "step", json!({})).and_call("c3", "step", json!({})),
        "Done.".into(),
    ]);
    run(&agent, "Render it").await;
    let handle = agent.handle();
    let agent = agent.with_tool(
        ScriptedTool::new("step", move |_, _| {
            let _ = handle.complete("c1", ToolResult::error("no disk"));
            handle.clear_all_queues();
            async { Ok(ToolResult::text("stepped")) }
        })
        .sequential(),
    );
    run(&agent, "Step twice").await;
    let results: Vec<String> =
        agent.messages().iter().filter(|m| m.role() == "toolResult").map(|m| m.text()).collect();
    assert_eq!(results[1..], ["stepped", "stepped"]);
    assert!(
        said(&agent).contains("user(The call `render` (handle `job-1`) failed:\nno disk)"),
        "{}",
        said(&agent)
    );
}

#[tokio::test]
async fn an_aborted_run_stores_a_result_that_it_did_not_deliver() {
    let (agent, _) = agent(vec![call(), ScriptedReply::text("I wait.").in_pieces_of(2).and_hang()]);
    let mut events = agent.prompt("Render it").unwrap();
    while let Some(event) = within(events.recv()).await {
        if matches!(event, AgentEvent::MessageUpdate { .. }) && !agent.has_queued_messages() {
            agent.complete("c1", ToolResult::text("42 frames")).unwrap();
        } else if matches!(event, AgentEvent::MessageUpdate { .. }) {
            agent.abort();
        }
    }
    within(agent.wait_for_idle()).await;
    // The driver may end the run before it reads the queue; the result then waits for the next run.
    let stored = agent.history().deferred().is_empty();
    assert!(stored || agent.has_queued_messages());
    assert_eq!(rejected(&agent, "c1"), HistoryError::AlreadyCompleted("c1".into()));
}

#[tokio::test]
async fn a_limit_ends_the_run_and_the_queued_result_is_in_the_conversation() {
    let mut limits = ExecutionLimits::unlimited();
    limits.max_turns = Some(1);
    let (agent, _) = agent(vec![call()]);
    let agent = agent.with_limits(Some(limits));
    let handle = agent.handle();
    let _subscription = agent.subscribe(move |event| {
        if matches!(event, AgentEvent::TurnEnd { .. }) {
            handle.complete("c1", ToolResult::text("42 frames")).unwrap();
        }
    });
    let events = run(&agent, "Render it").await;
    agent_core::testing::assert_well_formed(&events);
    assert!(said(&agent).ends_with(&format!("user({RESULT})")), "{}", said(&agent));
}

#[tokio::test]
async fn reset_and_restore_know_the_open_calls() {
    let (first, _) = agent(vec![call(), "I wait.".into()]);
    run(&first, "Render it").await;
    first.complete("c1", ToolResult::text("42 frames")).unwrap();
    let json = serde_json::to_string(&first.snapshot()).unwrap();

    let (second, model) = agent(vec!["It has 42 frames.".into()]);
    let second = second.restore(serde_json::from_str(&json).unwrap()).unwrap();
    assert_eq!(rejected(&second, "c1"), HistoryError::AlreadyCompleted("c1".into()));
    let _ = within(second.continue_run().unwrap().end()).await;
    assert!(asked(&model.requests()[0]).ends_with(&format!("user({RESULT})")));

    first.reset().await;
    assert!(!first.has_queued_messages());
    assert_eq!(rejected(&first, "c1"), HistoryError::UnknownCall("c1".into()));
}

/// A second agent with the same conversation completes the call by itself.
#[tokio::test]
async fn a_copy_from_before_the_result_can_be_completed_independently() {
    let (first, _) = agent(vec![call(), "I wait.".into(), "It has 42 frames.".into()]);
    run(&first, "Render it").await;
    let before = first.snapshot();
    first.complete("c1", ToolResult::text("42 frames")).unwrap();
    let _ = within(first.continue_run().unwrap().end()).await;
    let (second, model) = agent(vec!["It failed.".into()]);
    let second = second.restore(before).unwrap();
    assert_eq!(second.history().deferred().len(), 1);
    second.complete("c1", ToolResult::error("no disk")).unwrap();
    let _ = within(second.continue_run().unwrap().end()).await;
    assert!(asked(&model.requests()[0]).contains("failed:\nno disk"));
    assert!(second.history().deferred().is_empty());
}

/// The step function alone: the input is journaled like every other, and a result that does not fit is rejected.
#[test]
fn the_run_rejects_a_result_of_a_call_that_does_not_wait() {
    let mut history = History::new();
    history.push(AgentMessage::user("Hi")).unwrap();
    let mut events = Vec::new();
    let mut run =
        Run::start(RunSetup::new("s.a.1"), history, Vec::new(), agent_core::Timestamp(1), &mut events)
            .unwrap();
    let call = agent_core::DeferredCall::new("c1", "render", "job-1");
    let message = Message::User(call.completed(vec![Content::text("42")], false, serde_json::Value::Null));
    let queued = agent_core::run::Queued::new(agent_core::QueueKind::Steering, AgentMessage::from(message));
    let rejected = run.apply(agent_core::Timestamp(2), Input::Queue { queued }, &mut events).unwrap_err();
    assert!(rejected.reason.contains("has no call \"c1\""), "{rejected}");
}
