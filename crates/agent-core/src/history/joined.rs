//! The encoded forms of the units of a full chunk, joined: a long conversation is then written in few pieces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Unit;
use crate::wire::{Encoded, WireCache, WireKey};

/// The most bytes of a joined form. It holds the bytes of its units a second time, and saves nothing worth that where
/// they are long.
const MOST_BYTES: usize = 32 << 10;

/// What stands between two forms: all of them are elements of a JSON list.
const SEPARATOR: u8 = b',';

/// The place beside a full chunk where its joined forms are kept.
#[derive(Default)]
pub(super) struct Joined {
    /// Whether it has been asked for. Nothing is joined for the first time: a list that is made anew for each request,
    /// as a hook may do it, is written once.
    asked: AtomicBool,
    forms: WireCache,
}

impl Joined {
    /// Calls `read` with the joined form of `units`. `false` where there is none: each has to be read by itself.
    pub(super) fn with(
        &self,
        units: &[Arc<Unit>],
        key: WireKey,
        make: &impl Fn(&Unit) -> Encoded,
        read: &mut impl FnMut(&Encoded),
    ) -> bool {
        if !self.asked.load(Ordering::Relaxed) {
            self.asked.store(true, Ordering::Relaxed);
            return false;
        }
        self.forms.with(
            key,
            || joined(units, key, make),
            |form| {
                let is_kept = !form.bytes().is_empty();
                if is_kept {
                    read(form);
                }
                is_kept
            },
        )
    }
}

/// The forms behind each other; empty where that is too long.
fn joined(units: &[Arc<Unit>], key: WireKey, make: &impl Fn(&Unit) -> Encoded) -> Encoded {
    let (mut bytes, mut marks) = (Vec::new(), Vec::new());
    for unit in units {
        unit.wire().with(
            key,
            || make(unit),
            |form| {
                if !bytes.is_empty() && !form.bytes().is_empty() {
                    bytes.push(SEPARATOR);
                }
                let start = u32::try_from(bytes.len()).unwrap_or(Encoded::NO_MARK);
                bytes.extend_from_slice(form.bytes());
                // No mark is the largest number, and stays it.
                marks.extend(form.marks().iter().map(|mark| mark.saturating_add(start)));
            },
        );
        if bytes.len() > MOST_BYTES {
            return Encoded::default();
        }
    }
    Encoded::new(bytes, marks)
}
