//! Replacing ranges.

use std::sync::Arc;

use super::{closed, push_exchange, reply, result, texts, user};
use crate::history::{Entry, History, Splice, SpliceError};
use crate::message::AgentMessage;

/// user, reply, result, result, user, user
fn sample() -> History {
    closed([user("0"), reply("1", &["a", "b"]), result("a", "2"), result("b", "3"), user("4"), user("5")])
}

fn splice(from: usize, to: usize, messages: &[AgentMessage]) -> Splice {
    Splice { from, to, messages: messages.iter().cloned().map(Entry::from).collect() }
}

#[track_caller]
fn check(splices: &[Splice], expect: &[&str]) -> History {
    let new = sample().spliced(splices).unwrap();
    assert_eq!(texts(&new), expect);
    new
}

#[test]
fn ranges_are_replaced_removed_and_inserted_at() {
    check(&[], &["0", "1", "2", "3", "4", "5"]);
    check(&[splice(0, 1, &[user("x"), user("y")])], &["x", "y", "1", "2", "3", "4", "5"]);
    check(&[splice(1, 4, &[])], &["0", "4", "5"]);
    check(&[splice(0, 6, &[])], &[]);
    check(&[splice(4, 4, &[user("x")])], &["0", "1", "2", "3", "x", "4", "5"]);
    check(
        &[splice(0, 0, &[user("x")]), splice(6, 6, &[user("y")])],
        &["x", "0", "1", "2", "3", "4", "5", "y"],
    );
    check(&[splice(0, 1, &[]), splice(1, 4, &[user("x")]), splice(5, 6, &[])], &["x", "4"]);
    check(&[splice(1, 4, &[reply("r", &["c"]), result("c", "s")])], &["0", "r", "s", "4", "5"]);
    check(&[splice(1, 1, &[user("x")]), splice(1, 4, &[user("y")])], &["0", "x", "y", "4", "5"]);
}

#[test]
fn what_is_not_replaced_stays_the_same_unit() {
    let old = sample();
    let new = old.spliced(&[splice(0, 1, &[user("x")])]).unwrap();
    assert!(old.units().skip(1).zip(new.units().skip(1)).all(|(a, b)| Arc::ptr_eq(a, b)));
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a case is one line")]
fn refused(splices: &[Splice], expect: SpliceError) {
    assert_eq!(sample().spliced(splices).unwrap_err(), expect);
}

#[test]
fn a_range_may_not_part_a_call_from_its_result() {
    refused(&[splice(0, 2, &[])], SpliceError::CutsExchange { at: 2 });
    refused(&[splice(2, 5, &[])], SpliceError::CutsExchange { at: 2 });
    refused(&[splice(1, 3, &[])], SpliceError::CutsExchange { at: 3 });
    refused(&[splice(2, 2, &[user("x")])], SpliceError::CutsExchange { at: 2 });
    refused(&[splice(0, 1, &[reply("r", &["c"])])], SpliceError::Unpaired { from: 0, to: 1 });
    refused(&[splice(0, 1, &[result("c", "r")])], SpliceError::Unpaired { from: 0, to: 1 });
}

#[test]
fn a_range_must_lie_inside_and_after_the_one_before_it() {
    let range = |from, to| SpliceError::Range { from, to, len: 6 };
    refused(&[splice(0, 7, &[])], range(0, 7));
    refused(&[splice(7, 7, &[])], range(7, 7));
    refused(&[splice(4, 1, &[])], range(4, 1));
    refused(&[splice(4, 5, &[]), splice(0, 1, &[])], range(0, 1));
    refused(&[splice(4, 6, &[]), splice(5, 6, &[])], range(5, 6));
}

#[test]
fn a_rewound_history_equals_the_splice_of_its_end_and_shares_the_units_before_it() {
    let mut history = History::new();
    for n in 0..80 {
        match n % 3 {
            0 => push_exchange(&mut history, &format!("c{n}")),
            _ => history.push(user(&format!("message {n}"))).unwrap(),
        }
    }
    for keep in 0..=history.len() + 1 {
        for added in [vec![], vec![Entry::from(user("added"))], vec![Entry::from(result("c", "bare"))]] {
            let splice = Splice { from: keep, to: history.len(), messages: added.clone() };
            let expected = super::super::splice::replaced(&history, &[splice]);
            let rewound = history.rewound(keep, added.clone());
            assert_eq!(rewound, expected, "{keep}");
            let Ok(mut rewound) = rewound else { continue };
            let mut expected = expected.unwrap();
            assert_eq!((rewound.tokens(), rewound.unit_count()), (expected.tokens(), expected.unit_count()));
            assert_eq!(rewound.shared_units(&history), expected.shared_units(&history));
            let calls = ["c0", "c39", "c78"];
            assert_eq!(calls.map(|id| rewound.has_call(id)), calls.map(|id| expected.has_call(id)));
            // Both continue alike, over the end of a chunk.
            for n in 0..40 {
                rewound.push(user(&format!("later {n}"))).unwrap();
                expected.push(user(&format!("later {n}"))).unwrap();
            }
            assert_eq!(rewound, expected);
        }
    }
}
