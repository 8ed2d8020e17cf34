//! A run that was cut is taken up by a new shell (X6).

use std::sync::{Arc, Mutex};

use agent_core::drive::{Outcome, drive};
use agent_core::run::{Input, Run, ToolOutcome, ToolVerdict};
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool, transcript};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, Answer, CancellationToken, Content, Effects, Ended, ErrorKind,
    Hooks, Message, ModelConfig, QueueKind, StepKey, Timestamp, ToolChange, ToolResult, event_channel,
};
use serde_json::json;

use crate::keeping::{Keeping, Kept};
use crate::room::{agent, boxed, run};

type Keys = Arc<Mutex<Vec<StepKey>>>;

/// A tool that notes the key of each execution.
fn keyed(effects: Effects) -> (ScriptedTool, Keys) {
    let keys = Keys::default();
    let note = Arc::clone(&keys);
    let tool = ScriptedTool::new("t", move |args, ctx| {
        note.lock().unwrap().push(ctx.step_key.clone());
        async move { Ok(ToolResult::text(format!("ran {args}"))) }
    });
    (tool.with_effects(effects), keys)
}

/// The journal of a whole run: two calls, then an answer.
async fn recorded(tool: ScriptedTool, hooks: Hooks) -> Keeping {
    let journal = Keeping::default();
    let model = ScriptedProvider::new([
        ScriptedReply::error(ErrorKind::Network, "gone"),
        ScriptedReply::text("let me see").and_call("a", "t", json!({"n": 1})).and_call(
            "b",
            "t",
            json!({"n": 2}),
        ),
        "done".into(),
    ]);
    let agent =
        agent(&model).with_tools(boxed([tool])).with_hooks(hooks).with_journal(Arc::new(journal.clone()));
    // Where somebody listens, each input is an entry of its own.
    agent.subscribe(|_| {});
    run(&agent).await;
    journal
}

struct Driven {
    run: Box<Run>,
    events: Vec<AgentEvent>,
    model: ScriptedProvider,
}

/// Drives a run on with a shell that knows nothing of it but its JSON.
async fn taken_up(run: Run, tool: ScriptedTool, hooks: Hooks) -> Driven {
    let model = ScriptedProvider::responding(|_| "done".into());
    let mut config = AgentLoopConfig::new(
        Arc::new(model.clone()),
        ModelConfig::default(),
        Arc::new(ManualEnvironment::skipping(50_000)),
    );
    *config.hooks = hooks;
    let context = AgentContext::new("").with_tools(boxed([tool]));
    let (tx, rx) = event_channel();
    let outcome = drive(run, &context, &config, tx, CancellationToken::new()).await.unwrap();
    let run = match outcome {
        Outcome::Ended(run) if run.ended().is_some() => run,
        Outcome::Suspended(run) if run.is_suspended() => run,
        other => panic!("{other:?}"),
    };
    Driven { run, events: rx.collect().await, model }
}

fn calls_ran(keys: &Keys) -> Vec<String> {
    keys.lock().unwrap().iter().map(ToString::to_string).collect()
}

/// A call that must not run twice is asked about, and runs again only when somebody says so.
#[tokio::test]
async fn a_call_that_had_begun_and_must_not_run_twice_is_asked_about() {
    let (tool, keys) = keyed(Effects::Once);
    let journal = recorded(tool.clone(), Hooks::new()).await;
    let first_keys = calls_ran(&keys);
    keys.lock().unwrap().clear();
    let cut = journal.first("tool_began").run();
    let driven = taken_up(cut, tool.clone(), Hooks::new()).await;
    assert_eq!(
        transcript(&driven.events),
        "asked(a) tool+(b) tool-(b) suspended",
        "the call that had not begun runs, the other one is asked about"
    );
    assert_eq!(calls_ran(&keys), ["tool-0-b"]);
    assert!(driven.model.requests().is_empty());

    let mut run = driven.run;
    let answer = Input::Answer { question_id: "a".into(), answer: Answer::Allow };
    run.apply(Timestamp(60_000), answer, &mut Vec::new()).unwrap();
    let driven = taken_up(*run, tool, Hooks::new()).await;
    assert_eq!(calls_ran(&keys), ["tool-0-b", "tool-0-a"]);
    let mut same = first_keys.clone();
    same.sort();
    assert_eq!(same, ["tool-0-a", "tool-0-b"], "the key of a call is the same after the cut");
    assert!(transcript(&driven.events).ends_with("agent_end(completed)"));
    assert_eq!(driven.run.ended(), Some(&Ended::Completed));
}

