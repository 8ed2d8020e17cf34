//! The change that a call of `write_file` or `edit_file` would make, for a program that shows it before it asks.
//!
//! ```
//! use agent_tools::Workspace;
//! use agent_tools::planned_change::PlannedChange;
//! let workspace = Workspace::open(std::env::temp_dir())?;
//! let arguments = serde_json::json!({"path": "planned-change-example.txt", "content": "one\n"});
//! let plan = PlannedChange::new(&workspace, "write_file", &arguments).ok_or("the call changes nothing")?;
//! assert_eq!((plan.before, plan.after.as_str(), plan.change.added), (None, "one\n", 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use agent_core::Tool as _;
use serde_json::Value;

use crate::file_change::FileChange;
use crate::{EditFileTool, Workspace, WriteFileTool, edit_file, write_file};

/// The change that a call of `write_file` or `edit_file` would make now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedChange {
    /// The content now; `None` if there is no such file.
    pub before: Option<String>,
    /// The content after the call.
    pub after: String,
    /// The difference, as the result of the call would report it.
    pub change: FileChange,
}

impl PlannedChange {
    /// Returns what a call would change, found as the tool itself finds it, without changing anything. Blocks: call it on a thread that
    /// may wait.
    ///
    /// Returns `None` for another tool, for a call that would fail or change nothing, for a file that is larger than
    /// [`MAX_COMPARED_BYTES`](crate::file_change::MAX_COMPARED_BYTES), and for a file that is not UTF-8 text. The rules of the workspace
    /// apply; policies of a run do not.
    #[must_use]
    pub fn new(workspace: &Workspace, tool: &str, arguments: &Value) -> Option<Self> {
        let (path, before, after) = match tool {
            EditFileTool::NAME => edit_file::planned(workspace, arguments)?,
            WriteFileTool::NAME => write_file::planned(workspace, arguments)?,
            _ => return None,
        };
        if before.as_ref() == Some(&after) {
            return None;
        }
        let change = FileChange::between(&path, before.as_deref(), Some(&after));
        let before = before.map(String::from_utf8).transpose().ok()?;
        Some(Self { before, after: String::from_utf8(after).ok()?, change })
    }
}
