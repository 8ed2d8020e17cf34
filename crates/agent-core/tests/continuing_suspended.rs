//! A run that waits for a person: asked, stored, answered, steered, aborted.
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

use agent_core::hooks::{Hooks, Verdict};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, transcript};
use agent_core::{
    AgentContext, AgentError, AgentEvent, AgentLoopConfig, AgentSnapshot, Answer, BasicAgent,
    CancellationToken, LoopError, Message, ModelConfig, QueueKind, RunEnd, SteeringPolicy,
    ToolExecutionStrategy, agent_loop, agent_loop_answer, event_channel,
};
use serde_json::json;

use runs::{agent, asked, kinds, run, said, within};

fn two_calls() -> ScriptedReply {
    ScriptedReply::new().and_call("c1", "rm", json!({"path": "/"})).and_call("c2", "ls", json!({}))
}

fn ask_about_rm() -> Hooks {
    Hooks::new().before_tool(|call| async move {
        if call.call.name == "rm" { Verdict::Ask("Really?".into()) } else { Verdict::Allow }
    })
}

/// An agent that waits for an answer about `c1`, and all it has said.
async fn waiting() -> (BasicAgent, ScriptedProvider, ScriptedTool, Vec<AgentEvent>) {
    let (agent, model) = agent([two_calls(), "ok".into()]);
    let rm = ScriptedTool::saying("rm", "gone");
    let agent =
        agent.with_tool(rm.clone()).with_tool(ScriptedTool::saying("ls", "a b")).with_hooks(ask_about_rm());
    let events = run(&agent, "Clean up.").await;
    (agent, model, rm, events)
}

fn results(agent: &BasicAgent) -> String {
    let messages = agent.messages();
    let results = messages.iter().filter_map(|m| m.as_llm()).filter(|m| m.as_tool_result().is_some());
    results.map(Message::text).collect::<Vec<_>>().join(" | ")
}

#[tokio::test]
async fn a_question_lets_the_other_calls_run_first_and_then_the_run_waits_as_data() {
    let (agent, model, rm, events) = waiting().await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() asked(c1) tool+(c2) tool-(c2) suspended"
    );
    assert!(rm.calls().is_empty());
    assert_eq!(model.requests().len(), 1);
    assert!(agent.is_suspended() && !agent.is_streaming());
    let questions = agent.questions();
    assert_eq!((questions.len(), questions[0].text.as_str()), (1, "Really?"));
    assert_eq!(questions[0].call.as_ref().map(|c| c.name.as_str()), Some("rm"));
    assert_eq!(within(agent.finish()).await, Some(RunEnd::Suspended(questions)));
    assert!(
        matches!(agent.prompt("Hello?"), Err(AgentError::Suspended { questions }) if questions.len() == 1)
    );
    assert!(matches!(agent.continue_run(), Err(AgentError::Suspended { .. })));
    assert!(matches!(agent.clear_messages(), Err(AgentError::Suspended { .. })));
    assert!(matches!(agent.chat("x").await, Err(AgentError::Suspended { .. })));
    assert_eq!(said(&agent), "user(Clean up.) assistant()");
}