/// The arguments that a hook set are also those of the repetition that the user allows, and the question shows them.
#[tokio::test]
async fn a_call_that_is_allowed_to_run_again_has_the_arguments_of_the_hook() {
    let (tool, _) = keyed(Effects::Once);
    let hooks = || Hooks::new().before_tool(|_| async { agent_core::Verdict::AllowWith(json!({"n": 10})) });
    let journal = recorded(tool.clone(), hooks()).await;
    let mut run = taken_up(journal.first("tool_began").run(), tool.clone(), hooks()).await.run;
    let question = run.questions().into_iter().next().unwrap();
    assert_eq!(question.approval().unwrap().arguments, json!({"n": 10}));
    let answer = Input::Answer { question_id: question.id, answer: Answer::Allow };
    run.apply(Timestamp(60_000), answer, &mut Vec::new()).unwrap();
    let driven = taken_up(*run, tool, hooks()).await;
    let shown: Vec<String> = driven.run.history().llm_messages().map(Message::text).collect();
    assert_eq!(shown.iter().filter(|text| *text == r#"ran {"n":10}"#).count(), 2, "{shown:?}");
}

/// A denial closes the call, and the model is told.
#[tokio::test]
async fn a_call_that_is_not_to_run_again_is_answered_with_the_reason() {
    let (tool, keys) = keyed(Effects::Once);
    let journal = recorded(tool.clone(), Hooks::new()).await;
    keys.lock().unwrap().clear();
    let mut run = taken_up(journal.first("tool_began").run(), tool.clone(), Hooks::new()).await.run;
    let answer = Answer::Deny { reason: "it was sent".into() };
    run.apply(Timestamp(60_000), Input::Answer { question_id: "a".into(), answer }, &mut Vec::new()).unwrap();
    let driven = taken_up(*run, tool, Hooks::new()).await;
    assert_eq!(calls_ran(&keys), ["tool-0-b"]);
    let shown: Vec<String> = driven.model.requests()[0]
        .messages()
        .filter(|m| m.as_tool_result().is_some())
        .map(Message::text)
        .collect();
    assert_eq!(shown, ["it was sent", r#"ran {"n":2}"#]);
}

/// A call that may run again does, with the arguments that it had begun with, and no hook is asked again.
#[tokio::test]
async fn a_call_that_may_run_again_does_with_the_same_arguments_and_key() {
    for effects in [Effects::ReadOnly, Effects::Idempotent] {
        let (tool, keys) = keyed(effects);
        let hooks =
            || Hooks::new().before_tool(|_| async { agent_core::Verdict::AllowWith(json!({"n": 10})) });
        let journal = recorded(tool.clone(), hooks()).await;
        keys.lock().unwrap().clear();
        let asked = crate::room::Notes::default();
        let note = asked.clone();
        let hooks = Hooks::new().before_tool(move |call| {
            note.add(call.call.id.as_str());
            async { true }
        });
        let driven = taken_up(journal.first("tool_began").run(), tool, hooks).await;
        assert_eq!(calls_ran(&keys), ["tool-0-a", "tool-0-b"]);
        assert_eq!(asked.all(), ["b"]);
        let shown: Vec<String> = driven.run.history().llm_messages().map(Message::text).collect();
        assert!(shown.contains(&r#"ran {"n":10}"#.to_owned()), "{shown:?}");
        let starts =
            driven.events.iter().filter(|e| matches!(e, AgentEvent::ToolExecutionStart { .. })).count();
        assert_eq!(starts, 1, "the start of the first call was said before the cut");
    }
}

/// A run that was cut while a reply arrived asks the model again, and its log has one message of it.
#[tokio::test]
async fn a_run_that_was_cut_inside_a_reply_calls_the_model_again() {
    let (tool, _) = keyed(Effects::ReadOnly);
    let journal = recorded(tool.clone(), Hooks::new()).await;
    let kept = journal.kept();
    let mut log: Vec<AgentEvent> = kept[0].events.clone();
    let mut cut = kept[0].run();
    cut.apply(Timestamp(2_000), Input::ReplyStarted, &mut log).unwrap();
    let driven = taken_up(cut, tool, Hooks::new()).await;
    log.extend(driven.events);
    agent_core::testing::assert_well_formed(&log);
    assert!(
        transcript(&log).ends_with("assistant(done) turn_end agent_end(completed)"),
        "{}",
        transcript(&log)
    );
}

/// A result that the hook had not seen is shown to it, and the tool does not run again.
#[tokio::test]
async fn a_result_that_was_not_reviewed_is_reviewed_and_the_tool_does_not_run_again() {
    let (tool, keys) = keyed(Effects::Once);
    let review = || {
        Hooks::new().after_tool(|ended| async move {
            ToolChange::content(vec![Content::text(format!("reviewed {}", ended.call.id))])
        })
    };
    let journal = recorded(tool.clone(), review()).await;
    let kept: Vec<Kept> = journal.kept();
    // The last end of the two: both calls have run, one of them is not reviewed.
    let at = kept.iter().rposition(|k| k.input_names() == "tool_ended").unwrap();
    keys.lock().unwrap().clear();
    let driven = taken_up(kept[at].run(), tool, review()).await;
    assert!(calls_ran(&keys).is_empty());
    let shown: Vec<String> = driven.run.history().llm_messages().map(Message::text).collect();
    assert!(
        shown.contains(&"reviewed a".to_owned()) && shown.contains(&"reviewed b".to_owned()),
        "{shown:?}"
    );
}

/// A run that was being aborted when it was cut is aborted: no call begins again.
#[tokio::test]
async fn a_run_that_was_cut_while_it_was_being_aborted_ends_aborted() {
    let (tool, keys) = keyed(Effects::ReadOnly);
    let journal = recorded(tool.clone(), Hooks::new()).await;
    keys.lock().unwrap().clear();
    let mut cut = journal.first("tool_began").run();
    cut.apply(Timestamp(2_000), Input::abort(None), &mut Vec::new()).unwrap();
    assert_eq!(cut.ended(), None, "a call that began is given its time");
    for verdict in [ToolVerdict::Allow, ToolVerdict::AllowWith(json!({})), ToolVerdict::Ask("May it?".into())]
    {
        let input = Input::ToolBegan { id: "a".into(), verdict };
        cut.clone().apply(Timestamp(2_001), input, &mut Vec::new()).unwrap_err();
    }
    let driven = taken_up(cut, tool, Hooks::new()).await;
    assert_eq!(driven.run.ended(), Some(&Ended::Aborted));
    assert!(calls_ran(&keys).is_empty());
    assert!(driven.model.requests().is_empty());
}

/// Whatever the last entry that was written, the run can be taken up and ends well, with every call answered once.
#[tokio::test]
async fn a_run_can_be_taken_up_after_every_entry() {
    let (tool, _) = keyed(Effects::ReadOnly);
    let journal = recorded(tool.clone(), Hooks::new()).await;
    let kept = journal.kept();
    assert_eq!(kept.len(), 11);
    for at in 0..kept.len() {
        let driven = taken_up(kept[at].run(), tool.clone(), Hooks::new()).await;
        assert_eq!(driven.run.ended(), Some(&Ended::Completed), "after {:?}", kept[at]);
        let mut log: Vec<AgentEvent> = kept[..=at].iter().flat_map(|k| k.events.clone()).collect();
        log.extend(driven.events);
        agent_core::testing::assert_well_formed(&log);
    }
}

/// Arguments of null are arguments; a checkpoint keeps them apart from none.
#[test]
fn a_checkpoint_keeps_null_apart_from_nothing() {
    let mut message = agent_core::AssistantMessage::new("p", "m", agent_core::StopReason::ToolUse);
    message.content.push(Content::tool_call("a", "t", json!({"n": 1})));
    let mut setup = agent_core::run::RunSetup::new("s.demo.1");
    setup.gates.after_tool = true;
    let mut events = Vec::new();
    let mut run =
        Run::start(setup, agent_core::History::new(), vec!["go".into()], Timestamp(1), &mut events).unwrap();
    let reply = agent_core::run::Reply::new(message).unwrap();
    let apply = |run: &mut Run, input| {
        run.apply(Timestamp(2), input, &mut Vec::new()).unwrap();
        let read: Run = serde_json::from_str(&serde_json::to_string(run).unwrap()).unwrap();
        assert_eq!(read, *run);
    };
    apply(&mut run, Input::ModelReplied { reply });
    apply(&mut run, Input::ToolBegan { id: "a".into(), verdict: ToolVerdict::AllowWith(json!(null)) });
    let outcome = ToolOutcome::new(ToolResult::text("ok").with_details(json!({"old": 1})), None);
    apply(&mut run, Input::ToolEnded { id: "a".into(), outcome: Box::new(outcome) });
    let change = ToolChange::none().with_details(json!(null));
    let text = serde_json::to_string(&change).unwrap();
    assert_eq!(serde_json::from_str::<ToolChange>(&text).unwrap(), change);
    apply(&mut run, Input::ToolReviewed { id: "a".into(), change: Box::new(change) });
    let result = run.history().llm_messages().find_map(Message::as_tool_result).unwrap();
    assert!(result.details.is_null());
    assert_eq!(run.queued(QueueKind::Steering).count(), 0);
}
