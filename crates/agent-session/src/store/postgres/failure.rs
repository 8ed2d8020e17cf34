//! The cause of a failure, before the place of the database is added.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::error::{BoxError, SessionError};
use crate::store::database::Damage;

/// The cause of a failure.
#[derive(Debug)]
pub(super) enum Failure {
    Server(tokio_postgres::Error),
    Session(SessionError),
    /// The server did not answer for so long.
    Silent(Duration),
    /// What the server is not, or does not have.
    Unfit(String),
}

/// An error of the server or of the connection to it. The text contains the message of the server.
#[derive(Debug)]
struct ServerError(tokio_postgres::Error);

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = self.0.as_db_error() {
            return write!(f, "{} (code {})", error.message(), error.code().code());
        }
        write!(f, "{}", self.0)?;
        let mut source = std::error::Error::source(&self.0);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl Failure {
    pub(super) fn named(self, place: &str, action: &'static str) -> SessionError {
        let database =
            |source: BoxError| SessionError::Database { path: PathBuf::from(place), action, source };
        match self {
            Self::Session(error) => error,
            Self::Silent(time) => {
                database(format!("the server did not answer within {} s", time.as_secs_f32()).into())
            }
            Self::Unfit(reason) => database(reason.into()),
            Self::Server(error) => match error.code() {
                Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
                    SessionError::corrupt(Path::new(place), "the database", ServerError(error))
                }
                _ => database(ServerError(error).into()),
            },
        }
    }
}

/// Returns the error of a session whose rows are damaged.
pub(super) fn damaged(place: &str, id: &str, damage: Damage) -> SessionError {
    SessionError::corrupt(Path::new(place), format!("session {id}, {}", damage.place), damage.reason)
}
