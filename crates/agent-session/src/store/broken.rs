//! What could not be read of a file, in bounded memory.

use std::path::Path;

use super::salvage::Loss;
use crate::error::SessionError;

/// The maximum number of damaged places of a file or a session that are described. The others are counted.
pub(super) const MAX_DESCRIBED: usize = 100;

/// The damaged places of a file.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    errors: Vec<SessionError>,
    /// The number of places that are not described.
    more: usize,
}

impl Broken {
    pub(in crate::store) fn push(&mut self, error: SessionError) {
        if self.errors.len() < MAX_DESCRIBED { self.errors.push(error) } else { self.more += 1 }
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the first error.
    pub(in crate::store) fn into_first(self) -> Option<SessionError> {
        self.errors.into_iter().next()
    }

    /// Returns the places as losses of the file.
    pub(in crate::store) fn into_losses(self, path: &Path) -> impl Iterator<Item = Loss> {
        let more = more(self.more).map(|reason| Loss::new(path.display().to_string(), reason));
        let errors = self.errors.into_iter().map(move |error| Loss::of(path, &error));
        errors.collect::<Vec<_>>().into_iter().chain(more)
    }
}

/// Describes the places that are counted only.
pub(super) fn more(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} more places are damaged"))
}
