//! The difference of a checkpoint to an earlier one, so that a long list is not written again with each record.

use super::RunCheckpoint;
use crate::history::MessageRef;
use crate::run::Phase;
use crate::run::queues::Queued;

/// The minimum length of a list of which only the difference is written.
const LONG: usize = 16;

/// A list of a checkpoint whose first and last items are those of the list of the earlier checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptItems {
    /// The place of the list in the JSON of the checkpoint, as a JSON pointer.
    pub list: &'static str,
    /// The number of items that the lists have in common at the beginning.
    pub first: usize,
    /// The number of further items that the lists have in common at the end.
    pub last: usize,
}

impl RunCheckpoint {
    /// Returns whether a list of the checkpoint is so long that a journal should write the
    /// [difference](Self::take_difference) to the checkpoint before.
    #[must_use]
    pub fn is_long(&self) -> bool {
        let calls = if let Phase::Tools(open) = &self.phase { open.slots.len() } else { 0 };
        calls >= LONG || self.queues.len() >= LONG
    }

    /// Removes from the long lists the items that they have in common with the lists of an earlier checkpoint, and returns
    /// how many. A journal of `n` calls or queued messages that writes both has a size proportional to `n`.
    ///
    /// In the JSON of this checkpoint, such a list then has only the new items. The whole list is the first `first` items of
    /// the earlier list, the new items, and the last `last` items of the earlier list.
    #[must_use]
    pub fn take_difference(&mut self, earlier: &Self) -> Vec<KeptItems> {
        let mut kept = Vec::new();
        if let (Phase::Tools(new), Phase::Tools(old)) = (&mut self.phase, &earlier.phase) {
            let found = common(new.slots.iter(), old.slots.iter(), |a, b| a == b);
            kept.extend(found.map(|common| {
                new.slots.truncate(common.end);
                new.slots.drain(..common.first);
                common.of("/phase/Tools/slots")
            }));
        }
        let [(steering, old_steering), (follow_up, old_follow_up)] = self.queues.paired(&earlier.queues);
        for (list, new, old) in
            [("/queues/steering", steering, old_steering), ("/queues/follow_up", follow_up, old_follow_up)]
        {
            let found = common(new.iter(), old.iter(), is_same);
            kept.extend(found.map(|common| {
                new.truncate(common.end);
                new.drain(..common.first);
                common.of(list)
            }));
        }
        kept
    }
}

/// What a list has in common with an earlier one.
struct Common {
    first: usize,
    last: usize,
    /// The position of the end of the new items.
    end: usize,
}

impl Common {
    fn of(&self, list: &'static str) -> KeptItems {
        KeptItems { list, first: self.first, last: self.last }
    }
}

/// Returns what two lists have in common; `None` for a short list, and if they have nothing in common.
fn common<'a, T: 'a>(
    new: impl DoubleEndedIterator<Item = &'a T> + ExactSizeIterator + Clone,
    old: impl DoubleEndedIterator<Item = &'a T> + ExactSizeIterator + Clone,
    same: impl Fn(&T, &T) -> bool,
) -> Option<Common> {
    let (length, shorter) = (new.len(), new.len().min(old.len()));
    if shorter < LONG {
        return None;
    }
    // One item stays, because an empty list can be absent from the JSON.
    let first = new.clone().zip(old.clone()).take_while(|(a, b)| same(a, b)).count();
    let first = first.min(length - 1);
    let pairs = new.rev().zip(old.rev()).take((shorter - first).min(length - first - 1));
    let last = pairs.take_while(|(a, b)| same(a, b)).count();
    (first + last > 0).then_some(Common { first, last, end: length - last })
}

/// Returns whether two queued messages are the same one. Equal messages that are not shared count as different.
fn is_same(a: &Queued, b: &Queued) -> bool {
    a.kind == b.kind
        && a.entry.tokens() == b.entry.tokens()
        && MessageRef::same(a.entry.shared(), b.entry.shared())
}

#[cfg(test)]
mod tests;