/// B-006, B-016, B-007.
#[tokio::test]
async fn each_answer_goes_on_with_the_same_run_which_has_one_end_over_its_life() {
    let table = [
        (Answer::Allow, vec![json!({"path": "/"})], "gone | a b"),
        (Answer::AllowWith(json!({"path": "/tmp"})), vec![json!({"path": "/tmp"})], "gone | a b"),
        (Answer::Deny { reason: "Not that.".into() }, vec![], "Not that. | a b"),
    ];
    for (answer, ran, results_are) in table {
        let (agent, model, rm, before) = waiting().await;
        let events = within(agent.answer("c1", answer.clone()).unwrap().collect()).await;
        let text = transcript(&events);
        let (mark, denied) = if ran.is_empty() { ("!", true) } else { ("", false) };
        assert_eq!(
            text,
            format!(
                "answered(c1) tool+(c1) tool-{mark}(c1) result{mark}(c1) result(c2) turn_end \
                 turn_start assistant(ok) turn_end agent_end(completed)"
            )
        );
        assert_eq!(rm.calls(), ran, "{answer:?} denied: {denied}");
        assert_eq!(results(&agent), results_are);
        let all: Vec<AgentEvent> = before.into_iter().chain(events).collect();
        let count = |kind: &str| kinds(&all).iter().filter(|k| *k == kind).count();
        assert_eq!(
            ["agent_start", "agent_end", "turn_start", "turn_end"].map(count),
            [1, 1, 2, 2],
            "over its whole life"
        );
        assert!(all.windows(2).all(|w| w[0].loop_id() == w[1].loop_id()), "one loop");
        let Some(AgentEvent::AgentEnd(end)) = all.last() else { panic!("no end") };
        assert_eq!(
            runs::shown_refs(end.messages.in_memory()),
            "user(Clean up.) assistant() result(c1) result(c2) assistant(ok)"
        );
        assert_eq!(model.requests().len(), 2);
        assert!(!agent.is_suspended() && agent.questions().is_empty());
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused_and_the_run_goes_on_waiting() {
    let (agent, _, _, _) = waiting().await;
    assert!(matches!(agent.answer("c9", Answer::Allow), Err(AgentError::Answer(_))));
    assert!(agent.is_suspended());
    within(agent.answer("c1", Answer::Allow).unwrap().collect()).await;
    assert!(matches!(agent.answer("c1", Answer::Allow), Err(AgentError::NotSuspended)));
    assert!(matches!(agent.resume(), Err(AgentError::NotSuspended)));
}

#[tokio::test]
async fn a_tool_may_ask_by_itself_and_each_question_is_answered_alone() {
    let reply = ScriptedReply::new().and_call("c1", "pay", json!({})).and_call("c2", "pay", json!({}));
    for strategy in [ToolExecutionStrategy::Sequential, ToolExecutionStrategy::Parallel] {
        let (agent, _) = agent([reply.clone(), "ok".into()]);
        let pay = ScriptedTool::saying("pay", "paid").asking("Pay?");
        let agent = agent.with_tool(pay.clone()).with_tool_execution(strategy);
        let events = run(&agent, "Pay.").await;
        assert_eq!(
            transcript(&events),
            "agent_start turn_start user assistant() asked(c1) asked(c2) suspended",
            "{strategy:?}"
        );
        let events = within(agent.answer("c2", Answer::Allow).unwrap().collect()).await;
        assert_eq!(transcript(&events), "answered(c2) tool+(c2) tool-(c2) suspended");
        assert_eq!(agent.questions().len(), 1);
        let events = within(agent.answer("c1", Answer::Allow).unwrap().collect()).await;
        assert!(
            transcript(&events)
                .starts_with("answered(c1) tool+(c1) tool-(c1) result(c1) result(c2) turn_end")
        );
        assert_eq!(pay.calls().len(), 2);
    }
}

#[tokio::test]
async fn every_stream_of_a_run_that_still_waits_ends_with_its_questions() {
    let (agent, _, _, _) = waiting().await;
    let events = within(agent.resume().unwrap().collect()).await;
    assert_eq!(transcript(&events), "suspended");
    let Some(AgentEvent::RunSuspended { questions, .. }) = events.last() else { panic!("no end") };
    assert_eq!(questions.len(), 1);
    assert!(agent.is_suspended() && !agent.is_streaming());
}

/// B-033.
#[tokio::test]
async fn steering_closes_open_questions_where_the_policy_skips() {
    let (agent, model, rm, _) = waiting().await;
    agent.steer("Leave it.");
    let events = within(agent.resume().unwrap().collect()).await;
    assert_eq!(
        transcript(&events),
        "tool+(c1) tool-!(c1) result!(c1) result(c2) turn_end turn_start user assistant(ok) turn_end agent_end(completed)"
    );
    assert!(rm.calls().is_empty());
    assert_eq!(results(&agent), "Skipped due to queued user message. | a b");
    assert_eq!(
        asked(&model.requests()[1]),
        "user(Clean up.) assistant() result(c1) result(c2) user(Leave it.)"
    );
}

/// B-030.
#[tokio::test]
async fn after_turn_steering_leaves_questions_open_and_comes_after_the_answer() {
    let (agent, model, _, _) = waiting().await;
    let agent = agent.with_steering_policy(SteeringPolicy::AfterTurn);
    // The policy of a run is that of its start; this one began with the default.
    let snapshot = agent.checkpoint();
    assert_eq!(snapshot.suspended.unwrap().setup().policy.steering_policy, SteeringPolicy::SkipRemaining);

    let (later, second) = runs::agent([two_calls(), "ok".into()]);
    let later = later
        .with_tool(ScriptedTool::saying("rm", "gone"))
        .with_tool(ScriptedTool::saying("ls", "a b"))
        .with_hooks(ask_about_rm())
        .with_steering_policy(SteeringPolicy::AfterTurn);
    run(&later, "Clean up.").await;
    later.steer("And then?");
    assert_eq!(transcript(&within(later.resume().unwrap().collect()).await), "suspended");
    within(later.answer("c1", Answer::Allow).unwrap().collect()).await;
    assert_eq!(
        asked(&second.requests()[1]),
        "user(Clean up.) assistant() result(c1) result(c2) user(And then?)"
    );
    assert_eq!(model.requests().len(), 1);
}

/// B-061, REQ-161.
#[tokio::test]
async fn an_abort_ends_a_run_that_waits_with_all_its_closing_events() {
    let ended = Arc::new(AtomicUsize::new(0));
    let (agent, _, rm, before) = waiting().await;
    let count = Arc::clone(&ended);
    let agent = agent.configure(move |c| {
        *c.hooks = std::mem::take(&mut *c.hooks).after_loop(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
    });
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    let _listening = agent.subscribe_async(move |event| {
        hearing.lock().unwrap().push(event);
        async {}
    });
    agent.abort();
    assert_eq!(within(agent.finish()).await, Some(RunEnd::Aborted));
    assert!(!agent.is_suspended() && rm.calls().is_empty());
    assert_eq!(results(&agent), "Operation aborted | a b");
    let all: Vec<AgentEvent> = before.into_iter().chain(heard.lock().unwrap().clone()).collect();
    assert!(
        transcript(&all).ends_with("tool+(c1) tool-!(c1) result!(c1) result(c2) turn_end agent_end(aborted)")
    );
    assert_eq!(ended.load(Ordering::SeqCst), 1, "after_loop follows AgentStart");
    assert!(transcript(&run(&agent, "Again").await).ends_with("agent_end(completed)"));
}

/// B-061.
#[test]
fn an_abort_without_a_runtime_ends_a_run_that_waits_all_the_same() {
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (agent, _, _, _) = rt.block_on(waiting());
    drop(rt);
    assert!(matches!(agent.answer("c1", Answer::Allow), Err(AgentError::NoRuntime(_))));
    assert!(agent.is_suspended(), "without a runtime an answer changes nothing");
    agent.abort();
    assert!(!agent.is_suspended() && !agent.is_streaming());
    assert_eq!(results(&agent), "Operation aborted | a b");
}

#[tokio::test]
async fn a_run_that_waits_goes_on_in_another_agent_that_was_given_the_snapshot() {
    let (agent, _, _, before) = waiting().await;
    agent.steer_passively("by the way");
    let json = serde_json::to_string(&agent.checkpoint()).unwrap();
    assert!(!json.contains("Really?") || json.contains("\"version\":1"));
    let snapshot: AgentSnapshot = serde_json::from_str(&json).unwrap();
    assert_eq!(snapshot, agent.checkpoint(), "it is written and read whole");

    let (other, model) = runs::agent(["ok", "more"]);
    let rm = ScriptedTool::saying("rm", "gone elsewhere");
    let other =
        other.with_tool(rm.clone()).with_tool(ScriptedTool::saying("ls", "x")).restore(snapshot).unwrap();
    assert!(other.is_suspended());
    assert!(
        matches!(within(other.finish()).await, Some(RunEnd::Suspended(questions)) if questions.len() == 1)
    );
    assert_eq!((other.agent_id(), other.session_id()), (agent.agent_id(), agent.session_id()));
    assert_eq!(said(&other), said(&agent));
    assert_eq!(other.queued_messages(QueueKind::PassiveSteering).len(), 1);
    other.follow_up("More?");
    assert_eq!(other.queued_messages(QueueKind::FollowUp).len(), 1);

    let events = within(other.answer("c1", Answer::Allow).unwrap().collect()).await;
    assert!(transcript(&events).ends_with("agent_end(completed)"), "{}", transcript(&events));
    assert_eq!(events[0].loop_id(), before[0].loop_id(), "one loop, in whatever process");
    assert_eq!(rm.calls().len(), 1);
    assert_eq!(
        said(&other),
        "user(Clean up.) assistant() result(c1) result(c2) user(by the way) assistant(ok) user(More?) assistant(more)"
    );
    assert_eq!(model.requests().len(), 2);
    assert!(!other.has_queued_messages(), "nothing is delivered twice");
}

#[tokio::test]
async fn a_snapshot_does_not_double_what_a_run_that_waits_has_queued() {
    let (agent, model) = agent([two_calls(), "ok".into(), "more".into()]);
    let agent = agent
        .with_tool(ScriptedTool::saying("rm", "gone"))
        .with_tool(ScriptedTool::saying("ls", "a b"))
        .with_hooks(ask_about_rm());
    agent.follow_up("More?");
    run(&agent, "Clean up.").await;
    assert_eq!(agent.queued_messages(QueueKind::FollowUp).len(), 1);
    let (other, _) = runs::agent(["ok", "more"]);
    let other = other.with_tool(ScriptedTool::saying("rm", "gone")).restore(agent.checkpoint()).unwrap();
    for agent in [agent, other] {
        assert_eq!(agent.queued_messages(QueueKind::FollowUp).len(), 1);
        within(agent.answer("c1", Answer::Allow).unwrap().collect()).await;
        assert_eq!(
            said(&agent),
            "user(Clean up.) assistant() result(c1) result(c2) assistant(ok) user(More?) assistant(more)"
        );
        assert!(!agent.has_queued_messages());
    }
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn a_gate_may_ask_and_an_answer_lets_the_run_through_or_ends_it() {
    type Named = (&'static str, Hooks, &'static str, &'static str);
    let cases: [Named; 2] = [
        (
            "loop",
            Hooks::new().before_loop(|_| async { Verdict::Ask("Begin?".into()) }),
            "asked(loop) suspended",
            "answered(loop) agent_end(vetoed)",
        ),
        (
            "turn-0",
            Hooks::new().before_turn(|_| async { Verdict::Ask("Go on?".into()) }),
            "agent_start asked(turn-0) suspended",
            "answered(turn-0) user agent_end(turn_vetoed)",
        ),
    ];
    for (question, hooks, asked, denied) in cases {
        let waiting = || async {
            let (agent, model) = agent(["ok"]);
            let agent = agent.with_hooks(hooks.clone());
            let events = run(&agent, "Hi").await;
            assert_eq!(transcript(&events), asked);
            assert!(model.requests().is_empty());
            agent
        };
        let agent = waiting().await;
        assert!(agent.answer(question, Answer::AllowWith(json!({}))).is_err(), "a gate has no arguments");
        let events = within(agent.answer(question, Answer::Allow).unwrap().collect()).await;
        assert!(transcript(&events).ends_with("turn_start user assistant(ok) turn_end agent_end(completed)"));
        let agent = waiting().await;
        let deny = Answer::Deny { reason: "no".into() };
        let events = within(agent.answer(question, deny).unwrap().collect()).await;
        assert_eq!(transcript(&events), denied);
    }
}

#[tokio::test]
async fn below_the_handle_a_run_that_waits_is_left_in_the_context() {
    let model = ScriptedProvider::new([two_calls(), "ok".into()]).exhaustive();
    let mut config = AgentLoopConfig::system(Arc::new(model), ModelConfig::default());
    *config.hooks = ask_about_rm();
    let tools: Vec<Arc<dyn agent_core::AgentTool>> =
        vec![Arc::new(ScriptedTool::saying("rm", "gone")), Arc::new(ScriptedTool::saying("ls", "x"))];
    let mut context = AgentContext::new("").with_tools(tools);
    let (tx, _rx) = event_channel();
    let go = CancellationToken::new;
    let new = within(agent_loop(vec!["Go.".into()], &mut context, &config, tx.clone(), go())).await.unwrap();
    assert_eq!(runs::shown_refs(&new), "user(Go.) assistant()");
    assert!(context.suspended.as_ref().is_some_and(|run| run.is_suspended()));
    assert_eq!(context.history.len(), 1, "a reply whose calls are open is in no history");
    let again = within(agent_loop(vec!["Hi".into()], &mut context, &config, tx.clone(), go())).await;
    assert!(matches!(again, Err(LoopError::Suspended)));
    let wrong = agent_loop_answer(&mut context, &config, "c9".into(), Answer::Allow, tx.clone(), go());
    assert!(matches!(within(wrong).await, Err(LoopError::Answer(_))));
    let done = agent_loop_answer(&mut context, &config, "c1".into(), Answer::Allow, tx.clone(), go());
    assert_eq!(within(done).await.unwrap().len(), 5);
    assert!(context.suspended.is_none());
    assert_eq!(context.history.len(), 5);
    let none = agent_loop_answer(&mut context, &config, "c1".into(), Answer::Allow, tx, go());
    assert!(matches!(within(none).await, Err(LoopError::NotSuspended)));
}

/// B-061.
#[tokio::test]
async fn the_end_of_a_run_that_waited_and_was_aborted_is_written_down() {
    let journal = Arc::new(runs::Writing::default());
    let (agent, _) = agent([two_calls()]);
    let agent = agent
        .with_journal(Arc::clone(&journal) as Arc<dyn agent_core::journal::Journal>)
        .with_tool(ScriptedTool::saying("rm", "gone"))
        .with_tool(ScriptedTool::saying("ls", "a b"))
        .with_hooks(ask_about_rm());
    run(&agent, "Clean up.").await;
    assert_eq!(journal.0.lock().unwrap().last().map(String::as_str), Some("run_suspended"));
    agent.abort();
    within(agent.finish()).await;
    assert_eq!(journal.0.lock().unwrap().last().map(String::as_str), Some("agent_end"));
}

/// A process can end after it recorded a reply and before anything was decided about the calls of the reply.
#[tokio::test]
async fn an_undecided_call_of_an_unknown_tool_is_answered_when_the_run_is_resumed() {
    use agent_core::run::{Input, Reply, Run, RunSetup};
    use agent_core::{AssistantMessage, Content, History, StopReason, Timestamp};

    let mut events = Vec::new();
    let mut setup = RunSetup::new("s.demo.1");
    setup.policy.limits = None;
    let mut run = Run::start(setup, History::new(), vec!["go".into()], Timestamp(1), &mut events).unwrap();
    let mut reply = AssistantMessage::new("p", "m", StopReason::ToolUse);
    reply.content.push(Content::tool_call("c1", "no_such_tool", json!({})));
    let reply = Input::ModelReplied { reply: Reply::new(reply).unwrap() };
    run.apply(Timestamp(2), reply, &mut events).unwrap();

    let (resumed, _) = agent([ScriptedReply::text("done")]);
    let mut snapshot = resumed.snapshot();
    snapshot.suspended = Some(Box::new(run));
    let resumed = resumed.restore(snapshot).unwrap();
    let end = within(resumed.resume().unwrap().end()).await;
    assert_eq!(end.into_reply().unwrap().text(), "done");
    assert!(results(&resumed).contains("no_such_tool"), "{}", results(&resumed));
}
