//! Deferred calls in a history.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::{reply, result, user};
use crate::context::{ContextConfig, compact_history};
use crate::history::{Entry, History, HistoryError, Repair, Splice};
use crate::identity::ToolCallId;
use crate::message::{
    AgentMessage, Content, DeferredCall, DeferredState, HeuristicTokenCounter, Message, ToolResultMessage,
};

fn deferred(id: &str) -> AgentMessage {
    let mut result = ToolResultMessage::new(id.into(), "tool".into(), vec![Content::text("running")]);
    result.deferred = Some(format!("job-{id}").into());
    Message::from(result).into()
}

fn completion(id: &str) -> AgentMessage {
    let call = DeferredCall::new(id, "tool", format!("job-{id}"));
    Message::from(call.completed(vec![Content::text("done")], false, Value::Null)).into()
}

fn begin(history: &mut History, id: &str) {
    history.push_exchange(Entry::from(reply("", &[id])), vec![Entry::from(deferred(id))]).unwrap();
}

fn waiting(history: &History) -> Vec<String> {
    history.deferred().iter().map(|call| call.tool_call_id.to_string()).collect()
}

/// What each user message says about a deferred call.
fn marks(history: &History) -> Vec<(ToolCallId, DeferredState)> {
    let users = history.llm_messages().filter_map(|m| match m {
        Message::User(user) => user.deferred.as_ref(),
        _ => None,
    });
    users.map(|call| (call.tool_call_id.clone(), call.state)).collect()
}

#[test]
fn a_deferred_call_waits_until_its_result_is_appended() {
    let mut history = History::new();
    history.push(user("render it")).unwrap();
    begin(&mut history, "a");
    begin(&mut history, "b");
    assert_eq!(history.deferred()[0], DeferredCall::new("a", "tool", "job-a"));
    assert_eq!(waiting(&history), ["a", "b"]);
    history.push(completion("a")).unwrap();
    assert_eq!(waiting(&history), ["b"]);
    assert_eq!(history.last().unwrap().text(), "Result of the call `tool` (handle `job-a`):\ndone");
}

#[test]
fn a_result_without_an_open_deferred_call_is_rejected() {
    let mut history = History::new();
    let push = |history: &mut History, id: &str| history.push(completion(id)).unwrap_err();
    assert_eq!(push(&mut history, "a"), HistoryError::UnknownCall("a".into()));
    history.push_exchange(Entry::from(reply("", &["a"])), vec![Entry::from(result("a", "out"))]).unwrap();
    assert_eq!(push(&mut history, "a"), HistoryError::NotDeferred("a".into()));
    begin(&mut history, "b");
    history.push(completion("b")).unwrap();
    assert_eq!(push(&mut history, "b"), HistoryError::AlreadyCompleted("b".into()));
    assert_eq!(history.len(), 5);
}

#[test]
fn a_repair_detaches_a_result_without_its_call_and_follows_a_renamed_call() {
    let (history, repairs) = History::repaired([user("x"), completion("a")]);
    assert_eq!(repairs, [Repair::ResultDetached { call: "a".into() }]);
    assert_eq!((history.len(), marks(&history).len()), (2, 0));

    let list = [reply("", &["a"]), result("a", "out"), reply("", &["a"]), deferred("a"), completion("a")];
    let (history, repairs) = History::repaired(list);
    let [Repair::CallRenamed { to, .. }] = repairs.as_slice() else { panic!("{repairs:?}") };
    assert_eq!(marks(&history), [(to.clone(), DeferredState::Completed)]);
    assert!(waiting(&history).is_empty());
}

#[test]
fn old_files_and_old_readers_have_no_field_for_it() {
    let plain = serde_json::to_value(user("x")).unwrap();
    assert!(plain.get("deferred").is_none());
    let mut json = serde_json::to_value(completion("a")).unwrap();
    assert_eq!(json["deferred"]["state"], "completed");
    assert_eq!(json["deferred"]["handle"], "job-a");
    json.as_object_mut().unwrap().remove("deferred");
    let read: AgentMessage = serde_json::from_value(json).unwrap();
    assert_eq!((read.role(), read.text()), ("user", completion("a").text()));
    let json = serde_json::to_string(&completion("a")).unwrap();
    assert_eq!(serde_json::from_str::<AgentMessage>(&json).unwrap(), completion("a"));
}

fn splice(from: usize, to: usize) -> [Splice; 1] {
    [Splice { from, to, messages: vec![Entry::from(user("summary"))] }]
}

/// 0: the task, 1 and 2: the exchange, 3: a reply, 4: the result, 5: a question.
fn story(completed: bool) -> History {
    let mut history = History::new();
    history.push(user("task")).unwrap();
    begin(&mut history, "a");
    history.push(reply("I wait.", &[])).unwrap();
    if completed {
        history.push(completion("a")).unwrap();
    }
    history.push(user("and?")).unwrap();
    history
}

