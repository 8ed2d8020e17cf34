//! Computes the splices between two versions of a conversation.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::history::{Entry, History, MessageRef, Repair, Splice, Unit};

/// Returns the splices that turn `old` into `new`, and the repairs that were needed to close `new`. Messages that are
/// the same objects in both keep their place and their encoded forms. An empty `new` stays empty.
///
/// ```
/// use agent_core::{AgentMessage, History, MessageRef, splices_between};
/// let mut old = History::new();
/// for text in ["a", "b", "c", "d"] {
///     old.push(AgentMessage::user(text))?;
/// }
/// let mut new: Vec<MessageRef> = old.entries().map(|e| e.shared().clone()).collect();
/// new.splice(1..3, [MessageRef::from("b and c")]);
/// let (splices, repairs) = splices_between(&old, new);
/// assert_eq!((splices[0].from, splices[0].to, splices[0].messages.len()), (1, 3, 1));
/// assert!(splices.len() == 1 && repairs.is_empty());
/// # Ok::<(), agent_core::HistoryError>(())
/// ```
#[must_use]
pub fn splices_between(old: &History, new: Vec<MessageRef>) -> (Vec<Splice>, Vec<Repair>) {
    let (new, repairs) = old.rebuilt(new);
    // The start and the end of each unit of the old list, by object.
    let mut places: BTreeMap<*const Unit, (usize, usize)> = BTreeMap::new();
    let mut end = 0;
    for unit in old.units() {
        let from = end;
        end += unit.entries().len();
        places.insert(Arc::as_ptr(unit), (from, end));
    }
    let mut out = Vec::new();
    let mut pending: Vec<Entry> = Vec::new();
    let mut at = 0;
    for unit in new.units() {
        match places.get(&Arc::as_ptr(unit)) {
            Some(&(from, to)) if from >= at => {
                flush(&mut out, at, from, &mut pending);
                at = to;
            }
            _ => pending.extend(unit.entries().iter().cloned()),
        }
    }
    flush(&mut out, at, end, &mut pending);
    (out, repairs)
}

fn flush(out: &mut Vec<Splice>, from: usize, to: usize, pending: &mut Vec<Entry>) {
    if from < to || !pending.is_empty() {
        out.push(Splice { from, to, messages: std::mem::take(pending) });
    }
}
