//! Hooks and tools that ask a person.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentError, AgentEvent, Answer, BasicAgent, Hooks, RunEnd, StopCause, ToolExecutionStrategy, ToolResult,
    Verdict,
};
use serde_json::json;

use crate::room::{agent, boxed, model, result, run, said};

fn asked(model: &ScriptedProvider) -> (BasicAgent, ScriptedTool) {
    let tool = ScriptedTool::new("t", |args, _| async move { Ok(ToolResult::text(args.to_string())) });
    let hooks = Hooks::new().before_tool(|call| async move {
        if call.call.id == *"a" { Verdict::Ask("May it?".into()) } else { Verdict::Allow }
    });
    (agent(model).with_tools(boxed([tool.clone()])).with_hooks(hooks), tool)
}

fn two_calls() -> ScriptedReply {
    ScriptedReply::call("a", "t", json!({"n": 1})).and_call("b", "t", json!({"n": 2}))
}

/// A question does not hold up the calls that need no answer, and the run goes on under the same loop when it comes.
#[tokio::test]
async fn a_question_suspends_the_run_after_the_other_calls_and_an_answer_goes_on() {
    let model = model([two_calls(), "done".into()]);
    let (agent, tool) = asked(&model);
    let mut events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() asked(a) tool+(b) tool-(b) suspended"
    );
    assert_eq!(tool.calls(), [json!({"n": 2})]);
    let Some(RunEnd::Suspended(questions)) = agent.finish().await else { panic!() };
    assert_eq!((questions[0].text.as_str(), agent.is_suspended()), ("May it?", true));
    assert!(matches!(agent.prompt("now?"), Err(AgentError::Suspended { .. })));
    assert!(matches!(agent.answer("nobody", Answer::Allow), Err(AgentError::Answer(_))));
    events.extend(agent.answer("a", Answer::AllowWith(json!({"n": 10}))).unwrap().collect().await);
    assert_well_formed(&events);
    assert!(transcript(&events).ends_with(
        "suspended answered(a) tool+(a) tool-(a) result(a) result(b) turn_end turn_start assistant(done) turn_end \
         agent_end(completed)"
    ));
    assert_eq!(tool.calls(), [json!({"n": 2}), json!({"n": 10})]);
}

/// A denial is told to the model like any other.
#[tokio::test]
async fn a_denied_question_is_an_error_result() {
    let model = model([ScriptedReply::call("a", "t", json!({})), "done".into()]);
    let (agent, tool) = asked(&model);
    run(&agent).await;
    let events = agent.answer("a", Answer::Deny { reason: "rather not".into() }).unwrap().collect().await;
    assert_eq!(said(&result(&events)), "rather not");
    assert!(tool.calls().is_empty());
}

/// A tool may ask by itself; the hook is asked first and may say no.
#[tokio::test]
async fn a_tool_that_asks_is_asked_about_unless_a_hook_denied_it() {
    let tool = || ScriptedTool::saying("t", "ok").asking("Delete it?");
    let asking = model([ScriptedReply::call("a", "t", json!({}))]);
    let agent_asking = agent(&asking).with_tools(boxed([tool()]));
    assert!(transcript(&run(&agent_asking).await).ends_with("asked(a) suspended"));
    let denied = model([ScriptedReply::call("a", "t", json!({})), "done".into()]);
    let hooks = Hooks::new().before_tool(|_| async { false });
    let agent_denied = agent(&denied).with_tools(boxed([tool()])).with_hooks(hooks);
    assert!(transcript(&run(&agent_denied).await).ends_with("agent_end(completed)"));
}

/// One after the other, the calls behind an open question that need no answer run, too.
#[tokio::test]
async fn calls_behind_a_question_run_before_the_run_waits() {
    let model = model([two_calls(), "done".into()]);
    let (agent, tool) = asked(&model);
    let agent = agent.with_tool_execution(ToolExecutionStrategy::Sequential);
    run(&agent).await;
    assert_eq!(tool.calls(), [json!({"n": 2})]);
}

/// Every stream ends with a word, also one of a run that goes on waiting.
#[tokio::test]
async fn a_resume_that_finds_the_question_still_open_says_that_it_is_suspended() {
    let model = model([two_calls()]);
    let (agent, _) = asked(&model);
    run(&agent).await;
    let events = agent.resume().unwrap().collect().await;
    assert_eq!(transcript(&events), "suspended");
    assert!(matches!(&events[0], AgentEvent::RunSuspended { questions, .. } if questions.len() == 1));
}

/// Two questions are answered one after the other.
#[tokio::test]
async fn a_run_waits_until_its_last_question_is_answered() {
    let model = model([two_calls(), "done".into()]);
    let tool = ScriptedTool::saying("t", "ok").asking("May it?");
    let agent = agent(&model).with_tools(boxed([tool]));
    let mut events = run(&agent).await;
    events.extend(agent.answer("b", Answer::Allow).unwrap().collect().await);
    assert_well_formed(&events);
    assert_eq!(agent.questions().len(), 1);
    events.extend(agent.answer("a", Answer::Allow).unwrap().collect().await);
    assert_well_formed(&events);
    assert!(transcript(&events).ends_with("agent_end(completed)"));
}

/// A gate may ask, too.
#[tokio::test]
async fn a_loop_and_a_turn_may_be_asked_about() {
    let hooks = Hooks::new()
        .before_loop(|_| async { Verdict::Ask("Begin?".into()) })
        .before_turn(|_| async { Verdict::Ask("A turn?".into()) });
    let model = model(["hello".into()]);
    let agent = agent(&model).with_hooks(hooks);
    let mut events = run(&agent).await;
    assert_eq!(transcript(&events), "asked(loop) suspended");
    assert!(matches!(agent.answer("loop", Answer::AllowWith(json!(1))), Err(AgentError::Answer(_))));
    events.extend(agent.answer("loop", Answer::Allow).unwrap().collect().await);
    assert_well_formed(&events);
    let events = agent.answer("turn-0", Answer::Deny { reason: "late".into() }).unwrap().collect().await;
    assert_eq!(transcript(&events), "answered(turn-0) user agent_end(turn_vetoed)");
    assert!(matches!(agent.finish().await, Some(RunEnd::Stopped(StopCause::Hook { .. }))));
}
