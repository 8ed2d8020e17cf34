//! The cause of a failure, before the path of the database is added.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::SessionError;

/// The cause of a failure.
pub(super) enum Failure {
    Sqlite(rusqlite::Error),
    Session(SessionError),
    /// A place in the database, and the reason why it is damaged.
    Damaged(String, String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl Failure {
    pub(super) fn encode(source: serde_json::Error) -> Self {
        Self::Session(SessionError::Encode { what: "the session", source })
    }

    /// Creates the failure of a session whose rows are damaged.
    pub(super) fn damaged(id: &str, place: &str, reason: String) -> Self {
        Self::Damaged(format!("session {id}, {place}"), reason)
    }

    /// Creates the failure of a database that is damaged as a whole.
    pub(super) fn damaged_database(reason: String) -> Self {
        Self::Damaged("the database".to_owned(), reason)
    }

    /// Returns whether a part of the database is damaged.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Sqlite(error) => is_damage(error),
            Self::Session(error) => matches!(error, SessionError::Corrupt { .. }),
            Self::Damaged(..) => true,
        }
    }

    pub(super) fn named(self, path: &Path, action: &'static str) -> SessionError {
        let error = match self {
            Self::Session(error) => return error,
            Self::Damaged(place, reason) => return SessionError::corrupt(path, place, reason),
            Self::Sqlite(error) => error,
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                SessionError::Locked { lock: path.display().to_string() }
            }
            _ if is_damage(&error) => SessionError::corrupt(path, "the database", error),
            _ => SessionError::Database { path: path.to_owned(), action, source: error.into() },
        }
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    match error {
        // The tables are those that the statements expect, so that a row has another content only if it is damaged.
        Error::QueryReturnedNoRows
        | Error::InvalidColumnType(..)
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..) => true,
        other => matches!(
            other.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TooBig)
        ),
    }
}
