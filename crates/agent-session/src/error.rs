//! Errors of sessions.

use std::path::{Path, PathBuf};

use agent_core::{AgentError, LoopId, SessionId};

use crate::point::Point;

/// An error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a session could not be read, written or continued. The text names the file or store, and the place in
/// it where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is no such session.
    #[error("there is no session {id:?} in {store}")]
    NotFound {
        /// The id of the session.
        id: String,
        /// The store, as it describes itself.
        store: String,
    },
    /// Another writer has this session, or a killed one had it and its lease has not ended.
    #[error(
        "another process or recorder is writing this session; end it, or record under another session id ({lock} is locked)"
    )]
    Locked {
        /// The lock: the path of a file, or another name for it.
        lock: String,
    },
    /// The right to write the session has ended: its lease was not renewed in time, because the process was paused or lost
    /// its connection. Nothing was written, and another process may have continued the session.
    #[error(
        "the lease of session {session_id} was lost, and nothing was written: {reason}; load the session again before you continue it"
    )]
    LeaseLost {
        /// The id of the session.
        session_id: SessionId,
        /// The reason, as a sentence fragment.
        reason: String,
    },
    /// The id cannot be the name of a file.
    #[error("the session id {id:?} cannot be used as a file name: {reason}")]
    InvalidId {
        /// The id, cut to a length that can be shown.
        id: String,
        /// The rule that the id breaks.
        reason: &'static str,
    },
    /// The content of the file is invalid. None of it was used, and the file was not changed.
    #[error("{} is damaged at {place}: {source}", path.display())]
    Corrupt {
        /// The path of the file.
        path: PathBuf,
        /// The position in the file.
        place: String,
        /// The reason why the content is invalid.
        source: BoxError,
    },
    /// The file was written by a later version.
    #[error(
        "{} has version {found}, and this version reads up to {known}; update looptree to read it",
        path.display()
    )]
    UnsupportedVersion {
        /// The path of the file.
        path: PathBuf,
        /// The version of the file.
        found: u32,
        /// The latest version that can be read.
        known: u32,
    },
    /// The file is larger than the store reads.
    #[error(
        "{} is larger than {limit} bytes; raise the limit of the store to read it",
        path.display()
    )]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A record was not written, because the session would become larger than the store reads. What was written before can
    /// be read.
    #[error(
        "{} is full: with this record it would be larger than {limit} bytes; begin a new session, or raise the limit of the store",
        path.display()
    )]
    Full {
        /// The path of the file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// An operation of the operating system failed.
    #[error("{} could not be {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operation, as a past participle: "written".
        action: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The query is invalid.
    #[error("the query cannot be answered: {reason}")]
    InvalidQuery {
        /// The reason why it is invalid.
        reason: &'static str,
    },
    /// An operation of the database failed.
    #[error("{} could not be {action}: {source}", path.display())]
    Database {
        /// The path of the database.
        path: PathBuf,
        /// The operation, as a past participle: "written".
        action: &'static str,
        /// The error of the database.
        source: BoxError,
    },
    /// An operation of the store failed. For stores outside of this crate.
    #[error("{what} could not be {action}: {source}")]
    Store {
        /// The object of the operation, for example a session.
        what: String,
        /// The operation, as a past participle: "written".
        action: &'static str,
        /// The cause of the failure.
        source: BoxError,
    },
    /// A value cannot be written as JSON.
    #[error("{what} cannot be written as JSON: {source}")]
    Encode {
        /// The value that was encoded.
        what: &'static str,
        /// The error of the encoder.
        source: serde_json::Error,
    },
    /// The conversation cannot be rebuilt from the events of a loop.
    #[error("the conversation of loop {loop_id} cannot be rebuilt: {source}")]
    Fold {
        /// The id of the loop.
        loop_id: LoopId,
        /// The reason why the events do not make a conversation.
        source: BoxError,
    },
    /// The open run cannot be resumed.
    #[error("the open loop {loop_id} cannot be resumed: {source}; the session loads without it")]
    Resume {
        /// The id of the loop.
        loop_id: LoopId,
        /// The reason why the run cannot be resumed.
        source: BoxError,
    },
    /// The session has no such place.
    #[error("session {session_id} has no place after {point}; Session::points lists those that it has")]
    NoPoint {
        /// The id of the session.
        session_id: SessionId,
        /// The place that was requested.
        point: Point,
    },
    /// No run of the session waits for an answer.
    #[error("no run of session {session_id} waits for an answer; OpenRuns::unfinished lists those that do")]
    NotWaiting {
        /// The id of the session.
        session_id: SessionId,
    },
    /// The question of the session is not the one that the approver saw: it was answered, or a session with the same id
    /// asks another one. Nothing was changed.
    #[error("session {session_id} does not ask what was shown; show its question again before answering it")]
    QuestionChanged {
        /// The id of the session.
        session_id: SessionId,
    },
    /// There is no folder for sessions outside of the working directory.
    #[error("sessions cannot be stored in the default folder: {reason}; choose another folder")]
    NoDataFolder {
        /// The reason, as a sentence fragment.
        reason: String,
    },
    /// The open run of the session needs something that the agent does not have.
    #[error(
        "session {session_id} cannot be continued by this agent, which lacks {}; add it, or call restore_unrecorded to continue without the check",
        .missing.join(", ")
    )]
    Missing {
        /// The id of the session.
        session_id: SessionId,
        /// What is missing: `the tool NAME`, `the route PROVIDER/MODEL` or `the hook NAME`. At a resume the agent
        /// reports the same as [`AgentError::Lacks`].
        missing: Vec<String>,
    },
    /// The agent rejected the operation.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl SessionError {
    /// Returns whether a write failed before the store was called, so that the store is unchanged.
    pub(crate) fn is_before_write(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Encode { .. })
    }

    /// Creates the error of a store outside of this crate: `what` could not be `action`, for example "the session" and
    /// "written".
    pub fn store(what: impl Into<String>, action: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Store { what: what.into(), action, source: source.into() }
    }

    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn corrupt(path: &Path, place: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Corrupt { path: path.to_owned(), place: place.into(), source: source.into() }
    }
}
