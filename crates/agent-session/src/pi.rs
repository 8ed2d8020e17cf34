//! Sessions of pi's coding agent: files of JSON lines, read and written (versions 1 to 3).
//!
//! Such a file is a tree of entries; a loop of ours is what follows one prompt on one path. What a session of ours has no
//! place for (labels, changes of the model, costs) is kept in `metadata.pi` of its loops, so that an imported file is written
//! again as it was. A session that was recorded here is written with entries made from its messages.
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

pub use write::export;

/// The newest version of pi's files that is known.
pub const PI_VERSION: u64 = 3;

/// The kind of an entry that only names the place where the conversation continues.
const HEAD_MARK: &str = "looptree.head";

/// What an import gives.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Imported {
    /// The session. It is in no store yet.
    pub session: Session,
    /// Lines that could not be read or have no place in the tree, as pi itself passes over them.
    pub losses: Vec<Loss>,
}

/// Reads the bytes of a file; `path` is its name in errors.
///
/// # Errors
/// When its first line is not the head of such a session, or of a later version.
pub fn import(bytes: &[u8], path: &Path) -> Result<Imported, SessionError> {
    let file = entry::read(bytes, path)?;
    build::build(file, path)
}

/// Reads a file of at most [`MAX_FILE_BYTES`].
///
/// # Errors
/// As [`import`], and when it cannot be read.
pub fn import_file(path: impl AsRef<Path>) -> Result<Imported, SessionError> {
    let path = path.as_ref();
    import(&files::read_existing(path, MAX_FILE_BYTES)?, path)
}
