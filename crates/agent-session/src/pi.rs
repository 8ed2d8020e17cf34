//! Sessions of pi's coding agent: files of JSON lines, read and written (versions 1 to 3).
//!
//! Such a file is a tree of entries. Each prompt and its replies on one path become a loop. Entries without an equivalent
//! (labels, changes of the model, costs) are stored in `metadata.pi` of the loops, so that the export of an imported file
//! equals the file. The export of a session that was recorded here has entries made from its messages.
//!
//! ```
//! use agent_session::pi;
//! let file = br#"{"type":"session","version":3,"id":"s-1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/src"}
//! {"type":"message","id":"0000000a","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"Hi"}],"timestamp":1767225601000}}
//! "#;
//! let imported = pi::import(file, "session.jsonl".as_ref())?;
//! assert_eq!(imported.session.history()?.to_vec()[0].text(), "Hi");
//! assert!(imported.losses.is_empty());
//! assert_eq!(pi::export(&imported.session)?.as_bytes(), file);
//! # Ok::<(), agent_session::SessionError>(())
//! ```

mod build;
mod entry;
mod message;
mod split;
mod write;

use std::path::Path;

use crate::error::SessionError;
use crate::model::Session;
use crate::store::{Loss, MAX_FILE_BYTES, files};

pub use write::{export, export_from};

/// The latest version of pi's files that can be read; the version that is written.
pub const PI_VERSION: u64 = 3;

/// The type of a custom entry that only marks the place from which the conversation continues.
const HEAD_MARK: &str = "looptree.head";

/// The result of an import.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Imported {
    /// The session. It is not stored yet.
    pub session: Session,
    /// Lines that could not be read or have no place in the tree. Pi itself skips such lines, too.
    pub losses: Vec<Loss>,
}

/// Imports a session from the bytes of a file; `path` is the name of the file in errors.
///
/// # Errors
/// When the first line is not the head of such a session, or has a later version.
pub fn import(bytes: &[u8], path: &Path) -> Result<Imported, SessionError> {
    let file = entry::read(bytes, path)?;
    build::build(file, path)
}

/// Imports a session from a file of at most [`MAX_FILE_BYTES`].
///
/// # Errors
/// As [`import`], and when the file cannot be read.
pub fn import_file(path: impl AsRef<Path>) -> Result<Imported, SessionError> {
    let path = path.as_ref();
    import(&files::read_existing(path, MAX_FILE_BYTES)?, path)
}
