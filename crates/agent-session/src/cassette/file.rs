//! Saves cassettes to files atomically and loads them with a size limit.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use super::error::CassetteError;
use super::form::{CASSETTE_VERSION, Cassette, MAX_CASSETTE_BYTES};
use crate::error::SessionError;
use crate::store::files;

impl Cassette {
    /// Writes the cassette to a file and replaces the file's previous content atomically. On Unix only the owner can
    /// read the file.
    ///
    /// # Errors
    /// When the file cannot be written. Its previous content is unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        let path = path.as_ref();
        let text = self.to_json().map_err(|error| SessionError::corrupt(path, "the cassette", error))?;
        files::replace(path, text.as_bytes())
    }

    /// Reads a cassette of at most [`MAX_CASSETTE_BYTES`] from a file.
    ///
    /// # Errors
    /// When the file does not exist, is not a cassette, is too large, or was written by a later version.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SessionError> {
        let path = path.as_ref();
        let limit = u64::try_from(MAX_CASSETTE_BYTES).unwrap_or(u64::MAX);
        let missing = || SessionError::io(path, "opened")(io::ErrorKind::NotFound.into());
        let bytes = files::read(path, limit)?.ok_or_else(missing)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            SessionError::corrupt(path, format!("byte {}", error.utf8_error().valid_up_to()), error)
        })?;
        Self::from_json(&text).map_err(|error| match error {
            CassetteError::Later { found, .. } => {
                SessionError::UnsupportedVersion { path: path.to_owned(), found, known: CASSETTE_VERSION }
            }
            CassetteError::Unreadable(source) => {
                let place = format!("line {}, column {}", source.line(), source.column());
                SessionError::corrupt(path, place, source)
            }
            other => SessionError::corrupt(path, "its calls", other),
        })
    }
}
