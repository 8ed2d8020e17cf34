//! Joins the encoded forms of the units of a full chunk, so that a long conversation is written in few pieces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Unit;
use crate::wire::{Encoded, WireCache, WireKey};

/// The maximum size of a joined form in bytes. It stores the bytes of its units a second time, which is not worth it
/// for long units.
const MOST_BYTES: usize = 32 << 10;

/// The separator between two forms, which are elements of a JSON list.
const SEPARATOR: u8 = b',';

/// Caches the joined forms of a full chunk.
#[derive(Default)]
pub(super) struct Joined {
    /// Whether the form was requested before. Nothing is joined on the first request, because a list that a hook
    /// rebuilds for each request is written only once.
    requested: AtomicBool,
    forms: WireCache,
}

impl Joined {
    /// Calls `read` with the joined form of `units`. Returns `false` if there is none and each unit must be read
    /// separately.
    pub(super) fn with(
        &self,
        units: &[Arc<Unit>],
        key: WireKey,
        make: &impl Fn(&Unit) -> Encoded,
        read: &mut impl FnMut(&Encoded),
    ) -> bool {
        if !self.requested.load(Ordering::Relaxed) {
            self.requested.store(true, Ordering::Relaxed);
            return false;
        }
        self.forms.with(
            key,
            || joined(units, key, make),
            |form| {
                let is_joined = !form.bytes().is_empty();
                if is_joined {
                    read(form);
                }
                is_joined
            },
        )
    }
}

/// Joins the forms. Returns an empty form if the result would be too long.
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
                // `NO_MARK` is the largest number and stays it.
                marks.extend(form.marks().iter().map(|mark| mark.saturating_add(start)));
            },
        );
        if bytes.len() > MOST_BYTES {
            return Encoded::default();
        }
    }
    Encoded::new(bytes, marks)
}
