//! The state of files that tools used, recorded in the session, to warn when a conversation continues over other files.
//!
//! A [`FileWatch`] adds two hooks. They record in the details of tool results the state of each file before its first use
//! and after each call that changed it. A state is the length, the time and a keyed hash, never the content. Files that the
//! tools refuse are not recorded.
//!
//! ```
//! use agent_core::hooks::Hooks;
//! use agent_session::FileWatch;
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("notes.txt"), "one")?;
//! // For an agent with tools, `open` is `Workspace::open_file` of `agent_tools`, which refuses links, pipes and `.git`.
//! let root = dir.path().to_owned();
//! let watch = FileWatch::new(dir.path(), move |path: &str| std::fs::File::open(root.join(path)));
//! let hooks = watch.hooks(Hooks::new()); // for with_hooks()
//! assert_eq!(hooks.tool.after.len(), 1);
//!
//! watch.look_at(["notes.txt"]);
//! let then = watch.state();
//! std::fs::write(dir.path().join("notes.txt"), "another one")?;
//! assert_eq!(watch.differences(&then)[0].to_string(), "notes.txt has other content");
//! # Ok::<(), std::io::Error>(())
//! ```

mod mark;
mod watch;

use std::collections::BTreeMap;
use std::fmt;

use agent_core::{AgentMessage, Message};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use mark::{FileMark, MAX_HASHED_BYTES};
pub use watch::{FileWatch, MAX_WATCHED_FILES};

/// The key in the details of a tool result under which a [`FileWatch`] records the states of files.
pub const FILE_NOTES: &str = "file_state";

/// The states of files by their paths below the workspace, with `/` between the parts. A file that does not exist is
/// `null` in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileState(pub(crate) BTreeMap<String, Option<FileMark>>);

/// A file whose state differs from an earlier or another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileDifference {
    /// The path below the workspace.
    pub path: String,
    /// The earlier state; `None` if the file did not exist.
    pub then: Option<FileMark>,
    /// The later state; `None` if the file does not exist.
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

/// The states of files in the details of a tool result.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Notes {
    /// The earlier states of files that were not known before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    before: BTreeMap<String, Option<FileMark>>,
    /// The new states of files that changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    after: BTreeMap<String, Option<FileMark>>,
}

impl FileState {
    /// Returns whether no file is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the files by path; `None` for a file that does not exist.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&FileMark>)> {
        self.0.iter().map(|(path, mark)| (path.as_str(), mark.as_ref()))
    }

    /// Returns the files that both states contain and that differ.
    #[must_use]
    pub fn compared_to(&self, other: &Self) -> Vec<FileDifference> {
        let known = self.0.iter().filter_map(|(path, then)| Some((path, then, other.0.get(path)?)));
        known.filter_map(|(path, then, now)| difference(path, then, now.clone())).collect()
    }

    /// Applies the recorded states of a message that is before the place.
    pub(crate) fn note_after(&mut self, message: &AgentMessage) {
        let Some(notes) = notes(message) else { return };
        for (path, mark) in notes.before {
            self.0.entry(path).or_insert(mark);
        }
        self.0.extend(notes.after);
    }

    /// Applies the earlier states that any message has of files whose state is unknown.
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
