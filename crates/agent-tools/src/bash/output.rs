//! The result of a command and the errors of `bash`.

use std::io;
use std::time::Duration;

use agent_core::{ToolError, ToolResult};
use serde_json::{Value, json};

use super::capture::Capture;
use super::run::Stream;
use crate::OutputStore;
use crate::background_work::BackgroundError;
use crate::sandbox::{SandboxError, StartError};

/// The output streams of a command.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdout: Capture,
    pub(super) stderr: Capture,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It exited by itself, with an exit code or by a signal.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// It was ended after this time limit.
    TimedOut(Duration),
    /// The run was aborted.
    Aborted,
}

impl Streams {
    pub(super) fn new(max: usize, store: Option<&OutputStore>) -> Self {
        Self { stdout: Capture::new(max, store.cloned()), stderr: Capture::new(max, store.cloned()) }
    }

    pub(super) fn of(&mut self, stream: Stream) -> &mut Capture {
        match stream {
            Stream::Out => &mut self.stdout,
            Stream::Err => &mut self.stderr,
        }
    }

    /// Ends both streams and stores those that were truncated.
    pub(super) async fn finish(&mut self) {
        self.stdout.finish().await;
        self.stderr.finish().await;
    }

    /// Adds the keys of the stored streams to the details.
    fn add_keys_to(&self, details: &mut Value) {
        let Value::Object(fields) = details else { return };
        for (name, stream) in [("stdout_key", &self.stdout), ("stderr_key", &self.stderr)] {
            if let Some(key) = stream.key() {
                fields.insert(name.to_owned(), json!(key));
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty()
    }

    fn below(&self, first: &str) -> String {
        let (out, err) = (self.stdout.text(), self.stderr.text());
        if err.is_empty() {
            format!("{first}\n{out}")
        } else {
            format!("{first}\nSTDOUT:\n{out}\nSTDERR:\n{err}")
        }
    }
}

/// Returns the result of a command. An exit code other than 0 is not an error of the call.
pub(super) fn result(ending: Ending, streams: &Streams) -> ToolResult {
    let (result, mut details) = match ending {
        Ending::Exited { code, signal } => {
            let exit_code = code.unwrap_or(-1);
            let mut details = json!({"exit_code": exit_code, "success": exit_code == 0});
            if let (Some(signal), Value::Object(fields)) = (signal, &mut details) {
                fields.insert("signal".to_owned(), json!(signal));
            }
            (ToolResult::text(streams.below(&format!("Exit code: {exit_code}"))), details)
        }
        Ending::TimedOut(limit) => {
            let first = format!("Command timed out after {}s", seconds(limit));
            let details = json!({"exit_code": -1, "success": false, "timed_out": true});
            (ToolResult::error(streams.below(&first)), details)
        }
        Ending::Aborted => {
            let details = json!({"exit_code": -1, "success": false, "aborted": true});
            (ToolResult::error(streams.below("Operation aborted")), details)
        }
    };
    streams.add_keys_to(&mut details);
    result.with_details(details)
}

/// Formats a duration in seconds, such as `120` or `0.5`.
pub(super) fn seconds(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        duration.as_secs().to_string()
    } else {
        duration.as_secs_f64().to_string()
    }
}

/// The reason why a command has no result. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BashError {
    /// A deny pattern matches the command.
    #[error("Command blocked by safety policy: contains '{pattern}'. This pattern is denied for safety.")]
    Denied {
        /// The text of the pattern.
        pattern: String,
    },
    /// The user did not confirm the command.
    #[error("Command was not confirmed by the user.")]
    NotConfirmed,
    /// The command exceeded its time limit and had no output.
    #[error("Command timed out after {}s", seconds(*.0))]
    TimedOut(Duration),
    /// The shell could not be started.
    #[error("Failed to execute: {0}")]
    Spawn(#[source] io::Error),
    /// The sandbox is not available. The command was not run.
    #[error("the command was not run: {0}")]
    Sandbox(#[source] SandboxError),
    /// No cgroup could be created. The command was not run.
    #[error("the command was not run: no cgroup could be made for it: {0}")]
    Cgroup(#[source] io::Error),
    /// The time limit in the arguments is out of range.
    #[error("timeout must be between 1 and {max} seconds")]
    TimeoutRange {
        /// The maximum, in seconds.
        max: u64,
    },
    /// The command is longer than [`MAX_COMMAND_BYTES`](super::MAX_COMMAND_BYTES).
    #[error("the command is too long ({bytes} bytes, max {max}); write it to a file and run that", max = super::MAX_COMMAND_BYTES)]
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// The command contains a NUL character, which cannot be passed to a program.
    #[error("the command holds a NUL character; write it without")]
    Nul,
    /// Too many other commands ran for [`MAX_WAIT`](super::MAX_WAIT). The command was not run.
    #[error(
        "the command was not run: other commands used all slots for {}s; run it again later, or fewer at once",
        seconds(super::MAX_WAIT)
    )]
    Busy,
    /// The tool has no [`BackgroundWork`](crate::background_work::BackgroundWork).
    #[error("this program lets no command run in the background; run it without `background`")]
    NoBackground,
    /// The command could not start in the background.
    #[error("the command was not run: {0}")]
    Background(#[from] BackgroundError),
    /// The call was cancelled before there was any output.
    #[error("Operation aborted")]
    Cancelled,
}

impl BashError {
    pub(super) fn into_tool_error(self) -> ToolError {
        match self {
            Self::Cancelled => ToolError::Cancelled,
            Self::TimeoutRange { .. } | Self::Nul | Self::TooLong { .. } => {
                ToolError::InvalidArgs(self.to_string())
            }
            error => error.into(),
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
