//! How the program ends.

use std::process::ExitCode;

/// The exit codes, as `docs/cli.md` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The task is done, or the command succeeded.
    Done,
    /// The run ended before the task was done, or the command failed.
    Failed,
    /// The command line or a configuration file cannot be used, or there is no model.
    Usage,
    /// A question waits in the session.
    Waits,
    /// A part of a damaged session could not be salvaged.
    Partial,
    /// The user interrupted the run.
    Interrupted,
    /// The reader of the output has closed it.
    Unread,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Waits => 3,
            Exit::Partial => 4,
            Exit::Interrupted => 130,
            Exit::Unread => 141,
        })
    }
}

/// The error of a command line or a configuration that cannot be used.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The error of a program that a signal ended before it could work.
#[derive(Debug)]
pub(crate) struct InterruptedError;

impl std::fmt::Display for InterruptedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted while the MCP servers were starting")
    }
}

impl std::error::Error for InterruptedError {}

/// Returns an error that ends the program with [`Exit::Usage`].
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(text.into()))
}
