//! Single runs with the driver of the page.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::driver::{BlockingDriver, block_on};
use agent_core::drive::Performer;
use agent_core::drive::perform::Decision;
use agent_core::run::{Input, Step};
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentTool, Answer, Ended, History, ModelConfig, ToolResult,
};
use serde_json::json;

const PAGE: &str = include_str!("../../../../docs/guides/own-driver.md");

/// The page shows the driver that is tested here, and it has at most 120 lines.
#[test]
fn the_page_contains_the_driver() {
    let driver = include_str!("driver.rs");
    assert!(PAGE.contains(driver.trim_end()), "docs/guides/own-driver.md differs from driver.rs");
    assert!(driver.lines().count() <= 120, "{} lines", driver.lines().count());
    assert!(!driver.contains("tokio"));
}

fn config(model: ScriptedProvider) -> AgentLoopConfig {
    let environment = crate::world::Inline::new(ManualEnvironment::skipping(1_000));
    AgentLoopConfig::new(Arc::new(model), ModelConfig::default(), Arc::new(environment))
}

fn context(tools: Vec<Arc<dyn AgentTool>>) -> AgentContext {
    let mut context = AgentContext::new("Be brief.").with_tools(tools);
    context.agent_id = Some("agent".into());
    context.session_id = Some("session".into());
    context.loop_id = Some("session.demo.1".into());
    context
}

fn start(
    config: AgentLoopConfig,
    context: &AgentContext,
) -> (Performer, agent_core::run::Run, Vec<AgentEvent>) {
    let mut performer = Performer::for_context(context, config);
    let setup = performer.setup("agent".into(), "session".into(), "session.demo.1".into());
    let mut events = Vec::new();
    let run = performer.start(setup, History::new(), vec!["go".into()], &mut events).unwrap();
    (performer, run, events)
}

/// The driver runs a tool and waits for real time without an async runtime on the machine.
#[test]
fn a_tool_round_runs_without_a_runtime() {
    assert!(tokio::runtime::Handle::try_current().is_err());
    let model = ScriptedProvider::new([
        ScriptedReply::call("c1", "clock", json!({})),
        ScriptedReply::text("It is noon."),
    ]);
    let config = config(model);
    let clock = ScriptedTool::saying("clock", "12:00");
    let (performer, run, first) = start(config, &context(vec![Arc::new(clock)]));
    let (recorded, heard) = (Mutex::new(Vec::new()), Mutex::new(first));
    let mut driver = BlockingDriver {
        performer,
        run,
        record: |_: &mut _, applied| recorded.lock().unwrap().push(applied),
        deliver: |event: &AgentEvent| heard.lock().unwrap().push(event.clone()),
    };
    driver.drive().unwrap();
    assert_eq!(driver.run.ended(), Some(&Ended::Completed));
    assert_eq!(driver.run.history().len(), 4);
    let names: Vec<&str> = recorded.lock().unwrap().iter().map(|applied| applied.input.name()).collect();
    let expected = [
        "reply_started",
        "model_replied",
        "tool_began",
        "tool_ended",
        "queues_read",
        "reply_started",
        "model_replied",
        "queues_read",
    ];
    assert_eq!(names, expected);
    agent_core::testing::assert_well_formed(&heard.lock().unwrap());
}

/// `RunSuspended` is emitted once for each suspension, by `apply`; the answer resumes the run.
#[test]
fn a_suspended_run_emits_one_suspension() {
    let model =
        ScriptedProvider::new([ScriptedReply::call("c1", "send", json!({})), ScriptedReply::text("Sent.")]);
    let config = config(model);
    let send = ScriptedTool::saying("send", "sent").asking("Send it?");
    let (performer, run, first) = start(config, &context(vec![Arc::new(send)]));
    let heard = Mutex::new(first);
    let mut driver = BlockingDriver {
        performer,
        run,
        record: |_: &mut _, _| {},
        deliver: |event: &AgentEvent| heard.lock().unwrap().push(event.clone()),
    };
    driver.drive().unwrap();
    let question_id = driver.run.questions()[0].id.clone();
    let suspended = |events: &[AgentEvent]| {
        events.iter().filter(|e| matches!(e, AgentEvent::RunSuspended { .. })).count()
    };
    assert_eq!(suspended(&heard.lock().unwrap()), 1);
    driver.apply(Input::Answer { question_id, answer: Answer::Allow }).unwrap();
    driver.drive().unwrap();
    assert_eq!(suspended(&heard.lock().unwrap()), 1);
    assert_eq!(driver.run.ended(), Some(&Ended::Completed));
}

