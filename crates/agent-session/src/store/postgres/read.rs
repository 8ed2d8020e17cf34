//! Reads sessions from rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Shared;
use super::connection::Use;
use super::failure::{Failure, damaged};
use crate::error::SessionError;
use crate::model::Session;
use crate::store::database::{Part, RowSource, Rows, Sealed, StoredRows};
use crate::store::salvage::{self, Loss, Salvaged};

/// All rows of a session, in their order, as one statement sees them: its summary, its lines and its records.
const FETCH: &str = "
    SELECT 0::int4, 0::int8, s.sealed,
        EXISTS (SELECT FROM leases l WHERE l.id = s.id AND l.expires_at > statement_timestamp())
    FROM sessions s WHERE s.id = $1
    UNION ALL SELECT 1, l.n, l.line, false FROM sessions s JOIN lines l USING (session) WHERE s.id = $1
    UNION ALL SELECT 2, r.number, r.line, false FROM sessions s JOIN records r USING (session) WHERE s.id = $1
    ORDER BY 1, 2";

/// The rows of a session.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    sealed: Vec<u8>,
    lines: Vec<(i64, Vec<u8>)>,
    records: Vec<(i64, Vec<u8>)>,
    /// The size of lines and records.
    pub(super) bytes: u64,
    /// Whether a writer has the session.
    pub(super) is_written: bool,
}

impl Fetched {
    pub(super) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }
}

/// Reads the rows of a session; `None` if there is no such session.
pub(super) async fn fetch(shared: &Shared, id: &str) -> Result<Option<Fetched>, SessionError> {
    fetch_rows(shared, id).await.map_err(|failure| failure.named(&shared.place, "read"))
}

async fn fetch_rows(shared: &Shared, id: &str) -> Result<Option<Fetched>, Failure> {
    let limit = shared.config().max_session_bytes;
    let mut used = shared.pool.get(Use::Other).await?;
    let mut stream = std::pin::pin!(used.connection.stream(FETCH, &[&id]).await?);
    let mut fetched: Option<Fetched> = None;
    while let Some(row) = used.connection.next(&mut stream).await? {
        let (kind, number, line): (i32, i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let rows = fetched.get_or_insert_default();
        if kind == 0 {
            rows.sealed = line.to_vec();
            rows.is_written = row.try_get(3)?;
            continue;
        }
        rows.bytes = rows.bytes.saturating_add(line.len() as u64);
        if rows.bytes > limit {
            return Err(SessionError::TooLarge { path: PathBuf::from(&shared.place), limit }.into());
        }
        let list = if kind == 1 { &mut rows.lines } else { &mut rows.records };
        list.push((number, line.to_vec()));
    }
    used.back();
    Ok(fetched)
}

/// Builds a session from its rows. Open loops are unchanged.
pub(super) fn session(place: &str, id: &str, rows: &Fetched) -> Result<Session, SessionError> {
    let sealed = Sealed::read(&rows.sealed, id).map_err(|reason| {
        SessionError::corrupt(Path::new(place), format!("session {id}, its summary"), reason)
    })?;
    let build = || {
        let mut stored = StoredRows::new(id, &sealed, usize::try_from(rows.bytes).unwrap_or(usize::MAX));
        for (_, line) in &rows.lines {
            stored.line(line)?;
        }
        let mut records = stored.records()?;
        for (number, line) in &rows.records {
            records.record(*number, line)?;
        }
        records.finish()
    };
    build().map_err(|damage| damaged(place, id, damage))
}

/// Returns the readable part of a session.
pub(super) fn salvage(place: &str, id: &str, rows: Fetched) -> Result<Salvaged, SessionError> {
    let why = match session(place, id, &rows) {
        Ok(session) => return Ok(Salvaged { session, losses: Vec::new() }),
        Err(error @ SessionError::Corrupt { .. }) => error,
        Err(other) => return Err(other),
    };
    let bytes = usize::try_from(rows.bytes).unwrap_or(usize::MAX);
    let sealed = Sealed::read(&rows.sealed, id);
    let source = Found { lines: numbered(rows.lines), records: numbered(rows.records) };
    let mut part = Part::new(source, format!("{place}: session {id}"));
    let sealed = sealed.map_err(|reason| part.lose("its summary", reason)).ok();
    let Some(session) = part.session(id, sealed.as_ref(), bytes) else { return Err(why) };
    if part.losses.is_empty() {
        part.losses.push(Loss::of(place.as_ref(), &why));
    }
    Ok(Salvaged { session: salvage::closed(session), losses: part.losses })
}

fn numbered(rows: Vec<(i64, Vec<u8>)>) -> BTreeMap<u64, Vec<u8>> {
    rows.into_iter().filter_map(|(number, line)| Some((u64::try_from(number).ok()?, line))).collect()
}

/// The rows of a session of which some are damaged.
struct Found {
    lines: BTreeMap<u64, Vec<u8>>,
    records: BTreeMap<u64, Vec<u8>>,
}

impl RowSource for Found {
    fn row(&self, rows: Rows, n: u64) -> Result<Vec<u8>, String> {
        let list = match rows {
            Rows::Lines => &self.lines,
            Rows::Records => &self.records,
        };
        list.get(&n).cloned().ok_or_else(|| "it is missing".to_owned())
    }

    fn range(&self, rows: Rows) -> Option<(u64, u64)> {
        let list = match rows {
            Rows::Lines => &self.lines,
            Rows::Records => &self.records,
        };
        Some((*list.keys().next()?, *list.keys().next_back()?))
    }
}
