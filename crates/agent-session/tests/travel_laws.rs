//! Laws of forks, over random sessions: retries, questions, compactions, cut-off runs, changes by the program, rewinds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::fold::Fold;
use agent_core::run::{CallStage, Failure, Input, Reply, Run, RunSetup, Step, ToolOutcome, ToolVerdict};
use agent_core::{
    AgentEvent, AgentMessage, Answer, AssistantMessage, Content, ContextConfig, Entry, ErrorKind, History,
    LoopId, Splice, StopReason, Timestamp, ToolResult, Usage,
};
use agent_session::{LoopBase, Point, Session, SessionRecorder};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

/// The cases that issue and requirement ask for.
const CASES: u32 = 10_000;

/// Steps after which a run is left as it stands.
const MOST_STEPS: usize = 16;

/// Random choices, from a list of bytes; 0 when it is used up.
struct Choices(std::vec::IntoIter<u8>);

impl Choices {
    fn below(&mut self, n: usize) -> usize {
        usize::from(self.0.next().unwrap_or(0)) % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

/// How much happened, so that tame sessions are noticed.
#[derive(Debug, Default)]
struct Tally {
    loops: AtomicUsize,
    rewinds: AtomicUsize,
    calls: AtomicUsize,
    cut_off: AtomicUsize,
    compactions: AtomicUsize,
    in_exchanges: AtomicUsize,
    shorter_paths: AtomicUsize,
}

fn count(n: &AtomicUsize) {
    n.fetch_add(1, Ordering::Relaxed);
}

/// Drives a run by choices and gives what it says.
fn events(c: &mut Choices, id: &str, history: History, tally: &Tally) -> Vec<AgentEvent> {
    let mut setup = RunSetup::new(id);
    setup.policy.context = Some(
        ContextConfig::default().with_max_context_tokens(60).with_system_prompt_tokens(0).with_keep_recent(2),
    );
    let mut out = Vec::new();
    let prompt = AgentMessage::user(format!("prompt of {id}, {}", "long ".repeat(c.below(12))));
    let mut run = Run::start(setup, history, vec![prompt], Timestamp(1_000), &mut out).unwrap();
    for n in 0..MOST_STEPS {
        let now = Timestamp(1_001 + n as u64);
        if c.one_in(12) {
            count(&tally.cut_off);
            break;
        }
        let inputs = match run.next() {
            Step::Done(_) => break,
            Step::CallModel { .. } => vec![Input::ReplyStarted, reply(c, id, n)],
            Step::Sleep { .. } => vec![Input::Slept],
            Step::ReadQueues { .. } => vec![Input::QueuesRead],
            Step::Compact { history, .. } => {
                count(&tally.compactions);
                let first = history.units().next().map_or(0, |u| u.entries().len());
                let message = Entry::from(AgentMessage::user("what was before, in short"));
                vec![Input::Compacted {
                    splices: vec![Splice { from: 0, to: first, messages: vec![message] }],
                    usage: Usage::default(),
                    fallback: None,
                }]
            }
            Step::AwaitAnswer { questions, .. } => {
                if c.one_in(3) {
                    break;
                }
                let answer = if c.one_in(2) { Answer::Allow } else { Answer::Deny { reason: "no".into() } };
                vec![Input::Answer { question_id: questions[0].id.clone(), answer }]
            }
            Step::RunTools { calls, .. } => {
                count(&tally.calls);
                let call = &calls[c.below(calls.len())];
                let id = call.call.id.clone();
                match call.stage {
                    CallStage::Began(_) => vec![ended(id)],
                    CallStage::New if c.one_in(5) => {
                        vec![Input::ToolBegan { id, verdict: ToolVerdict::Ask("May I?".into()) }]
                    }
                    _ => vec![Input::ToolBegan { id: id.clone(), verdict: ToolVerdict::Allow }],
                }
            }
            other => panic!("{other:?}"),
        };
        for input in inputs {
            // What does not fit after the one before it is left out, as the driver does.
            let _ = run.apply(now, input, &mut out);
        }
    }
    out
}

fn ended(id: agent_core::ToolCallId) -> Input {
    let outcome = ToolOutcome::new(ToolResult::text("a result"), Some(1));
    Input::ToolEnded { id, outcome: Box::new(outcome) }
}

fn reply(c: &mut Choices, id: &str, n: usize) -> Input {
    if c.one_in(8) {
        return Input::ModelFailed { failure: Failure::new(ErrorKind::Network, "reset"), partial: None };
    }
    let calls = c.below(3);
    let stop = if calls == 0 { StopReason::Stop } else { StopReason::ToolUse };
    let mut message = AssistantMessage::new("mock", "mock", stop);
    message.usage = Usage::new(10, 1, 0, 0);
    message.content.push(Content::text("a reply ".repeat(c.below(8))));
    for call in 0..calls {
        message.content.push(Content::tool_call(format!("{id}-{n}-{call}"), "tool", json!({ "n": n })));
    }
    Input::ModelReplied { reply: Reply::new(message).unwrap() }
}

/// One more loop of a session, as a recorder with a store writes it: with what was before it. `known` is the closed part of
/// the conversation after the last loop, and becomes that after this one.
fn grow(
    c: &mut Choices,
    session: Session,
    known: &mut History,
    history: &History,
    parent: Option<LoopId>,
    tally: &Tally,
) -> Session {
    count(&tally.loops);
    let last = session.loops.last().map(|r| r.loop_id.clone());
    let id = format!("{}.m.{}", session.session_id, session.loops.len() + 1);
    let said = events(c, &id, history.clone(), tally);
    let session_id = session.session_id.clone();
    let recorder = SessionRecorder::new();
    recorder.adopt(session);
    said.iter().for_each(|event| recorder.on_event(event));
    let mut session = recorder.forget(session_id.as_str()).unwrap();
    let same = known.entries().zip(history.entries()).take_while(|(a, b)| a == b).count();
    // Not in the middle of an exchange.
    let starts: Vec<usize> = starts(known).into_iter().chain([known.len()]).collect();
    let keep = starts.into_iter().filter(|s| *s <= same).max().unwrap_or(0);
    let mut base = LoopBase::default();
    base.after_loop = last;
    base.keep = keep;
    base.added = history.entries().skip(keep).cloned().collect();
    let record = session.loops.last_mut().unwrap();
    assert_eq!(record.loop_id.as_str(), id);
    record.base = Some(base);
    record.parent_loop_id = parent;
    let mut fold = Fold::new(history.clone());
    said.iter().for_each(|event| fold.push(event).unwrap());
    *known = fold.history().clone();
    session
}

fn starts(history: &History) -> Vec<usize> {
    let lengths = history.units().map(|u| u.entries().len());
    lengths.scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect()
}

fn session(c: &mut Choices, tally: &Tally) -> Session {
    let mut session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
    let mut known = History::new();
    for _ in 0..1 + c.below(3) {
        let mut history = session.history().unwrap();
        let mut parent = None;
        if !session.loops.is_empty() && c.one_in(3) {
            let points = session.points();
            let point = &points[c.below(points.len())];
            history = session.history_at(point).unwrap();
            parent = Some(point.loop_id.clone());
            count(&tally.rewinds);
        }
        if c.one_in(5) {
            history.push(AgentMessage::extension("note", json!({ "n": c.below(100) }))).unwrap();
        }
        session = grow(c, session, &mut known, &history, parent, tally);
    }
    session
}

fn any_point(c: &mut Choices, session: &Session) -> Point {
    let record = &session.loops[c.below(session.loops.len())];
    Point::new(record.loop_id.clone(), c.below(record.messages.len() + 1))
}

fn written(session: &Session) -> Vec<u8> {
    serde_json::to_vec(session).unwrap()
}

/// B-183, D30.
#[test]
fn a_fork_has_the_way_to_its_place_and_whatever_becomes_of_it_never_changes_its_origin() {
    let tally = Tally::default();
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let bytes = prop::collection::vec(any::<u8>(), 0..160);
    TestRunner::new(config)
        .run(&bytes, |bytes| {
            check(&mut Choices(bytes.into_iter()), &tally);
            Ok(())
        })
        .unwrap();
    let Tally { loops, rewinds, calls, cut_off, compactions, in_exchanges, shorter_paths } = tally;
    for (what, n, least) in [
        ("loops", loops, 15_000),
        ("rewinds", rewinds, 1_000),
        ("calls", calls, 5_000),
        ("runs cut off", cut_off, 1_000),
        ("compactions", compactions, 500),
        ("places inside an exchange", in_exchanges, 500),
        ("forks with fewer loops than the origin had before", shorter_paths, 500),
    ] {
        let n = n.into_inner();
        println!("{what}: {n}");
        assert!(n >= least, "{what}: only {n}");
    }
}

fn check(c: &mut Choices, tally: &Tally) {
    let origin = session(c, tally);
    // Messages are shared and cannot be changed; that their bytes stay, too, is looked at now and then, as it takes long.
    let (copy, bytes) = (origin.clone(), c.one_in(8).then(|| written(&origin)));
    for record in &origin.loops {
        let end = Point::new(record.loop_id.clone(), record.messages.len());
        let after = origin.history_after(record.loop_id.as_str()).unwrap().unwrap();
        assert_eq!(origin.history_at(&end).unwrap(), after);
    }

    let point = any_point(c, &origin);
    let wanted = origin.history_at(&point).unwrap();
    closed(&wanted);
    let fork = origin.forked(&point, "s-2", Timestamp(5)).unwrap();
    assert_eq!(fork.history().unwrap(), wanted, "the fork stands where the place is");
    let link = fork.forked_from.clone().unwrap();
    assert_eq!((link.session_id.as_str(), &link.loop_id), ("s-1", &point.loop_id));
    if link.messages > point.messages {
        count(&tally.in_exchanges);
    }
    let at = origin.loops.iter().position(|r| r.loop_id == point.loop_id).unwrap();
    if fork.loops.len() <= at {
        count(&tally.shorter_paths);
    }
    only_of_the_origin(&fork, &origin);
    if c.one_in(8) {
        let read: Session = serde_json::from_slice(&written(&fork)).unwrap();
        assert_eq!(read, fork, "it can be saved and loaded");
    }

    // The fork of the fork at its end, and what goes on from it.
    if let Some(end) = fork.end_point() {
        let again = fork.forked(&end, "s-3", Timestamp(6)).unwrap();
        assert_eq!(again.history().unwrap(), wanted);
    }
    // What the loop before has open is not in the closed part; nothing of it is taken for granted here.
    let grown = grow(c, fork.clone(), &mut History::new(), &wanted, Some(point.loop_id), tally);
    assert_eq!(grown.loops.len(), fork.loops.len() + 1);
    assert_eq!(
        grown.history_at(&Point::new(grown.loops.last().unwrap().loop_id.clone(), 0)).unwrap(),
        wanted
    );
    assert_eq!(grown.parent_spawn_ref, None);
    assert_eq!(origin, copy, "the origin is as it was");
    if let Some(bytes) = bytes {
        assert_eq!(written(&origin), bytes);
    }
}

#[track_caller]
fn closed(history: &History) {
    let messages: Vec<AgentMessage> = history.to_vec();
    let (repaired, repairs) = History::repaired(messages);
    assert_eq!((repaired.len(), repairs.len()), (history.len(), 0));
}

/// Each loop is one of the origin, from its beginning and in the same order; each goes on from the one before it.
fn only_of_the_origin(fork: &Session, origin: &Session) {
    let mut last = None;
    for (n, record) in fork.loops.iter().enumerate() {
        let at = origin.loops.iter().position(|r| r.loop_id == record.loop_id).expect("a loop of the origin");
        assert!(last < Some(at), "in the same order");
        last = Some(at);
        let whole = &origin.loops[at];
        assert!(whole.messages.starts_with(&record.messages));
        assert!(whole.turns.len() >= record.turns.len() && whole.events.starts_with(&record.events));
        assert!(!record.is_open() && record.open_run.is_none());
        let after = record.base.as_ref().unwrap().after_loop.as_ref();
        assert_eq!(after, n.checked_sub(1).map(|n| &fork.loops[n].loop_id));
        for child in &record.children_loop_ids {
            assert_eq!(fork.get_loop(child.as_str()).unwrap().parent_loop_id.as_ref(), Some(&record.loop_id));
        }
    }
}
