//! Salvages a damaged session from its rows.

use super::super::broken;
use super::super::journal::{FORM, Lines};
use super::super::json::form2::LineReader;
use super::super::salvage::Loss;
use super::Sealed;
use crate::model::Session;
use crate::model::recording::Recording;
use crate::model::stored::Gaps;

/// The number of missing rows after which a list ends, if its length is not known.
const MAX_MISSING: usize = 64;

/// One of the two lists of rows of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Rows {
    Lines,
    Records,
}

/// Gives the rows of a session one by one, so that a damaged one hides no other.
pub(in crate::store) trait RowSource {
    /// Returns the row with this number.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    fn row(&self, rows: Rows, n: u64) -> Result<Vec<u8>, String>;

    /// Returns the numbers of the first and of the last row of a list that can be found.
    fn range(&self, rows: Rows) -> Option<(u64, u64)>;
}

/// The rows of a session of which some are damaged.
pub(in crate::store) struct Part<S> {
    source: S,
    /// The store and the session, for the places of losses.
    place: String,
    pub(in crate::store) losses: Vec<Loss>,
    /// The number of losses that are not described.
    more: usize,
}

impl<S: RowSource> Part<S> {
    pub(in crate::store) fn new(source: S, place: String) -> Self {
        Self { source, place, losses: Vec::new(), more: 0 }
    }

    pub(in crate::store) fn lose(&mut self, place: &str, reason: String) {
        match self.losses.len() < broken::MAX_DESCRIBED {
            true => self.losses.push(Loss::new(format!("{}, {place}", self.place), reason)),
            false => self.more += 1,
        }
    }

    /// Returns the session with every line and record that is intact.
    pub(in crate::store) fn session(
        &mut self,
        id: &str,
        sealed: Option<&Sealed>,
        bytes: usize,
    ) -> Option<Session> {
        let mut reader = LineReader::new(id, bytes, Gaps::Filled);
        let lines = self.end(Rows::Lines, sealed.map(|sealed| sealed.lines));
        self.each(Rows::Lines, 0, lines, |line| reader.take(line));
        let recording = reader.finish().map_err(|reason| self.lose("a loop", reason)).ok()?;
        let recording = recording.or_else(|| {
            let summary = &sealed?.summary;
            Some(Recording::new(Session::new(id.into(), summary.agent_id.clone(), summary.created_at)))
        })?;
        let end = self.end(Rows::Records, sealed.map(|sealed| sealed.records.saturating_add(1)));
        let next = match recording.session.journal_records {
            // The session was never saved, or its own line is damaged.
            0 => self.source.range(Rows::Records).map(|(first, _)| first).or(end).unwrap_or(1),
            saved => saved.saturating_add(1),
        };
        let mut lines = Lines::new(recording, FORM, bytes).with_gaps(Gaps::Filled);
        self.each(Rows::Records, next, end, |line| lines.take(line));
        if let Some(reason) = broken::more(self.more) {
            self.losses.push(Loss::new(self.place.clone(), reason));
        }
        Some(lines.finish().session)
    }

    /// Returns the end of a list: the one of the summary, or behind the last row if that is later; `None` if neither is known.
    fn end(&self, rows: Rows, counted: Option<u64>) -> Option<u64> {
        let found = self.source.range(rows).map(|(_, last)| last.saturating_add(1));
        counted.max(found)
    }

    /// Passes each row of a list to `take`, one by one, so that a damaged page hides no row of another one.
    fn each(
        &mut self,
        rows: Rows,
        first: u64,
        end: Option<u64>,
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) {
        let name = match rows {
            Rows::Lines => "line",
            Rows::Records => "record",
        };
        let mut missing = Vec::new();
        let mut n = first;
        while end.map_or(missing.len() < MAX_MISSING, |end| n < end) {
            match self.source.row(rows, n) {
                Err(reason) => missing.push((n, reason)),
                Ok(line) => {
                    for (n, reason) in missing.drain(..) {
                        self.lose(&format!("{name} {n}"), reason);
                    }
                    if let Err(reason) = take(&line) {
                        self.lose(&format!("{name} {n}"), reason);
                    }
                }
            }
            n += 1;
        }
        // Behind the last row of a list of unknown length there may be none.
        for (n, reason) in missing.into_iter().filter(|_| end.is_some()) {
            self.lose(&format!("{name} {n}"), reason);
        }
    }
}
