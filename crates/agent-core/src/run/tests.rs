//! The step function by itself: every state can be written down, refuses what does not fit, and is reached again.

mod parts;

use serde_json::json;

use super::{
    CallStage, Failure, GateVerdict, Gates, Input, InputVerdict, Misplaced, PartialReply, QueueKind,
    QueueMode, Queued, Reply, Run, RunSetup, Step, ToolChange, ToolOutcome, ToolVerdict,
};
use crate::event::{AgentEvent, Answer, Ended};
use crate::fold::Fold;
use crate::history::{Entry, History};
use crate::identity::{Timestamp, ToolCallId};
use crate::message::{
    AgentMessage, AssistantMessage, Content, Message, StopReason, ToolResultMessage, Usage,
};
use crate::provider::ErrorKind;
use crate::testing::{assert_well_formed, transcript};
use crate::tool::{ToolExecutionStrategy, ToolResult};

fn setup() -> RunSetup {
    let mut setup = RunSetup::new("s.m.1");
    setup.gates = Gates { before_loop: true, input: true, before_turn: true, after_tool: true };
    setup.policy.tool_execution = ToolExecutionStrategy::Batched { size: 2 };
    setup
}

fn reply(content: Vec<Content>, stop: StopReason) -> Input {
    let mut message = AssistantMessage::new("mock", "mock", stop);
    message.content = content;
    message.usage = Usage::new(10, 5, 0, 0);
    Input::ModelReplied { reply: Reply::new(message).unwrap() }
}

fn calls(ids: &[&str]) -> Input {
    let call = |id: &&str| Content::tool_call(*id, "look", json!({"id": id}));
    reply(ids.iter().map(call).collect(), StopReason::ToolUse)
}

fn began(id: &str, verdict: ToolVerdict) -> Input {
    Input::ToolBegan { id: ToolCallId::from(id), verdict }
}

fn ended(id: &str) -> Input {
    let outcome = Box::new(ToolOutcome::new(ToolResult::text(format!("result of {id}")), Some(3)));
    Input::ToolEnded { id: ToolCallId::from(id), outcome }
}

fn reviewed(id: &str) -> Input {
    let change = Box::new(ToolChange::is_error(true));
    Input::ToolReviewed { id: ToolCallId::from(id), change }
}

fn queue(kind: QueueKind, text: &str) -> Input {
    Input::Queue { queued: Queued::new(kind, Entry::from(AgentMessage::user(text))) }
}

/// A life with gates, a retry, a question, a refusal, groups, steering and a follow-up.
fn life() -> Vec<Input> {
    let limited = Failure::new(ErrorKind::RateLimited, "slow down");
    let partial = PartialReply::new(vec![Content::text("Hal")], Usage::new(1, 1, 0, 0), None);
    vec![
        Input::GateDecided { verdict: GateVerdict::Ask("Begin?".into()) },
        Input::Suspended,
        Input::Answer { question_id: "loop".into(), answer: Answer::Allow },
        Input::Filtered { verdict: InputVerdict::Allow { warnings: vec!["odd".into()] } },
        Input::SetQueueMode { kind: QueueKind::FollowUp, mode: QueueMode::All },
        Input::GateDecided { verdict: GateVerdict::Allow },
        Input::ReplyStarted,
        Input::ModelFailed { failure: limited, partial: Some(Box::new(partial)) },
        Input::Slept,
        Input::ReplyStarted,
        calls(&["c1", "c2", "c3"]),
        queue(QueueKind::FollowUp, "later"),
        began("c1", ToolVerdict::Ask("Really?".into())),
        began("c2", ToolVerdict::AllowWith(json!({"other": true}))),
        ended("c2"),
        reviewed("c2"),
        began("c3", ToolVerdict::deny("not that")),
        Input::Suspended,
        Input::Answer { question_id: "c1".into(), answer: Answer::AllowWith(json!({"safe": 1})) },
        began("c1", ToolVerdict::AllowWith(json!({"safe": 1}))),
        queue(QueueKind::Steering, "now"),
        ended("c1"),
        reviewed("c1"),
        Input::QueuesRead,
        Input::GateDecided { verdict: GateVerdict::Allow },
        reply(vec![Content::text("done")], StopReason::Stop),
        Input::QueuesRead,
        Input::GateDecided { verdict: GateVerdict::Allow },
        reply(vec![Content::text("bye")], StopReason::Stop),
        Input::QueuesRead,
    ]
}

fn begin(events: &mut Vec<AgentEvent>) -> Run {
    Run::start(setup(), History::new(), vec!["Hi".into()], Timestamp(1), events).unwrap()
}

