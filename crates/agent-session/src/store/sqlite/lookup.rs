//! Finds the row of a session.

use rusqlite::{OptionalExtension, Transaction};

use super::Failure;

/// The two ways, which have no page in common: the list of ids, and the index of the table.
const WAYS: [&str; 2] = [
    "SELECT session FROM ids WHERE id = ?1",
    "SELECT session FROM sessions INDEXED BY sqlite_autoindex_sessions_1 WHERE id = ?1",
];

/// Returns the number of a session's row; `None` if there is no such session in either way.
///
/// # Errors
/// When one way is damaged and the other one does not lead to the session.
pub(super) fn row_of(t: &Transaction<'_>, id: &str) -> Result<Option<i64>, Failure> {
    let mut damage = None;
    for way in WAYS {
        match follow(t, way, id) {
            Ok(Some(row)) => return Ok(Some(row)),
            Ok(None) => {}
            Err(failure) => damage = Some(failure),
        }
    }
    damage.map_or(Ok(None), Err)
}

fn follow(t: &Transaction<'_>, way: &str, id: &str) -> Result<Option<i64>, Failure> {
    let Some(row) = t.prepare_cached(way)?.query_row([id], |row| row.get(0)).optional()? else {
        return Ok(None);
    };
    let found: Option<String> = t
        .prepare_cached("SELECT id FROM sessions WHERE session = ?1")?
        .query_row([row], |row| row.get(0))
        .optional()?;
    match found {
        Some(found) if found == id => Ok(Some(row)),
        Some(found) => Err(Failure::damaged(id, "its row", format!("the row holds session {found:?}"))),
        None => Err(Failure::damaged(id, "its row", format!("row {row} is missing"))),
    }
}

/// Returns the rows that can be those of a damaged session, beginning with one that names it.
pub(super) fn rows_of(t: &Transaction<'_>, id: &str) -> Vec<i64> {
    let mut rows: Vec<i64> = Vec::new();
    for way in WAYS {
        let row = t.prepare_cached(way).and_then(|mut s| s.query_row([id], |row| row.get(0)));
        rows.extend(row.ok().filter(|row| !rows.contains(row)));
    }
    // A row with another id is that of another session.
    let name = |row: &i64| {
        let id_of = t.prepare_cached("SELECT id FROM sessions WHERE session = ?1");
        id_of.and_then(|mut s| s.query_row([*row], |row| row.get::<_, String>(0))).ok()
    };
    rows.retain(|row| name(row).is_none_or(|found| found == id));
    rows.sort_by_key(|row| name(row).is_none());
    rows
}
