//! Laws for any list of messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::{ended, note, reply, result, shared, user};
use crate::history::{Entry, History, Splice, UnitKind};
use crate::message::{AgentMessage, AssistantMessage, StopReason};

fn any_message() -> impl Strategy<Value = AgentMessage> {
    let id = prop::sample::select(vec!["", "a", "b", "c"]);
    let ids = prop::collection::vec(id.clone(), 1..4);
    prop_oneof![
        "[a-z]{1,3}".prop_map(|t| user(&t)),
        "[a-z]{1,3}".prop_map(|t| note(&t)),
        "[a-z]{0,3}".prop_map(|t| reply(&t, &[])),
        ids.clone().prop_map(|ids| reply("calls", &ids)),
        ids.prop_map(|ids| ended(StopReason::Error, "failed", &ids)),
        id.prop_map(|id| result(id, "out")),
    ]
}

fn any_list() -> impl Strategy<Value = Vec<AgentMessage>> {
    prop::collection::vec(any_message(), 0..100)
}

fn of_role(messages: &[AgentMessage], role: &str) -> Vec<AgentMessage> {
    messages.iter().filter(|m| m.role() == role).cloned().collect()
}

proptest! {
    /// B-136, B-137, B-138.
    #[test]
    fn any_list_is_closed_by_repair_and_a_second_repair_finds_nothing(list in any_list()) {
        let (history, repairs) = History::repaired(list.clone());
        let mut ids = BTreeSet::new();
        for unit in history.units() {
            let calls: Vec<String> = unit.reply().into_iter().flat_map(AssistantMessage::tool_calls).map(|c| c.id.to_string()).collect();
            let results: Vec<String> = unit.results().map(|r| r.tool_call_id.to_string()).collect();
            match unit.kind() {
                UnitKind::Exchange => {
                    prop_assert_eq!(&calls, &results);
                    for id in calls {
                        prop_assert!(!id.is_empty() && history.has_call(&id));
                        prop_assert!(ids.insert(id), "every call has a name of its own");
                    }
                }
                UnitKind::Message => prop_assert!(calls.is_empty() && results.is_empty()),
                UnitKind::Failed => prop_assert!(results.is_empty()),
            }
        }
        let (again, second) = History::repaired(history.to_vec());
        prop_assert_eq!(&second, &[]);
        prop_assert_eq!(&again, &history);
        prop_assert!(!repairs.is_empty() || history.len() == list.len());

        let now = history.to_vec();
        for role in ["user", "extension"] {
            prop_assert_eq!(of_role(&list, role), of_role(&now, role), "no {} is lost or moved among its like", role);
        }
        prop_assert_eq!(of_role(&list, "assistant").len(), of_role(&now, "assistant").len());
        prop_assert_eq!(history.tokens(), history.entries().map(Entry::tokens).sum::<u64>());
    }

    #[test]
    fn a_list_of_own_messages_is_rebuilt_as_it_would_be_repaired(list in any_list(), picks in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        let (history, _) = History::repaired(list);
        let own = shared(&history);
        if own.is_empty() {
            return Ok(());
        }
        let (all, repairs) = history.rebuilt(own.clone());
        prop_assert!(repairs.is_empty() && all.units().zip(history.units()).all(|(a, b)| Arc::ptr_eq(a, b)));
        let chosen: Vec<_> = picks.iter().map(|p| p.get(&own).clone()).collect();
        prop_assert_eq!(history.rebuilt(chosen.clone()), History::repaired(chosen));
    }

    /// D7.
    #[test]
    fn two_lists_share_the_units_of_their_common_past(
        before in 0..200_usize, one in 0..150_usize, two in 0..150_usize,
    ) {
        let mut past = History::new();
        for n in 0..before {
            past.push(user(&n.to_string())).expect("it enters");
        }
        let (mut a, mut b) = (past.clone(), past.clone());
        for n in 0..one.max(two) {
            if n < one { a.push(user("a")).expect("it enters"); }
            if n < two { b.push(user("b")).expect("it enters"); }
        }
        let naive = a.units().zip(b.units()).take_while(|(x, y)| Arc::ptr_eq(x, y)).count();
        prop_assert_eq!(naive, before);
        prop_assert_eq!(a.shared_units(&b), naive);
        prop_assert_eq!(b.shared_units(&a), naive);
        prop_assert!(a.extends(&past) && b.extends(&past));
        prop_assert_eq!(a.extends(&b), two == 0);
        // The same units in chunks of their own.
        let (copy, _) = a.rebuilt(shared(&a));
        prop_assert!(copy.extends(&a) && a.extends(&copy));
        prop_assert_eq!(copy.shared_units(&b), naive);
    }

    #[test]
    fn splices_do_what_they_do_to_a_plain_list_or_change_nothing(
        list in any_list(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6), new in prop::collection::vec("[a-z]", 0..3),
    ) {
        let (history, _) = History::repaired(list);
        let mut bounds: Vec<usize> = cuts.iter().map(|c| c.index(history.len() + 1)).collect();
        bounds.sort_unstable();
        let splices: Vec<Splice> = bounds
            .chunks_exact(2)
            .map(|pair| Splice { from: pair[0], to: pair[1], messages: new.iter().map(|t| Entry::from(user(t))).collect() })
            .collect();
        let mut starts = BTreeSet::from([history.len()]);
        let mut at = 0;
        for unit in history.units() {
            starts.insert(at);
            at += unit.entries().len();
        }
        let fits = splices.iter().all(|s| starts.contains(&s.from) && starts.contains(&s.to));
        let spliced = history.spliced(&splices);
        prop_assert_eq!(spliced.is_ok(), fits, "{:?}", spliced);
        if let Ok(spliced) = spliced {
            let mut plain = history.to_vec();
            for s in splices.iter().rev() {
                plain.splice(s.from..s.to, s.messages.iter().map(|e| e.message().clone()));
            }
            prop_assert_eq!(spliced.to_vec(), plain);
        }
    }
}
