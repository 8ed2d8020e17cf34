//! Reads the lines of a journal before its records.

use std::io::{self, BufRead};

use agent_core::SessionId;
use serde::Deserialize;

use super::super::lines;
use super::super::summary::{SessionSummary, Waits};
use super::replay::FORM;
use super::{Acknowledged, JournalSummary};
use crate::model::SpawnRef;

/// What a list needs of a journal.
#[derive(Debug)]
pub(in crate::store) struct JournalHead {
    /// The number of the last record that the session's file contains.
    pub(in crate::store) saved_records: u64,
    /// The size that the file has if the summary is that of its last record.
    pub(in crate::store) bytes: u64,
    /// The size of the lines before the records.
    pub(in crate::store) begin: u64,
    pub(in crate::store) summary: SessionSummary,
    pub(in crate::store) waits: Option<Waits>,
}

#[derive(Deserialize)]
struct First {
    journal: u32,
    head: FirstSession,
}

#[derive(Deserialize)]
struct FirstSession {
    session_id: SessionId,
    #[serde(default)]
    journal_records: u64,
    #[serde(default)]
    parent_spawn_ref: Option<SpawnRef>,
}

impl JournalHead {
    /// Reads the lines; `None` if they have an earlier form, are damaged, or do not agree.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(in crate::store) fn read(file: &mut impl BufRead, id: &str) -> io::Result<Option<Self>> {
        let mut begin = 0;
        let mut line = Vec::new();
        let mut next = |line: &mut Vec<u8>| -> io::Result<bool> {
            line.clear();
            begin += file.read_until(b'\n', line)? as u64;
            Ok(line.pop_if(|last| *last == b'\n').is_some())
        };
        if !next(&mut line)? {
            return Ok(None);
        }
        let Ok(First { journal: FORM, head }) = lines::parse::<First>(&line) else { return Ok(None) };
        if head.session_id != *id || !next(&mut line)? {
            return Ok(None);
        }
        let Ok(acknowledged) = Acknowledged::read(&line) else { return Ok(None) };
        if !next(&mut line)? {
            return Ok(None);
        }
        let Some(JournalSummary { n, bytes, mut summary, waits }) = JournalSummary::read(&line) else {
            return Ok(None);
        };
        if n != acknowledged.records || summary.session_id != *id {
            return Ok(None);
        }
        summary.parent_session_id = head.parent_spawn_ref.map(|parent| parent.parent_session_id);
        Ok(Some(Self { saved_records: head.journal_records, bytes, begin, summary, waits }))
    }
}
