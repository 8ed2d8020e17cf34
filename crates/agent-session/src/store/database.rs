//! What the stores in databases have in common: the form of a session as rows.
//!
//! | rows | content |
//! |---|---|
//! | the sealed summary | the numbers of lines and of acknowledged records, and the summary, as a line with a checksum |
//! | lines | the saved session: the lines of [`JsonStore`](super::JsonStore)'s file |
//! | records | the records since the last save, one for each input of a run |

mod read;
mod salvage;
mod sealed;

use agent_core::MessageRef;
use serde_json::Value;

pub(super) use self::read::{Damage, StoredRows};
pub(super) use self::salvage::{Part, RowSource, Rows};
pub(super) use self::sealed::{Sealed, SealedLine};

use super::json::form2::write_lines;
use super::query::{Order, SessionQuery, SortBy};
use super::summary::{SessionSummary, Waits};
use super::words;
use crate::error::SessionError;
use crate::model::{LoopStatus, Session};

/// The default limit for the size of a session that is read from a database: 512 MiB, the sum of its rows.
pub const MAX_SESSION_BYTES: u64 = 512 << 20;

/// The condition in SQL of sessions that can have an open run.
pub(super) const CAN_BE_OPEN: &str = "status NOT IN ('Completed', 'Rejected', 'Stopped', 'Failed')";

/// The treatment of the indexed words of a session that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// They are unchanged if there are as many as messages.
    Kept,
    /// The messages can differ from those that were indexed.
    Replaced,
}

/// A whole session in the form of rows.
pub(super) struct Encoded {
    pub(super) lines: Vec<Vec<u8>>,
    /// The size of all lines.
    pub(super) bytes: u64,
    pub(super) summary: SessionSummary,
    pub(super) waits: Option<Waits>,
}

impl Encoded {
    pub(super) fn new(session: &Session) -> Result<Self, SessionError> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        write_lines(session, None, |line| {
            bytes += line.len() as u64;
            lines.push(line.to_vec());
            Ok(())
        })?;
        Ok(Self { lines, bytes, summary: SessionSummary::of(session), waits: Waits::of(session) })
    }
}

/// Returns the messages of a session that are found by their words.
pub(super) fn messages(session: &Session) -> impl Iterator<Item = &MessageRef> {
    session.loops.iter().flat_map(|record| &record.messages)
}

/// Returns the words of a message for the full-text index.
pub(super) fn words_of(message: &MessageRef) -> String {
    let mut line = String::new();
    for (_, word) in words::words(&message.text()) {
        line.push_str(&word);
        line.push(' ');
    }
    line
}

/// Returns the column of the order of a query, and its direction, in SQL.
pub(super) fn order_by(query: &SessionQuery) -> (&'static str, &'static str) {
    let column = match query.sort {
        SortBy::LastActive => "last_active_at",
        SortBy::Created => "created_at",
        SortBy::Cost => "cost",
        SortBy::Tokens => "tokens",
        SortBy::Id => "id",
    };
    let direction = match query.order {
        Order::Ascending => "ASC",
        Order::Descending => "DESC",
    };
    (column, direction)
}

/// Converts a number to the signed type of databases. A larger number becomes the maximum.
pub(super) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the name of a status, in the same form as in JSON.
pub(super) fn status_name(status: LoopStatus) -> String {
    match serde_json::to_value(status) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}