/// One input of each kind that fits nowhere in this state.
fn misfits(step: &Step) -> Vec<Input> {
    let mut misfits = vec![
        began("nobody", ToolVerdict::Allow),
        ended("nobody"),
        reviewed("nobody"),
        Input::Answer { question_id: "nobody".into(), answer: Answer::Allow },
        Input::CompactionFailed { message: "no".into() },
        Input::Compacted { splices: vec![], usage: Usage::default(), fallback: None },
        Input::ModelFailed { failure: Failure::new(ErrorKind::Cancelled, "cancelled"), partial: None },
    ];
    if !matches!(step, Step::Gate { .. }) {
        misfits.push(Input::GateDecided { verdict: GateVerdict::Allow });
        misfits.push(Input::Filtered { verdict: InputVerdict::Allow { warnings: vec![] } });
    }
    if !matches!(step, Step::CallModel { .. }) {
        misfits.push(Input::ReplyStarted);
        misfits.push(reply(vec![], StopReason::Stop));
    }
    if !matches!(step, Step::Sleep { .. }) {
        misfits.push(Input::Slept);
    }
    if !matches!(step, Step::ReadQueues { .. }) {
        misfits.push(Input::QueuesRead);
    }
    if !matches!(step, Step::AwaitAnswer { .. }) {
        misfits.push(Input::Suspended);
    }
    if matches!(step, Step::Done(_)) {
        misfits.push(queue(QueueKind::Steering, "late"));
        misfits.push(Input::abort(None));
    }
    misfits
}

#[track_caller]
fn check_state(run: &Run, events: &[AgentEvent]) {
    assert_eq!(run.next(), run.next(), "asking changes nothing");
    let json = serde_json::to_string(run).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&json).unwrap(), *run, "written and read whole");

    let mut fold = Fold::new(History::new());
    for event in events {
        fold.push(event).unwrap();
    }
    let light = serde_json::to_string(&run.checkpoint()).unwrap();
    let light = serde_json::from_str(&light).unwrap();
    assert_eq!(
        Run::restore(run.setup().clone(), light, &fold).unwrap(),
        *run,
        "from its light form and the log"
    );

    for misfit in misfits(&run.next()) {
        let mut same = run.clone();
        let mut said = Vec::new();
        let name = misfit.name();
        let refused: Result<(), Misplaced> = same.apply(Timestamp(9_999), misfit, &mut said);
        assert_eq!(refused.unwrap_err().input, name);
        assert_eq!((&same, said.len()), (run, 0), "{name} changes nothing, the clock included");
    }
}

/// Returns the life's run before its last input, as JSON.
fn nearly_ended() -> (Run, serde_json::Value) {
    let mut events = Vec::new();
    let mut run = begin(&mut events);
    let inputs = life();
    for input in inputs.into_iter().rev().skip(1).rev() {
        run.apply(Timestamp(10), input, &mut events).unwrap();
    }
    let json = serde_json::to_value(&run).unwrap();
    (run, json)
}

#[test]
fn messages_of_a_run_are_written_as_positions_and_may_be_whole() {
    let (run, mut json) = nearly_ended();
    assert_eq!(json["new_messages"], json!([[0, run.history().len()]]));
    json["new_messages"] = serde_json::to_value(run.new_messages().in_memory()).unwrap();
    assert_eq!(serde_json::from_value::<Run>(json).unwrap(), run, "as earlier versions wrote it");
}

#[test]
fn positions_that_are_not_in_the_history_are_refused() {
    let (_, json) = nearly_ended();
    for bad in [json!([0, 1_000]), json!([2, 1]), json!([0]), json!([0, 1, 2]), json!("all")] {
        let mut json = json.clone();
        json["new_messages"] = json!([bad]);
        assert!(serde_json::from_value::<Run>(json).is_err(), "{bad}");
    }
}

/// B-190.
#[test]
fn every_state_of_a_life_is_plain_data_and_refuses_what_does_not_fit() {
    let mut events = Vec::new();
    let mut run = begin(&mut events);
    check_state(&run, &events);
    for (n, input) in life().into_iter().enumerate() {
        let now = Timestamp(10 + n as u64);
        run.apply(now, input, &mut events).unwrap_or_else(|e| panic!("{n}: {e}; {}", transcript(&events)));
        check_state(&run, &events);
        assert_eq!(run.now(), now);
    }
    assert_eq!(run.ended(), Some(&Ended::Completed));
    assert_eq!(
        transcript(&events),
        "asked(loop) suspended answered(loop) agent_start turn_start user retry+1 assistant!(Hal)~ retry-1 \
         assistant() asked(c1) tool+(c2) tool-(c2) tool+(c3) tool-!(c3) suspended answered(c1) tool+(c1) tool-(c1) \
         result!(c1) result!(c2) result!(c3) turn_end turn_start user assistant(done) turn_end \
         turn_start user assistant(bye) turn_end agent_end(completed)"
    );
    let whole = run.usage();
    assert_eq!((whole.input, whole.output), (31, 16), "a superseded attempt is paid for, too");
}

/// B-190.
#[test]
fn the_same_inputs_give_the_same_events_and_the_same_state() {
    let live = || {
        let mut events = Vec::new();
        let mut run = begin(&mut events);
        for (n, input) in life().into_iter().enumerate() {
            run.apply(Timestamp(10 + n as u64), input, &mut events).unwrap();
        }
        (run, events)
    };
    assert_eq!(live(), live());
}

