//! What may enter, and how.

use super::{closed, ended, note, reply, result, user};
use crate::history::{Entry, History, HistoryError, UnitKind};
use crate::message::{AgentMessage, StopReason};

fn entries(list: Vec<AgentMessage>) -> Vec<Entry> {
    list.into_iter().map(Entry::from).collect()
}

#[track_caller]
fn refused(error: Result<(), HistoryError>, expect: &str) {
    let error = error.unwrap_err().to_string();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn an_open_call_a_bare_result_and_a_failed_reply_do_not_enter_by_push() {
    let mut history = History::new();
    refused(history.push(reply("", &["a", "b"])), "2 open tool call(s)");
    refused(history.push(result("a", "x")), "\"a\" cannot enter the history without its call");
    refused(history.push(ended(StopReason::Aborted, "", &[])), "push_failed");
    assert!(history.is_empty());
    history.push(user("a")).unwrap();
    history.push(note("b")).unwrap();
    history.push(reply("c", &[])).unwrap();
    assert_eq!((history.len(), history.unit_count()), (3, 3));
}

#[test]
fn an_exchange_enters_only_with_all_its_results_in_order() {
    let mut history = History::new();
    let call = || Entry::from(reply("", &["a", "b"]));
    for results in [
        vec![],
        vec![result("a", "x")],
        vec![result("b", "x"), result("a", "x")],
        vec![result("a", "x"), result("b", "x"), result("c", "x")],
        vec![result("a", "x"), user("b")],
    ] {
        refused(history.push_exchange(call(), entries(results)), "one to one");
    }
    refused(history.push_exchange(Entry::from(reply("", &[])), vec![]), "one to one");
    refused(history.push_exchange(Entry::from(user("x")), vec![]), "one to one");
    let twice = Entry::from(reply("", &["a", "a"]));
    refused(history.push_exchange(twice, entries(vec![result("a", "x"), result("a", "y")])), "one to one");
    let unnamed = Entry::from(reply("", &[""]));
    refused(history.push_exchange(unnamed, entries(vec![result("", "x")])), "one to one");
    let failed = Entry::from(ended(StopReason::Error, "", &["a"]));
    refused(history.push_exchange(failed, entries(vec![result("a", "x")])), "push_failed");
    assert!(history.is_empty());

    history.push_exchange(call(), entries(vec![result("a", "x"), result("b", "y")])).unwrap();
    assert_eq!((history.len(), history.unit_count()), (3, 1));
    let unit = history.units().next().unwrap();
    assert_eq!((unit.kind(), unit.results().count()), (UnitKind::Exchange, 2));
    assert!(history.has_call("a") && history.has_call("b") && !history.has_call("c"));
}

/// B-139.
#[test]
fn a_failed_reply_is_kept_and_its_calls_are_inert() {
    let mut history = History::new();
    history.push_failed(Entry::from(ended(StopReason::Error, "half", &["a"]))).unwrap();
    assert_eq!(history.units().next().unwrap().kind(), UnitKind::Failed);
    assert_eq!(history.last_reply().map(|r| r.stop_reason), Some(StopReason::Error));
    refused(history.push_failed(Entry::from(reply("fine", &[]))), "push or push_exchange");
    refused(history.push_failed(Entry::from(user("x"))), "push");
    assert_eq!(history.len(), 1);
}

#[test]
fn what_is_in_it_can_be_asked() {
    let history = closed([user("12345678"), note("n"), reply("fine", &[]), user("more")]);
    assert_eq!(history.tokens(), history.entries().map(Entry::tokens).sum::<u64>());
    assert_eq!(history.llm_messages().count(), 3);
    assert_eq!(history.last().map(AgentMessage::text).as_deref(), Some("more"));
    assert_eq!(history.last_reply().map(crate::message::AssistantMessage::text).as_deref(), Some("fine"));
    assert_eq!(History::new().last(), None);
    assert_eq!(History::new().last_reply(), None);
}

/// REQ-018.
#[test]
fn it_survives_json_and_a_list_that_is_not_closed_is_closed_on_reading() {
    let history = closed([user("a"), reply("", &["x"]), result("x", "out"), note("n")]);
    let json = serde_json::to_string(&history).unwrap();
    assert_eq!(serde_json::from_str::<History>(&json).unwrap(), history);

    let mut list: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    list.remove(2);
    let read: History = serde_json::from_value(list.into()).unwrap();
    assert_eq!(read.len(), 4, "the call has a result again");
    assert!(History::repaired(read.to_vec()).1.is_empty());
}
