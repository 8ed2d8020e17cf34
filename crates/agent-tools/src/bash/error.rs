//! Why a command gave nothing.

use std::io;
use std::time::Duration;

use agent_core::ToolError;

use super::output::seconds;
use crate::offload::Halt;
use crate::sandbox::{SandboxError, StartError};

/// Why a command gave nothing. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BashError {
    /// A pattern forbids it (REQ-094).
    #[error("Command blocked by safety policy: contains '{pattern}'. This pattern is denied for safety.")]
    Denied {
        /// The pattern.
        pattern: String,
    },
    /// Somebody was asked and said no (REQ-097).
    #[error("Command was not confirmed by the user.")]
    NotConfirmed,
    /// It took too long, and had no output (REQ-095).
    #[error("Command timed out after {}s", seconds(*.0))]
    TimedOut(Duration),
    /// It could not be started.
    #[error("Failed to execute: {0}")]
    Spawn(#[source] io::Error),
    /// The sandbox that it should run in cannot be had; it was not run.
    #[error("the command was not run: {0}")]
    Sandbox(#[source] SandboxError),
    /// A cgroup was asked for and cannot be had; the command was not run.
    #[error("the command was not run: no cgroup could be made for it: {0}")]
    Cgroup(#[source] io::Error),
    /// The time asked for is out of range.
    #[error("timeout must be between 1 and {max} seconds")]
    TimeoutRange {
        /// The most, in seconds.
        max: u64,
    },
    /// The command is longer than a program can be told.
    #[error("the command is too long ({bytes} bytes, max {max}); write it to a file and run that", max = super::MAX_COMMAND_BYTES)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The command has a NUL in it, which no program can be told.
    #[error("the command holds a NUL character; write it without")]
    Nul,
    /// The call was cancelled before there was any output.
    #[error("Operation aborted")]
    Cancelled,
}

impl BashError {
    /// Converts the error into the one that the loop receives.
    pub(crate) fn into_tool_error(self) -> ToolError {
        match self {
            BashError::Cancelled => Halt::Cancelled.into(),
            BashError::TimeoutRange { .. } | BashError::Nul | BashError::TooLong { .. } => {
                ToolError::InvalidArgs(self.to_string())
            }
            error => ToolError::failed(error),
        }
    }
}

impl From<StartError> for BashError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Sandbox(error) => Self::Sandbox(error),
            StartError::Spawn(error) => Self::Spawn(error),
        }
    }
}