/// B-016, B-061, REQ-161.
#[test]
fn an_abort_ends_every_state_with_all_closing_events() {
    let inputs = life();
    for length in 0..inputs.len() {
        for interrupted in [None, Some("gone".to_owned())] {
            let mut events = Vec::new();
            let mut run = begin(&mut events);
            for (n, input) in inputs.iter().take(length).cloned().enumerate() {
                run.apply(Timestamp(10 + n as u64), input, &mut events).unwrap();
            }
            for _ in 0..2 {
                if run.ended().is_none() {
                    let input = Input::Abort { partial: None, interrupted: interrupted.clone() };
                    run.apply(Timestamp(99), input, &mut events).unwrap();
                }
            }
            // After the end of the last turn, an abort finds the work completed.
            let expect = match interrupted {
                Some(reason) => Ended::Interrupted { reason },
                None if length == inputs.len() - 1 => Ended::Completed,
                None => Ended::Aborted,
            };
            assert_eq!(run.ended(), Some(&expect), "after {length}: {}", transcript(&events));
            let without_waits: Vec<AgentEvent> = events
                .iter()
                .filter(|e| {
                    !matches!(
                        e,
                        AgentEvent::RunSuspended { .. }
                            | AgentEvent::QuestionAsked { .. }
                            | AgentEvent::QuestionAnswered { .. }
                    )
                })
                .cloned()
                .collect();
            assert_well_formed(&without_waits);
            let mut fold = Fold::new(History::new());
            for event in &events {
                fold.push(event).unwrap();
            }
            assert_eq!(fold.history(), run.history(), "the log gives the conversation");
        }
    }
}

/// B-057.
#[test]
fn after_an_abort_no_call_begins() {
    let mut events = Vec::new();
    let mut setup = RunSetup::new("s.m.1");
    setup.policy.tool_execution = ToolExecutionStrategy::Sequential;
    let mut run = Run::start(setup, History::new(), vec!["Hi".into()], Timestamp(1), &mut events).unwrap();
    for input in [calls(&["c1", "c2"]), began("c1", ToolVerdict::Allow), Input::abort(None)] {
        run.apply(Timestamp(2), input, &mut events).unwrap();
    }
    let Step::RunTools { calls, .. } = run.next() else { panic!("the call that runs is waited for") };
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].stage, CallStage::Began(None));
    assert!(run.apply(Timestamp(3), began("c2", ToolVerdict::Allow), &mut events).is_err());
    run.apply(Timestamp(4), ended("c1"), &mut events).unwrap();
    assert_eq!(run.ended(), Some(&Ended::Aborted));
    assert_well_formed(&events);
}

/// The result of a denied call is an error, whatever its verdict says.
#[test]
fn a_denied_call_has_an_error_as_its_result() {
    let mut events = Vec::new();
    let mut run = begin_plain(&mut events);
    run.apply(Timestamp(2), calls(&["c1"]), &mut events).unwrap();
    let verdict = ToolVerdict::Deny(Box::new(ToolResult::text("not today")));
    run.apply(Timestamp(3), began("c1", verdict), &mut events).unwrap();
    let result = events.iter().find_map(|event| match event {
        AgentEvent::ToolExecutionEnd(end) => Some(end.result.clone()),
        _ => None,
    });
    let result = result.unwrap();
    assert_eq!((result.is_error, result.to_text()), (true, "not today".to_owned()));
}

fn begin_plain(events: &mut Vec<AgentEvent>) -> Run {
    Run::start(RunSetup::new("s.m.1"), History::new(), vec!["Hi".into()], Timestamp(1), events).unwrap()
}

/// Returns the id that the call without one gets in a conversation.
fn assigned(history: History) -> ToolCallId {
    let mut events = Vec::new();
    let mut run =
        Run::start(RunSetup::new("s.m.1"), history, vec!["Hi".into()], Timestamp(1), &mut events).unwrap();
    run.apply(Timestamp(2), calls(&[""]), &mut events).unwrap();
    let Step::RunTools { calls, .. } = run.next() else { panic!("{:?}", run.next()) };
    calls[0].call.id.clone()
}

#[test]
fn an_assigned_call_id_is_new_in_a_conversation_that_has_the_first_choices() {
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut history = History::new();
        for id in &ids {
            let mut reply = AssistantMessage::new("mock", "mock", StopReason::ToolUse);
            reply.content = vec![Content::tool_call(ToolCallId::clone(id), "look", json!({}))];
            let result = ToolResultMessage::new(ToolCallId::clone(id), "look".into(), vec![]);
            let [reply, result] =
                [Message::from(reply), result.into()].map(|m| Entry::from(AgentMessage::from(m)));
            history.push_exchange(reply, vec![result]).unwrap();
        }
        let id = assigned(history);
        assert!(!id.as_str().is_empty() && !ids.contains(&id), "{id} is one of {ids:?}");
        ids.push(id);
    }
}
