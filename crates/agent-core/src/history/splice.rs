//! Replacing ranges of a history, as a compaction does.

use serde::{Deserialize, Serialize};

use super::{Entry, History};

/// The messages `from..to` are replaced by others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Splice {
    /// The first message that goes, counted from 0.
    pub from: usize,
    /// The first message after it that stays.
    pub to: usize,
    /// What comes in its place.
    pub messages: Vec<Entry>,
}

/// Why a history was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpliceError {
    /// A range is empty the wrong way round, lies outside or overlaps the one before it.
    #[error("the range {from}..{to} does not fit a history of {len} messages, or overlaps the one before it")]
    Range {
        /// Its start.
        from: usize,
        /// Its end.
        to: usize,
        /// The length of the history.
        len: usize,
    },
    /// A range would part a call from its result.
    #[error(
        "the boundary at message {at} lies between a tool call and its result; move it to the start or the end of the exchange"
    )]
    CutsExchange {
        /// The boundary.
        at: usize,
    },
    /// The new messages hold a call without its result, or the reverse.
    #[error("the messages that replace {from}..{to} do not pair every tool call with its result")]
    Unpaired {
        /// Its start.
        from: usize,
        /// Its end.
        to: usize,
    },
}

pub(super) fn apply(old: &History, splices: &[Splice]) -> Result<History, SpliceError> {
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
    let (part, repairs) = History::repaired(splice.messages.iter().cloned());
    if !repairs.is_empty() {
        return Err(SpliceError::Unpaired { from: splice.from, to: splice.to });
    }
    for unit in part.units() {
        out.append_shared(std::sync::Arc::clone(unit));
    }
    Ok(())
}
