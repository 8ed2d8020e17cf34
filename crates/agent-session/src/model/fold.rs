//! Rebuilds the conversation of a loop from its events.

use agent_core::fold::Fold;
use agent_core::{History, LoopId};

use super::{LoopBase, LoopRecord};
use crate::error::{BoxError, SessionError};

/// Folds the events of a loop over the conversation before it.
pub(crate) fn fold_loop(record: &LoopRecord, before: &History) -> Result<Fold, SessionError> {
    let base = match &record.base {
        Some(base) => begin(base, before).map_err(|e| failed(&record.loop_id, e))?,
        None => before.clone(),
    };
    let mut fold = Fold::new(base);
    for event in record.events.iter().filter_map(|e| e.known()) {
        fold.push(event).map_err(|e| failed(&record.loop_id, e))?;
    }
    Ok(fold)
}

fn begin(base: &LoopBase, before: &History) -> Result<History, BoxError> {
    if base.keep == before.len() && base.added.is_empty() {
        return Ok(before.clone());
    }
    Ok(before.rewound(base.keep, base.added.clone())?)
}

pub(super) fn failed(loop_id: &LoopId, source: impl Into<BoxError>) -> SessionError {
    SessionError::Fold { loop_id: loop_id.clone(), source: source.into() }
}