/// Cancelling the step's token ends a hanging model call and the run with its limit; cancelling the caller's token
/// aborts it.
#[test]
fn the_step_token_ends_a_run_with_its_limit() {
    for caller in [false, true] {
        let config = config(ScriptedProvider::new([ScriptedReply::new().and_hang()]));
        let (mut performer, run, _) = start(config, &context(Vec::new()));
        let token = tokio_util::sync::CancellationToken::new();
        performer = performer.with_cancel(token.clone());
        let step = if caller { token } else { performer.step_token().clone() };
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            step.cancel();
        });
        let mut driver =
            BlockingDriver { performer, run, record: |_: &mut _, _| {}, deliver: |_: &AgentEvent| {} };
        driver.drive().unwrap();
        match driver.run.ended() {
            Some(Ended::Aborted) if caller => {}
            Some(Ended::Limit { .. }) if !caller => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A text that a tool reports is delivered while the call runs.
#[test]
fn updates_of_tools_are_delivered() {
    let model =
        ScriptedProvider::new([ScriptedReply::call("c1", "slow", json!({})), ScriptedReply::text("ok")]);
    let config = config(model);
    let slow = ScriptedTool::new("slow", |_, ctx| async move {
        ctx.on_progress("half");
        Ok(ToolResult::text("whole"))
    });
    let (performer, run, _) = start(config, &context(vec![Arc::new(slow)]));
    let heard = Mutex::new(Vec::new());
    let mut driver = BlockingDriver {
        performer,
        run,
        record: |_: &mut _, _| {},
        deliver: |event: &AgentEvent| heard.lock().unwrap().push(event.clone()),
    };
    driver.drive().unwrap();
    assert!(
        heard
            .lock()
            .unwrap()
            .iter()
            .any(|e| matches!(e, AgentEvent::ProgressMessage { text, .. } if text == "half"))
    );
}

/// An engine that stores each step executes one call at a time.
#[test]
fn a_call_is_executed_alone() {
    let model =
        ScriptedProvider::new([ScriptedReply::call("c1", "slow", json!({})), ScriptedReply::text("ok")]);
    let config = config(model);
    let slow = ScriptedTool::saying("slow", "whole");
    let (mut performer, mut run, mut events) = start(config, &context(vec![Arc::new(slow.clone())]));
    let mut apply = |performer: &mut Performer, run: &mut agent_core::run::Run, input| {
        let applied = performer.stamp(input);
        performer.apply(run, applied, &mut events).unwrap();
    };
    let call = performer.model(&run).unwrap();
    assert_eq!(call.partial(), agent_core::run::PartialReply::default());
    for input in block_on(call.perform(|_| {})) {
        apply(&mut performer, &mut run, input);
    }
    let Step::RunTools { calls, .. } = run.next() else { panic!("{:?}", run.next()) };
    let Some(Decision::Execute(began, ready)) = block_on(performer.decide(&run, &calls[0])) else { panic!() };
    assert_eq!(ready.id().as_str(), "c1");
    assert!(slow.calls().is_empty(), "nothing ran before its start is recorded");
    apply(&mut performer, &mut run, began);
    let ended = block_on(performer.call(*ready));
    assert!(matches!(&ended, Input::ToolEnded { outcome, .. } if outcome.tokens.is_some()));
    apply(&mut performer, &mut run, ended);
    assert_eq!((slow.calls().len(), run.history().len()), (1, 3));
    assert!(performer.model(&run).is_none() && block_on(performer.perform(&run)) == Some(Input::QueuesRead));
}
