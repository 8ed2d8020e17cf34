//! Encoded forms of a whole list.

use std::cell::Cell;

use super::{closed, shared, user};
use crate::history::History;
use crate::message::AgentMessage;
use crate::wire::{Encoded, WireKey};

/// `n` messages, each of this many letters.
fn list(n: usize, letters: usize) -> History {
    closed((0..n).map(|n| user(&format!("{n}").repeat(letters))))
}

fn text(message: Option<&AgentMessage>) -> String {
    message.map(AgentMessage::text).unwrap_or_default()
}

/// What is read under this key: the whole list, the places of its marks, and in how many forms it came.
fn read(history: &History, key: &str) -> (String, Vec<Option<usize>>, usize) {
    let (mut out, mut marks, mut forms) = (String::new(), Vec::new(), 0);
    let make = |unit: &crate::history::Unit| match text(unit.first()) {
        hidden if hidden == "3" => Encoded::default(),
        // A mark behind its first letter, but none in each seventh message.
        said if said.ends_with('7') => Encoded::new(format!("{key}{said}").into_bytes(), [Encoded::NO_MARK]),
        said => Encoded::new(format!("{key}{said}").into_bytes(), [1]),
    };
    history.encoded(WireKey::new(&[key]), make, |form| {
        forms += 1;
        if form.bytes().is_empty() {
            return;
        }
        if !out.is_empty() {
            out.push(',');
        }
        let base = out.len();
        out.push_str(std::str::from_utf8(form.bytes()).unwrap());
        marks.extend(form.marks().iter().map(|m| (*m != Encoded::NO_MARK).then(|| base + *m as usize)));
    });
    (out, marks, forms)
}

#[test]
fn a_list_reads_the_same_however_often_and_in_however_many_forms() {
    let history = list(100, 1);
    for key in ["a", "b", "a", "c", "d", "e", "a"] {
        let said: Vec<String> = (0..100).filter(|n| *n != 3).map(|n| format!("{key}{n}")).collect();
        let mut at = 0;
        let marks: Vec<Option<usize>> = said
            .iter()
            .map(|s| {
                let mark = (!s.ends_with('7')).then_some(at + 1);
                at += s.len() + 1;
                mark
            })
            .collect();
        for _ in 0..3 {
            let (out, found, _) = read(&history, key);
            assert_eq!(out, said.join(","));
            assert_eq!(found, marks);
        }
    }
}

#[test]
fn what_is_old_is_read_in_few_forms_from_the_second_time_on() {
    let mut history = list(100, 1);
    let forms = |history: &History| read(history, "a").2;
    assert_eq!((forms(&history), forms(&history), forms(&history)), (100, 7, 7));
    let earlier = history.clone();
    history.push(user("next")).unwrap();
    assert_eq!((forms(&history), forms(&earlier)), (8, 7));
    // Made anew for each request: joining would be for nothing.
    let anew = history.rebuilt(shared(&history)).0;
    assert_eq!(forms(&anew), 101);
}

#[test]
fn units_keep_their_forms_and_nothing_is_made_twice() {
    let history = list(100, 1);
    let made = Cell::new(0);
    let key = WireKey::new(&["a"]);
    let read = |history: &History| {
        let make = |_: &crate::history::Unit| {
            made.set(made.get() + 1);
            Encoded::new(*b"{}", [])
        };
        history.encoded(key, make, |_| ());
    };
    for _ in 0..3 {
        read(&history);
        read(&history.rebuilt(shared(&history)).0);
    }
    assert_eq!(made.get(), 100);
}

/// Their bytes would be held twice.
#[test]
fn long_units_are_not_joined() {
    let history = list(64, 2_000);
    let (first, second) = (read(&history, "a"), read(&history, "a"));
    assert_eq!((first.2, second.2), (64, 64));
    assert_eq!((first.0, first.1), (second.0, second.1));
}
