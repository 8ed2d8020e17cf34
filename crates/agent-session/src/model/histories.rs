//! The conversations of the loops of a session.

use agent_core::History;
use agent_core::fold::Fold;

use super::fold::{begin, fold_loop};
use super::{LoopIndex, Session};
use crate::error::SessionError;

/// The conversations before and after the loops of a session. Each loop is folded at most once.
pub(crate) struct Histories<'a> {
    index: LoopIndex<'a>,
    /// The conversation after each loop, or the position of the loop whose events do not make one.
    after: Vec<Option<Result<History, usize>>>,
}

impl<'a> Histories<'a> {
    pub(crate) fn of(session: &'a Session) -> Self {
        Self { index: LoopIndex::of(session), after: vec![None; session.loops.len()] }
    }

    pub(crate) fn index(&self) -> &LoopIndex<'a> {
        &self.index
    }

    /// Returns the conversation after a loop, without an open exchange.
    pub(crate) fn after(&mut self, at: usize) -> Result<History, SessionError> {
        match self.resolve(at) {
            Ok(history) => Ok(history),
            // The same loop fails again.
            Err(failed) => self.fold_of(failed).map(|fold| fold.history().clone()),
        }
    }

    /// Returns the conversation before a loop.
    pub(crate) fn begin(&mut self, at: usize) -> Result<History, SessionError> {
        let before = match self.index.before(at)? {
            Some(before) => self.after(before)?,
            None => History::new(),
        };
        self.index.get(at).map_or_else(|| Ok(History::new()), |record| begin(record, &before))
    }

    /// Returns the conversation before a loop, or an empty one if the loops before it do not make a conversation.
    pub(crate) fn begin_or_empty(&mut self, at: usize) -> History {
        let before = match self.index.before(at) {
            Ok(Some(before)) => self.resolve(before).ok(),
            Ok(None) => Some(History::new()),
            Err(_) => None,
        };
        let begin = self.index.get(at).zip(before).and_then(|(record, before)| begin(record, &before).ok());
        begin.unwrap_or_default()
    }

    /// Folds a loop's events over the conversation before it.
    pub(crate) fn fold_at(&mut self, at: usize) -> Result<Fold, SessionError> {
        if let Some(before) = self.index.before(at)? {
            self.after(before)?;
        }
        self.fold_of(at)
    }

    /// Folds the loops up to this one that were not folded before.
    fn resolve(&mut self, at: usize) -> Result<History, usize> {
        let mut unknown = Vec::new();
        let mut next = Some(at);
        let mut known = Ok(History::new());
        while let Some(at) = next {
            if let Some(result) = self.after.get(at).and_then(Option::as_ref) {
                known = result.clone();
                break;
            }
            unknown.push(at);
            match self.index.before(at) {
                Ok(before) => next = before,
                Err(_) => {
                    known = Err(at);
                    break;
                }
            }
        }
        for at in unknown.into_iter().rev() {
            if known.is_ok() {
                known = self.fold_of(at).map(|fold| fold.history().clone()).map_err(|_| at);
            }
            if let Some(after) = self.after.get_mut(at) {
                *after = Some(known.clone());
            }
        }
        known
    }

    /// Folds a loop whose previous loop was resolved.
    fn fold_of(&self, at: usize) -> Result<Fold, SessionError> {
        let before =
            self.index.before(at)?.and_then(|before| self.after.get(before)?.as_ref()?.as_ref().ok());
        let nothing = History::new();
        match self.index.get(at) {
            Some(record) => fold_loop(record, before.unwrap_or(&nothing)),
            None => Ok(Fold::new(nothing)),
        }
    }
}
