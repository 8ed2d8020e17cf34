//! Closing lists from elsewhere.

use super::{closed, ended, note, reply, result, texts, user};
use crate::history::{History, ORPHAN_RESULT, Repair};
use crate::message::{AgentMessage, Message, StopReason};

#[track_caller]
fn check(list: Vec<AgentMessage>, expect: &[&str], repairs: &[Repair]) -> History {
    let (history, found) = History::repaired(list);
    assert_eq!(texts(&history), expect);
    assert_eq!(found, repairs);
    history
}

fn added(id: &str) -> Repair {
    Repair::ResultAdded { call: id.into() }
}

fn dropped(id: &str) -> Repair {
    Repair::ResultDropped { call: id.into() }
}

/// B-136, B-137.
#[test]
fn a_call_without_a_result_gets_one_that_says_so_wherever_it_stands() {
    let next = || vec![user("next"), reply("next", &[])];
    for next in next() {
        let text = next.text();
        let history = check(
            vec![user("go"), reply("r", &["a"]), next],
            &["go", "r", ORPHAN_RESULT, text.as_str()],
            &[added("a")],
        );
        let made_up = history.llm_messages().nth(2).and_then(Message::as_tool_result).unwrap();
        assert!(made_up.is_error && made_up.tool_call_id == "a" && made_up.tool_name == "tool");
    }
    check(vec![reply("r", &["a"])], &["r", ORPHAN_RESULT], &[added("a")]);
    check(vec![reply("r", &["a", "b"]), result("b", "out")], &["r", ORPHAN_RESULT, "out"], &[added("a")]);
}

/// B-138.
#[test]
fn a_result_without_its_call_is_left_out() {
    check(vec![result("a", "x"), user("go")], &["go"], &[dropped("a")]);
    check(vec![user("go"), result("a", "x")], &["go"], &[dropped("a")]);
    check(
        vec![reply("r", &["a"]), result("a", "x"), result("a", "again"), result("b", "y")],
        &["r", "x"],
        &[dropped("a"), dropped("b")],
    );
    check(
        vec![reply("r", &["a"]), user("between"), result("a", "late")],
        &["r", ORPHAN_RESULT, "between"],
        &[added("a"), dropped("a")],
    );
}

#[test]
fn results_are_put_in_the_order_of_their_calls() {
    check(
        vec![reply("r", &["a", "b"]), result("b", "B"), result("a", "A")],
        &["r", "A", "B"],
        &[Repair::ResultsReordered { call: "a".into() }],
    );
}

#[test]
fn an_empty_or_repeated_id_is_replaced_in_the_call_and_in_its_result() {
    for (list, place) in [
        (vec![reply("r", &[""]), result("", "x")], 0),
        (vec![reply("r", &["a", "a"]), result("a", "x"), result("a", "y")], 1),
        (vec![reply("q", &["a"]), result("a", "w"), reply("r", &["a"]), result("a", "x")], 0),
    ] {
        let (history, repairs) = History::repaired(list.clone());
        let [Repair::CallRenamed { from, to }] = repairs.as_slice() else { panic!("{repairs:?}") };
        assert!(!to.as_str().is_empty() && from != to);
        let unit = history.units().last().unwrap();
        let call = unit.reply().unwrap().tool_calls().nth(place).unwrap();
        assert_eq!((&call.id, &unit.results().nth(place).unwrap().tool_call_id), (to, to));
        let all: Vec<String> = list.iter().map(AgentMessage::text).collect();
        assert_eq!(texts(&history), all, "nothing else is changed");
        assert_eq!(History::repaired(list).1, repairs, "the new id is the same each time");
    }
}

/// B-139.
#[test]
fn the_calls_of_a_failed_reply_want_no_result() {
    check(vec![ended(StopReason::Error, "half", &["a"]), user("next")], &["half", "next"], &[]);
    check(vec![ended(StopReason::Aborted, "half", &["a"]), result("a", "x")], &["half"], &[dropped("a")]);
}

#[test]
fn a_note_between_a_call_and_its_result_goes_before_them_and_one_after_them_stays_after() {
    check(vec![reply("r", &["a"]), note("n"), result("a", "x"), user("u")], &["", "r", "x", "u"], &[]);
    let list = vec![reply("r", &["a"]), result("a", "x"), note("n"), user("u")];
    let history = closed(list.clone());
    assert_eq!(history.to_vec(), list);
}
