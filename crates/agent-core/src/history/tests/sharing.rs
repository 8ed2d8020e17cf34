//! What lists have in common.

use std::sync::Arc;

use super::{closed, note, push_exchange, reply, result, shared, texts, user};
use crate::history::{History, MessageRef};

/// D7.
#[test]
fn an_append_leaves_every_clone_as_it_was() {
    let mut history = History::new();
    let mut clones = vec![history.clone()];
    for n in 0..200 {
        history.push(user(&n.to_string())).unwrap();
        clones.push(history.clone());
    }
    for (n, clone) in clones.iter().enumerate() {
        assert_eq!((clone.len(), clone.unit_count()), (n, n));
        assert!(history.extends(clone), "{n}");
        assert_eq!(history.shared_units(clone), n);
    }
    // Two lists that go on differently from the same past share it and nothing more.
    let mut other = clones[130].clone();
    other.push(user("other")).unwrap();
    assert_eq!((history.shared_units(&other), other.shared_units(&history)), (130, 130));
    assert!(!history.extends(&other) && !other.extends(&history));
    assert_eq!(texts(&clones[130]).last().map(String::as_str), Some("129"));
}

#[test]
fn equal_messages_that_are_other_objects_are_equal_and_not_shared() {
    let (a, b) = (closed([user("a")]), closed([user("a")]));
    assert_eq!(a, b);
    assert_eq!(a.shared_units(&b), 0);
    assert_ne!(a, closed([user("b")]));
}

#[test]
fn a_hundred_thousand_messages_are_appended_and_dropped() {
    let mut history = History::new();
    for _ in 0..50_000 {
        history.push(user("x")).unwrap();
        history.push(reply("y", &[])).unwrap();
    }
    let early = history.clone();
    history.push(note("z")).unwrap();
    assert_eq!((history.len(), early.len()), (100_001, 100_000));
    assert!(history.extends(&early));
    drop(history);
    assert_eq!(early.messages().count(), 100_000);
}

#[test]
fn calls_are_found_in_every_chunk() {
    let mut history = History::new();
    for n in 0..300 {
        push_exchange(&mut history, &format!("call_{n}"));
    }
    for n in [0, 63, 64, 299] {
        assert!(history.has_call(&format!("call_{n}")), "{n}");
    }
    assert!(!history.has_call("call_300"));
}

#[test]
fn rebuilding_keeps_the_units_where_the_list_goes_on_with_the_same_objects() {
    let old = closed([user("a"), reply("b", &["x", "y"]), result("x", "1"), result("y", "2"), user("c")]);
    let units: Vec<_> = old.units().cloned().collect();

    let (same, repairs) = old.rebuilt(shared(&old));
    assert!(repairs.is_empty() && same.unit_count() == 3);
    assert!(same.units().zip(&units).all(|(a, b)| Arc::ptr_eq(a, b)));

    let mut list = shared(&old);
    list[0] = MessageRef::from("A");
    list.push(MessageRef::from("d"));
    let (new, _) = old.rebuilt(list);
    let kept: Vec<bool> = new.units().map(|u| units.iter().any(|v| Arc::ptr_eq(u, v))).collect();
    assert_eq!(kept, [false, true, true, false]);

    // An exchange that lost a result is another one.
    let mut list = shared(&old);
    list.remove(3);
    let (new, repairs) = old.rebuilt(list);
    let kept: Vec<bool> = new.units().map(|u| units.iter().any(|v| Arc::ptr_eq(u, v))).collect();
    assert_eq!((kept, repairs.len()), (vec![true, false, true], 1));

    // The same exchange twice: the second one gets other ids.
    let list = [shared(&old), shared(&old)].concat();
    let (twice, repairs) = old.rebuilt(list);
    assert_eq!((twice.len(), repairs.len()), (10, 2));
}

#[test]
fn the_counts_of_kept_messages_are_kept_too() {
    let mut old = History::new();
    old.push_entry(crate::history::Entry::new(MessageRef::from("a"), 1_000)).unwrap();
    assert_eq!(old.rebuilt(shared(&old)).0.tokens(), 1_000);
}
