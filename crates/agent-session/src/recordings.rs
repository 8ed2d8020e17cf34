//! Recordings as files: written in one step, read within bounds.
//!
//! ```
//! use agent_core::{BasicAgent, ModelConfig, Recorder, Replay};
//! use agent_core::testing::ScriptedProvider;
//!
//! # let dir = tempfile::tempdir()?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let recorder = Recorder::new();
//! let agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["Hello."]));
//! recorder.attach(agent).chat("Hi").await?;
//! let file = dir.path().join("hello.json");
//! agent_session::save_recording(&file, &recorder.recording())?;
//!
//! let replay = Replay::new(agent_session::load_recording(&file)?);
//! assert_eq!(replay.attach(BasicAgent::new(ModelConfig::default())).chat("Hi").await?, "Hello.");
//! replay.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use agent_core::recording::{MAX_RECORDING_BYTES, RECORDING_VERSION};
use agent_core::{Recording, RecordingError};

use crate::error::SessionError;
use crate::store::files;

/// Writes a recording in the place of what the file held. It is readable for its owner only, where the system knows owners.
///
/// # Errors
/// When it could not be written; the file is as it was.
pub fn save_recording(path: impl AsRef<Path>, recording: &Recording) -> Result<(), SessionError> {
    let path = path.as_ref();
    let text = recording.to_json().map_err(|error| SessionError::corrupt(path, "the recording", error))?;
    files::replace(path, text.as_bytes())
}

/// Reads a recording of at most [`MAX_RECORDING_BYTES`].
///
/// # Errors
/// When the file is not there, is none, is too large, or was written by a later version.
pub fn load_recording(path: impl AsRef<Path>) -> Result<Recording, SessionError> {
    let path = path.as_ref();
    let limit = u64::try_from(MAX_RECORDING_BYTES).unwrap_or(u64::MAX);
    let missing = || SessionError::io(path, "opened")(io::ErrorKind::NotFound.into());
    let bytes = files::read(path, limit)?.ok_or_else(missing)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        SessionError::corrupt(path, format!("byte {}", error.utf8_error().valid_up_to()), error)
    })?;
    Recording::from_json(&text).map_err(|error| match error {
        RecordingError::Later { found, .. } => {
            SessionError::UnsupportedVersion { path: path.to_owned(), found, known: RECORDING_VERSION }
        }
        RecordingError::Unreadable(source) => {
            SessionError::corrupt(path, format!("line {}, column {}", source.line(), source.column()), source)
        }
        other => SessionError::corrupt(path, "its calls", other),
    })
}
