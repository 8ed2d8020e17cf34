//! Replaces ranges of a history, as compaction does.

use serde::{Deserialize, Serialize};

use super::{Entry, History, chunk};

/// Replaces the messages `from..to` of a history by other messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Splice {
    /// The index of the first message that is replaced.
    pub from: usize,
    /// The index after the last message that is replaced.
    pub to: usize,
    /// The messages that replace the range.
    pub messages: Vec<Entry>,
}

/// The error of a splice that does not fit a history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpliceError {
    /// A range is inverted, out of bounds, or overlaps the range before it.
    #[error("the range {from}..{to} does not fit a history of {len} messages, or overlaps the one before it")]
    Range {
        /// The start of the range.
        from: usize,
        /// The end of the range.
        to: usize,
        /// The number of messages in the history.
        len: usize,
    },
    /// A range would separate a call from its result.
    #[error(
        "the boundary at message {at} lies between a tool call and its result; move it to the start or the end of the exchange"
    )]
    CutsExchange {
        /// The index of the boundary.
        at: usize,
    },
    /// The new messages contain a call without its result, or the reverse.
    #[error("the messages that replace {from}..{to} do not pair every tool call with its result")]
    Unpaired {
        /// The start of the range.
        from: usize,
        /// The end of the range.
        to: usize,
    },
}

/// Applies splices to a conversation that continues.
pub(super) fn apply(old: &History, splices: &[Splice]) -> Result<History, SpliceError> {
    Ok(super::deferred::consistent(old, replaced(old, splices)?))
}

/// Replaces ranges, and leaves what the remaining messages say about deferred calls as it is.
pub(super) fn replaced(old: &History, splices: &[Splice]) -> Result<History, SpliceError> {
    check_ranges(old, splices)?;
    let mut out = History::new();
    let mut rest = splices.iter().peekable();
    let mut at = 0;
    for unit in old.units() {
        while rest.peek().is_some_and(|s| s.from == at && s.to == at) {
            if let Some(splice) = rest.next() {
                insert(&mut out, splice)?;
            }
        }
        let end = at + unit.entries().len();
        match rest.peek() {
            Some(splice) if splice.from < end && splice.to > at => {
                if splice.from > at {
                    return Err(SpliceError::CutsExchange { at: splice.from });
                }
                if splice.to < end {
                    return Err(SpliceError::CutsExchange { at: splice.to });
                }
                if splice.to == end
                    && let Some(splice) = rest.next()
                {
                    insert(&mut out, splice)?;
                }
            }
            _ => out.append_shared(std::sync::Arc::clone(unit)),
        }
        at = end;
    }
    for splice in rest {
        insert(&mut out, splice)?;
    }
    Ok(out)
}

/// Replaces all messages from a position on, and shares the units before it.
pub(super) fn rewound(old: &History, rest: &Splice) -> Result<History, SpliceError> {
    check_ranges(old, std::slice::from_ref(rest))?;
    let tail = chunk::prefix(&old.tail, rest.from).ok_or(SpliceError::CutsExchange { at: rest.from })?;
    let mut out = History { tail };
    insert(&mut out, rest)?;
    Ok(out)
}

fn check_ranges(old: &History, splices: &[Splice]) -> Result<(), SpliceError> {
    let mut last = 0;
    for splice in splices {
        if splice.from < last || splice.to < splice.from || splice.to > old.len() {
            return Err(SpliceError::Range { from: splice.from, to: splice.to, len: old.len() });
        }
        last = splice.to;
    }
    Ok(())
}

fn insert(out: &mut History, splice: &Splice) -> Result<(), SpliceError> {
    let (part, repairs) = super::repair::repaired_part(splice.messages.iter().cloned());
    if !repairs.is_empty() {
        return Err(SpliceError::Unpaired { from: splice.from, to: splice.to });
    }
    for unit in part.units() {
        out.append_shared(std::sync::Arc::clone(unit));
    }
    Ok(())
}