#[test]
fn a_compaction_that_drops_the_call_leaves_its_result_as_a_plain_message() {
    let short = story(true).spliced(&splice(1, 4)).unwrap();
    assert!(marks(&short).is_empty() && short.deferred().is_empty());
    let texts: Vec<String> = short.messages().map(AgentMessage::text).collect();
    assert_eq!(texts, ["task", "summary", "Result of the call `tool` (handle `job-a`):\ndone", "and?"]);
}

#[test]
fn a_compaction_that_drops_the_result_leaves_a_call_that_no_longer_waits() {
    let short = story(true).spliced(&splice(4, 5)).unwrap();
    assert!(short.deferred().is_empty(), "a second result would be accepted");
    assert_eq!(
        short.messages().nth(2).unwrap().text(),
        "This call has ended. Its result was removed to fit context window."
    );
    assert_eq!(short.clone().push(completion("a")), Err(HistoryError::NotDeferred("a".into())));
}

#[test]
fn a_result_that_a_compaction_adds_without_its_call_is_a_plain_message() {
    let mut history = History::new();
    history.push(user("task")).unwrap();
    let added = Splice { from: 1, to: 1, messages: vec![Entry::from(completion("a"))] };
    let long = history.spliced(&[added]).unwrap();
    assert_eq!((long.len(), marks(&long).len()), (2, 0));
}

#[test]
fn a_compaction_that_drops_a_waiting_call_leaves_a_notice_that_can_be_completed() {
    let mut short = story(false).spliced(&splice(1, 4)).unwrap();
    let texts: Vec<String> = short.messages().map(AgentMessage::text).collect();
    let notice =
        "The call `tool` (handle `job-a`) is still running. Its result will come in a later message.";
    assert_eq!(texts, ["task", "summary", notice, "and?"]);
    assert_eq!(waiting(&short), ["a"]);
    // The notice survives the next compaction as well.
    short = short.spliced(&splice(0, 4)).unwrap();
    assert_eq!(waiting(&short), ["a"]);
    short.push(completion("a")).unwrap();
    assert!(waiting(&short).is_empty());
    assert_eq!(History::repaired(short.to_vec()), (short, vec![]));
}

#[test]
fn the_built_in_compaction_keeps_a_waiting_call_within_its_budget() {
    let mut history = story(false);
    for _ in 0..60 {
        history.push(user(&"word ".repeat(200))).unwrap();
        history.push(reply(&"word ".repeat(200), &[])).unwrap();
    }
    let config =
        ContextConfig { max_context_tokens: 4_000, system_prompt_tokens: 0, ..ContextConfig::default() };
    let short =
        history.spliced(&compact_history(&history, &config, &HeuristicTokenCounter).unwrap()).unwrap();
    assert!(short.len() < history.len());
    assert_eq!(waiting(&short), ["a"]);
    assert!(short.tokens() <= config.budget(), "{} of {}", short.tokens(), config.budget());
}

#[derive(Debug, Clone)]
enum Act {
    Say,
    Begin(u8),
    Complete(u8),
    Splice(usize, usize, bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Say),
        (0..6_u8).prop_map(Act::Begin),
        (0..6_u8).prop_map(Act::Complete),
        (0..20_usize, 0..20_usize, any::<bool>()).prop_map(|(a, b, s)| Act::Splice(a.min(b), a.max(b), s)),
    ]
}

proptest! {
    /// However calls are deferred, completed and compacted: every waiting call can be completed once, no result refers to
    /// a call that is not there, and a copy through a list needs no repair.
    #[test]
    fn no_random_history_has_an_orphan(acts in prop::collection::vec(act(), 0..60)) {
        let mut history = History::new();
        let mut expected: BTreeSet<String> = BTreeSet::new();
        let mut used = 0;
        for act in acts {
            match act {
                Act::Say => history.push(user("x")).unwrap(),
                Act::Begin(n) => {
                    let id = format!("{n}.{used}");
                    used += 1;
                    begin(&mut history, &id);
                    expected.insert(id);
                }
                Act::Complete(n) => {
                    let id = expected.iter().nth(usize::from(n)).cloned();
                    if let Some(id) = id {
                        history.push(completion(&id)).unwrap();
                        prop_assert_eq!(
                            history.push(completion(&id)), Err(HistoryError::AlreadyCompleted(id.as_str().into()))
                        );
                        expected.remove(&id);
                    }
                }
                Act::Splice(from, to, summary) => {
                    let messages = if summary { vec![Entry::from(user("s"))] } else { vec![] };
                    if let Ok(short) = history.spliced(&[Splice { from, to, messages }]) {
                        history = short;
                    }
                }
            }
            let open: BTreeSet<String> = waiting(&history).into_iter().collect();
            prop_assert_eq!(&open, &expected);
            let (again, repairs) = History::repaired(history.to_vec());
            prop_assert_eq!(repairs, &[]);
            prop_assert_eq!(again.to_vec(), history.to_vec());
        }
    }
}
