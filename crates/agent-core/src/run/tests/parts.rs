//! Keys of groups, long checkpoints, questions of children, and the JSON of a policy.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::{began, begin_plain, calls, ended, queue, setup};
use crate::budget::Spending;
use crate::context::ContextConfig;
use crate::event::{Answer, Question};
use crate::history::History;
use crate::identity::{Timestamp, TurnTrigger};
use crate::limits::ExecutionLimits;
use crate::retry::RetryConfig;
use crate::run::{
    Input, LoopPolicy, QueueKind, QueueMode, Run, SteeringPolicy, Step, SuspendedChild, ToolVerdict,
};
use crate::tool::{DeferTools, ToolExecutionStrategy};

/// Starts a run and applies these inputs.
fn after(mut run: Run, inputs: impl IntoIterator<Item = Input>) -> Run {
    for input in inputs {
        run.apply(Timestamp(2), input, &mut Vec::new()).unwrap();
    }
    run
}

/// A key names the group by the place of its first call.
#[test]
fn each_group_of_a_batch_has_a_key_of_its_own() {
    let mut setup = setup();
    setup.gates = crate::run::Gates::default();
    let run = Run::start(setup, History::new(), vec!["Hi".into()], Timestamp(1), &mut Vec::new()).unwrap();
    let mut run = after(run, [calls(&["c0", "c1", "c2", "c3", "c4"])]);
    let mut keys = Vec::new();
    for group in [&["c0", "c1"][..], &["c2", "c3"], &["c4"]] {
        let Step::RunTools { key, calls } = run.next() else { panic!("{:?}", run.next()) };
        assert_eq!(calls.iter().map(|call| call.call.id.as_str()).collect::<Vec<_>>(), group);
        keys.push(key.to_string());
        let inputs = group.iter().flat_map(|id| [began(id, ToolVerdict::Allow), ended(id)]);
        run = after(run, inputs);
    }
    assert_eq!(keys, ["tools-0-0", "tools-0-2", "tools-0-4"]);
}

