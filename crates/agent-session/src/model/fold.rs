//! Rebuilds the conversation of a loop from its events.

use agent_core::fold::Fold;
use agent_core::{History, LoopId};

use super::LoopRecord;
use crate::error::{BoxError, SessionError};

/// Folds the events of a loop over the conversation after the loop before it.
pub(super) fn fold_loop(record: &LoopRecord, before: &History) -> Result<Fold, SessionError> {
    let mut fold = Fold::new(begin(record, before)?);
    for event in record.events.iter().filter_map(|e| e.known()) {
        fold.push(event).map_err(|e| failed(&record.loop_id, e))?;
    }
    Ok(fold)
}

/// Returns the conversation that a loop begins with, from the conversation after the loop before it.
pub(super) fn begin(record: &LoopRecord, before: &History) -> Result<History, SessionError> {
    match &record.base {
        None => Ok(before.clone()),
        Some(base) => before.rewound(base.keep, base.added.clone()).map_err(|e| failed(&record.loop_id, e)),
    }
}

pub(super) fn failed(loop_id: &LoopId, source: impl Into<BoxError>) -> SessionError {
    SessionError::Fold { loop_id: loop_id.clone(), source: source.into() }
}
