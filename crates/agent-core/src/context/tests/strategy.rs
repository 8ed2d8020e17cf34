//! Strategies and what becomes of their lists.

use std::sync::Arc;

use proptest::prelude::*;

use super::sample::{call, exchange, history, reply, result, said, texts, user};
use crate::context::{
    CompactionContext, CompactionError, CompactionOutcome, CompactionStrategy, ContextConfig,
    DefaultCompaction, SyncCompaction, splices_between,
};
use crate::history::{History, MessageRef, Repair, Splice};
use crate::message::AgentMessage;

fn shared(history: &History) -> Vec<MessageRef> {
    history.entries().map(|e| e.shared().clone()).collect()
}

fn sample() -> History {
    history(
        [
            vec![user("a")],
            exchange(1, "x").to_vec(),
            vec![said(2, "b"), user("c")],
            exchange(3, "y").to_vec(),
        ]
        .concat(),
    )
}

/// The splices' ranges, and the history after them.
#[track_caller]
fn applied(old: &History, new: Vec<MessageRef>) -> (Vec<(usize, usize, usize)>, History, Vec<Repair>) {
    let (splices, repairs) = splices_between(old, new);
    let ranges = splices.iter().map(|s| (s.from, s.to, s.messages.len())).collect();
    (ranges, old.spliced(&splices).unwrap(), repairs)
}

/// REQ-023.
#[test]
fn a_list_that_goes_on_with_the_same_messages_changes_only_what_differs() {
    let old = sample();
    let (ranges, new, repairs) = applied(&old, shared(&old));
    assert!(ranges.is_empty() && repairs.is_empty() && new.extends(&old));

    let mut list = shared(&old);
    list.splice(1..4, [MessageRef::from("summary")]);
    let (ranges, new, _) = applied(&old, list);
    assert_eq!(ranges, [(1, 4, 1)]);
    assert_eq!(texts(&new), ["a", "summary", "c", "", "y"]);
    assert!(
        Arc::ptr_eq(old.units().last().unwrap(), new.units().last().unwrap()),
        "the suffix is the same unit"
    );

    let mut list = shared(&old);
    list.remove(4);
    list.remove(0);
    list.push(MessageRef::from("new"));
    assert_eq!(applied(&old, list).0, [(0, 1, 0), (4, 5, 0), (7, 7, 1)]);
}

/// B-136, B-138.
#[test]
fn a_list_that_is_not_closed_is_closed_and_an_empty_one_stays_empty() {
    let old = sample();
    let mut list = shared(&old);
    list.remove(2);
    let (ranges, new, repairs) = applied(&old, list);
    assert_eq!(repairs, [Repair::ResultAdded { call: "call_1".into() }]);
    assert_eq!(ranges, [(1, 3, 2)]);
    assert_eq!(texts(&new)[2], crate::history::ORPHAN_RESULT);

    let mut list = shared(&old);
    list.remove(1);
    let (_, new, repairs) = applied(&old, list);
    assert_eq!(repairs, [Repair::ResultDropped { call: "call_1".into() }]);
    assert_eq!(texts(&new), ["a", "b", "c", "", "y"]);

    assert_eq!(applied(&old, Vec::new()).0, [(0, 7, 0)]);
    assert!(applied(&old, Vec::new()).1.is_empty());
    assert_eq!(applied(&History::new(), Vec::new()).0, []);
}

#[tokio::test]
async fn the_default_strategy_is_the_cascade_with_the_budget_of_the_context() {
    let long = history((0..50).map(|_| user(&"x".repeat(400))));
    let config = ContextConfig::default();
    let outcome = DefaultCompaction.compact(&long, &config, &CompactionContext::new(2_000)).await.unwrap();
    let (splices, repairs) = outcome.into_splices(&long).unwrap();
    assert!(repairs.is_empty());
    assert!(long.spliced(&splices).unwrap().tokens() <= 2_000);
    let error = DefaultCompaction.compact(&long, &config, &CompactionContext::new(3)).await.unwrap_err();
    assert!(matches!(error, CompactionError::BudgetTooSmall { budget: 3, .. }));
}

/// REQ-023.
#[tokio::test]
async fn a_plain_function_is_a_strategy_and_its_messages_keep_their_objects() {
    let old = sample();
    let strategy = SyncCompaction::new(|mut messages: Vec<AgentMessage>, config: &ContextConfig| {
        let tail = messages.split_off(messages.len() - config.keep_recent);
        messages.truncate(config.keep_first);
        messages.push(AgentMessage::user("in short"));
        messages.extend(tail);
        messages
    });
    let config = ContextConfig::default().with_keep_first(1).with_keep_recent(3);
    let outcome = strategy.compact(&old, &config, &CompactionContext::new(1)).await.unwrap();
    let (splices, repairs) = outcome.into_splices(&old).unwrap();
    assert!(repairs.is_empty());
    assert_eq!(splices.iter().map(|s| (s.from, s.to)).collect::<Vec<_>>(), [(1, 4)]);
    let new = old.spliced(&splices).unwrap();
    assert_eq!(texts(&new), ["a", "in short", "c", "", "y"]);
    assert!(Arc::ptr_eq(old.units().last().unwrap(), new.units().last().unwrap()));
}

#[test]
fn splices_that_do_not_fit_are_an_error() {
    let old = sample();
    let cuts = CompactionOutcome::splices(vec![Splice { from: 0, to: 2, messages: vec![] }]);
    assert!(matches!(cuts.into_splices(&old), Err(CompactionError::Splice(_))));
}

fn any_list(old: &History) -> impl Strategy<Value = Vec<MessageRef>> + use<> {
    let own = shared(old);
    let other = [user("new"), reply(8, vec![call("call_1")]), result("call_3", "z"), said(9, "w")]
        .map(MessageRef::from);
    prop::collection::vec(prop::sample::select([own, other.to_vec()].concat()), 0..12)
}

proptest! {
    #[test]
    fn any_list_at_all_becomes_splices_that_give_it_closed(list in any_list(&sample())) {
        // The generator's history is another object; take the one that the list is about.
        let old = sample();
        let (splices, repairs) = splices_between(&old, list.clone());
        let new = old.spliced(&splices).expect("they fit");
        let (expect, expected_repairs) = History::repaired(list);
        prop_assert_eq!(new, expect);
        prop_assert_eq!(repairs, expected_repairs);
    }

    #[test]
    fn any_choice_of_own_messages_becomes_splices_that_give_it_closed(picks in prop::collection::vec(0..7_usize, 0..12)) {
        let old = sample();
        let own = shared(&old);
        let list: Vec<MessageRef> = picks.iter().map(|n| own[*n].clone()).collect();
        let (splices, _) = splices_between(&old, list.clone());
        let new = old.spliced(&splices).expect("they fit");
        prop_assert_eq!(new, History::repaired(list).0);
    }
}
