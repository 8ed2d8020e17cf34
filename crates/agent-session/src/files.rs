//! The state of files that tools used, recorded in the session, to warn when a conversation continues over other files.
//!
//! A [`FileWatch`] notes by two hooks, in the details of the tools' results, what each file was before it was first
//! touched and after each call that changed it. No content is kept: length, time and a hash.
//!
//! ```
//! use agent_core::hooks::Hooks;
//! use agent_session::FileWatch;
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("notes.txt"), "one")?;
//! let watch = FileWatch::new(dir.path());
//! let hooks = watch.hooks(Hooks::new()); // for with_hooks()
//! assert_eq!(hooks.tool.after.len(), 1);
//!
//! watch.look_at(["notes.txt"]);
//! let then = watch.state();
//! std::fs::write(dir.path().join("notes.txt"), "two")?;
//! assert_eq!(then.differences(dir.path())[0].to_string(), "notes.txt has other content");
//! # Ok::<(), std::io::Error>(())
//! ```

mod mark;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use agent_core::{AgentMessage, Message};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use mark::{FileMark, MAX_HASHED_BYTES};
pub use watch::{FileWatch, MAX_WATCHED_FILES};

/// The key in a tool result's details under which a [`FileWatch`] notes files.
pub const FILE_NOTES: &str = "file_state";

/// What files look like, by their paths below the workspace, with `/` between the parts. A file that is not there is
/// noted as `null`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileState(pub(crate) BTreeMap<String, Option<FileMark>>);

/// A file that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileDifference {
    /// Its path below the workspace.
    pub path: String,
    /// What it was; `None` for no file.
    pub then: Option<FileMark>,
    /// What it is; `None` for no file.
    pub now: Option<FileMark>,
}

impl fmt::Display for FileDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (&self.then, &self.now) {
            (None, _) => "was not there then",
            (_, None) => "is not there any more",
            _ => "has other content",
        };
        write!(f, "{} {what}", self.path)
    }
}

/// What a tool result says of files.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Notes {
    /// Of files that were not known: what they were before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    before: BTreeMap<String, Option<FileMark>>,
    /// Of files that changed: what they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    after: BTreeMap<String, Option<FileMark>>,
}

impl FileState {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The files, by path; `None` for one that is not there.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&FileMark>)> {
        self.0.iter().map(|(path, mark)| (path.as_str(), mark.as_ref()))
    }

    /// The files below this directory that are not what is noted here. Reads those whose length is the same and whose
    /// time is another.
    #[must_use]
    pub fn differences(&self, root: impl AsRef<Path>) -> Vec<FileDifference> {
        let root = root.as_ref();
        let now = |path: &String, then: &Option<FileMark>| mark::look(&root.join(path), then.as_ref());
        self.0.iter().filter_map(|(path, then)| difference(path, then, now(path, then))).collect()
    }

    /// The files that both know and that differ.
    #[must_use]
    pub fn compared_to(&self, other: &Self) -> Vec<FileDifference> {
        let known = self.0.iter().filter_map(|(path, then)| Some((path, then, other.0.get(path)?)));
        known.filter_map(|(path, then, now)| difference(path, then, now.clone())).collect()
    }

    /// Applies the file notes of a message before the place.
    pub(crate) fn note_after(&mut self, message: &AgentMessage) {
        let Some(notes) = notes(message) else { return };
        for (path, mark) in notes.before {
            self.0.entry(path).or_insert(mark);
        }
        self.0.extend(notes.after);
    }

    /// Applies the file notes of any message to files whose state is unknown.
    pub(crate) fn note_before(&mut self, message: &AgentMessage) {
        let Some(notes) = notes(message) else { return };
        for (path, mark) in notes.before {
            self.0.entry(path).or_insert(mark);
        }
    }
}

fn difference(path: &str, then: &Option<FileMark>, now: Option<FileMark>) -> Option<FileDifference> {
    let differs = !mark::same(then.as_ref(), now.as_ref());
    differs.then(|| FileDifference { path: path.to_owned(), then: then.clone(), now })
}

fn notes(message: &AgentMessage) -> Option<Notes> {
    let Message::ToolResult(result) = message.as_llm()? else { return None };
    let notes: &Value = result.details.get(FILE_NOTES)?;
    Notes::deserialize(notes).ok()
}
