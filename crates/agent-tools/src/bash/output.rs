//! What the model sees of a command.

use std::time::Duration;

use agent_core::ToolResult;
use serde_json::{Value, json};

use super::capture::Capture;
use crate::OutputStore;

/// Both streams of a command.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdout: Capture,
    pub(super) stderr: Capture,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself: its exit code, or the signal that ended it.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// After this long it was ended.
    TimedOut(Duration),
    /// The run was aborted.
    Aborted,
}

impl Streams {
    pub(super) fn new(max: usize, store: Option<&OutputStore>) -> Self {
        Self { stdout: Capture::new(max, store.cloned()), stderr: Capture::new(max, store.cloned()) }
    }

    /// Puts what is cut into the store.
    pub(super) async fn finish(&mut self) {
        self.stdout.finish().await;
        self.stderr.finish().await;
    }

    /// Names the streams that are kept whole.
    fn name_in(&self, details: &mut Value) {
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

/// What the command gave. An exit code other than 0 is no error of the call: the model reads it.
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
    streams.name_in(&mut details);
    result.with_details(details)
}

/// `120`, `0.5`.
pub(super) fn seconds(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        duration.as_secs().to_string()
    } else {
        duration.as_secs_f64().to_string()
    }
}