/// 16 items make a list long, as docs/concepts/sessions.md states.
#[test]
fn a_checkpoint_with_16_calls_or_queued_messages_is_long() {
    let ids: Vec<String> = (0..16).map(|n| format!("c{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let with_calls = |count| after(begin_plain(&mut Vec::new()), [calls(&ids[..count])]);
    let queued = |count| {
        after(begin_plain(&mut Vec::new()), (0..count).map(|n| queue(QueueKind::FollowUp, &n.to_string())))
    };
    assert_eq!([15, 16].map(|count| with_calls(count).checkpoint().is_long()), [false, true]);
    assert_eq!([15, 16].map(|count| queued(count).checkpoint().is_long()), [false, true]);
}

fn question(id: &str) -> Question {
    serde_json::from_value(json!({ "id": id, "text": "May I?" })).unwrap()
}

fn suspended(ids: &[&str], received: u64) -> Input {
    let questions = ids.iter().map(|id| question(id)).collect();
    let child = SuspendedChild { questions, received, run: None, spent: None };
    Input::ChildSuspended { id: "c1".into(), child: Box::new(child) }
}

fn allow(id: &str) -> Input {
    Input::Answer { question_id: id.into(), answer: Answer::Allow }
}

fn open(run: &Run) -> BTreeSet<String> {
    run.questions().iter().map(|question| question.id.to_string()).collect()
}

/// An answer that arrives while the child runs with an earlier one still counts when the child is suspended again.
#[test]
fn a_question_of_a_child_that_was_answered_meanwhile_is_not_asked_again() {
    let run = after(
        begin_plain(&mut Vec::new()),
        [calls(&["c1"]), began("c1", ToolVerdict::Allow), suspended(&["q1", "q2"], 0), Input::Suspended],
    );
    assert_eq!(open(&run), BTreeSet::from(["q1", "q2"].map(String::from)));
    let run = after(run, [allow("q1"), began("c1", ToolVerdict::Allow), allow("q2")]);
    let again = |ids: &[&str]| after(run.clone(), [suspended(ids, 1)]);
    let both = again(&["q2", "q3"]);
    assert_eq!(open(&both), BTreeSet::from(["q3".to_owned()]));
    let answered = again(&["q2"]);
    assert!(open(&answered).is_empty() && matches!(answered.next(), Step::RunTools { .. }));
    // The child no longer asks the question, so there is nothing to resume it with.
    let other = again(&["q3"]);
    assert!(matches!(other.next(), Step::AwaitAnswer { .. }), "{:?}", other.next());
}

/// The child is resumed with the answer later, so the driver refuses an answer that does not fit at once.
#[test]
fn an_answer_that_does_not_fit_the_question_of_a_child_is_refused() {
    let mut run = after(
        begin_plain(&mut Vec::new()),
        [calls(&["c1"]), began("c1", ToolVerdict::Allow), suspended(&["q1"], 0), Input::Suspended],
    );
    for answer in [Answer::Raise { by: Spending::of_tokens(1) }, Answer::AllowWith(json!({}))] {
        let input = Input::Answer { question_id: "q1".into(), answer };
        assert!(run.apply(Timestamp(2), input, &mut Vec::new()).is_err());
        assert_eq!(open(&run), BTreeSet::from(["q1".to_owned()]));
    }
    assert!(open(&after(run, [allow("q1")])).is_empty());
}

/// Two records of a journal share the queued messages that they have in common. Equal messages that came apart are two.
#[test]
fn the_difference_of_two_queues_leaves_out_the_messages_that_they_share() {
    let queued = |run: Run, texts: std::ops::Range<u32>| {
        after(run, texts.map(|n| queue(QueueKind::FollowUp, &n.to_string())))
    };
    let earlier = queued(begin_plain(&mut Vec::new()), 0..20);
    let later = queued(earlier.clone(), 20..22);
    let mut checkpoint = later.checkpoint();
    let kept = checkpoint.take_difference(&earlier.checkpoint());
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((kept.list, kept.first, kept.last), ("/queues/follow_up", 20, 0));
    let left = serde_json::to_value(&checkpoint).unwrap();
    assert_eq!(left["queues"]["follow_up"].as_array().unwrap().len(), 2);
    let apart = queued(begin_plain(&mut Vec::new()), 0..20);
    assert!(later.checkpoint().take_difference(&apart.checkpoint()).is_empty());
}

/// The form of a checkpoint leaves out what has its default value, and reads it back.
#[test]
fn the_default_mode_of_a_queue_is_not_written() {
    let run = after(begin_plain(&mut Vec::new()), [queue(QueueKind::FollowUp, "later")]);
    let written = serde_json::to_value(run.checkpoint()).unwrap();
    let names: Vec<&String> = written["queues"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["follow_up"]);
}

/// A run that resumes elsewhere has the policy with which it started.
#[test]
fn a_policy_is_read_as_it_was_written() {
    let policy = LoopPolicy {
        tool_execution: ToolExecutionStrategy::Batched { size: 3 },
        max_concurrent_tools: Some(5),
        tool_timeout: Some(Duration::from_secs(7)),
        grace: Duration::from_millis(11),
        defer_tools: DeferTools::Above { tokens: 13 },
        steering_policy: SteeringPolicy::AfterTurn,
        steering_mode: QueueMode::All,
        follow_up_mode: QueueMode::All,
        limits: Some(ExecutionLimits::unlimited().with_max_turns(17)),
        max_continuations: 19,
        max_repeats: 21,
        retry: RetryConfig { max_retries: 23, ..RetryConfig::default() },
        context: Some(ContextConfig::default().with_keep_first(29)),
        config_id: Some("thirty-one".to_owned()),
        first_turn_trigger: TurnTrigger::Branch,
        metadata: json!({ "key": 37 }),
        watch_cache: false,
    };
    let written = serde_json::to_value(&policy).unwrap();
    assert_eq!(serde_json::from_value::<LoopPolicy>(written.clone()).unwrap(), policy);
    // Each field differs from the default, so each is written.
    let names = written.as_object().unwrap().len();
    assert_eq!(names, 17, "{written}");
    let default = serde_json::to_value(LoopPolicy::default()).unwrap();
    assert!(written.as_object().unwrap().iter().all(|(name, value)| default.get(name) != Some(value)));
    assert_eq!(serde_json::from_value::<LoopPolicy>(default).unwrap(), LoopPolicy::default());
}
