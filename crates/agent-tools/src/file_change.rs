//! What a call of `write_file`, `edit_file` or `apply_patch` has changed, for programs that show it.
//!
//! The list is in the details of the result, as `changes`.
//!
//! ```
//! use agent_tools::file_change::changes_of;
//! let details = serde_json::json!({"changes": [{"path": "a.txt", "kind": "updated", "diff": "", "added": 1, "removed": 2}]});
//! let changes = changes_of(&details);
//! assert_eq!((changes[0].path.as_str(), changes[0].added, changes[0].removed), ("a.txt", 1, 2));
//! ```

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use similar::udiff::UnifiedDiffHunk;
use similar::{ChangeTag, TextDiff};

use crate::text::head;

/// The maximum size of the diff of one file: 64 KiB. A longer one is cut after a line.
pub const MAX_DIFF_BYTES: usize = 64 * 1024;

/// The maximum size of a file whose lines are compared: 1 MiB. For a larger file the diff is empty.
pub const MAX_COMPARED_BYTES: usize = 1024 * 1024;

/// The time after which the comparison of two files takes the shortest way, which finds less that is equal. A question waits for it.
const PATIENCE: Duration = Duration::from_millis(100);

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// The path of a change that is planned, the content now, and the content after it.
pub(crate) type Contents = (String, Option<Vec<u8>>, Vec<u8>);

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeOf {
    /// The file is new.
    Added,
    /// The content was replaced, or the file has another name.
    Updated,
    /// The file was removed.
    Deleted,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileChange {
    /// The path, as in the arguments of the call.
    pub path: String,
    /// The new path of a file that was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// What happened to the file.
    pub kind: ChangeOf,
    /// The unified diff with three lines of context, at most [`MAX_DIFF_BYTES`]. Bytes that are not UTF-8 are replaced. Empty
    /// if the files were not compared.
    pub diff: String,
    /// The number of lines that are new.
    pub added: usize,
    /// The number of lines that are gone.
    pub removed: usize,
    /// Whether the diff is not complete, because it is too long or a file is too large. Then the numbers of lines can be too
    /// high.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl FileChange {
    /// Compares the content of a file before and after a change; `None` if the file does not exist.
    pub(crate) fn between(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> Self {
        let kind = match (before, after) {
            (None, _) => ChangeOf::Added,
            (Some(_), Some(_)) => ChangeOf::Updated,
            (Some(_), None) => ChangeOf::Deleted,
        };
        let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
        let change = Self {
            path: path.to_owned(),
            moved_to: None,
            kind,
            diff: String::new(),
            added: 0,
            removed: 0,
            truncated: false,
        };
        if old == new {
            return change;
        }
        if old.len().max(new.len()) > MAX_COMPARED_BYTES {
            return Self { added: count(new), removed: count(old), truncated: true, ..change };
        }
        let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
        let compared = TextDiff::configure().timeout(PATIENCE).diff_lines(&*old, &*new);
        let of = |tag: ChangeTag| compared.iter_all_changes().filter(|change| change.tag() == tag).count();
        let mut diff: String = compared
            .unified_diff()
            .context_radius(CONTEXT)
            .iter_hunks()
            .map(|hunk| hunk_text(&hunk))
            .collect();
        let truncated = diff.len() > MAX_DIFF_BYTES;
        if truncated {
            let part = head(&diff, MAX_DIFF_BYTES);
            let end = part.rfind('\n').map_or(0, |end| end + 1);
            diff.truncate(end);
        }
        Self { added: of(ChangeTag::Insert), removed: of(ChangeTag::Delete), diff, truncated, ..change }
    }

    /// Returns the change of a file whose old content is not known.
    pub(crate) fn unseen(path: &str, after: &[u8]) -> Self {
        Self {
            path: path.to_owned(),
            moved_to: None,
            kind: ChangeOf::Updated,
            diff: String::new(),
            added: count(after),
            removed: 0,
            truncated: true,
        }
    }
}

/// Returns a hunk with its header. The lines are counted here, because the library can count them wrongly after it has shifted a
/// change.
fn hunk_text<'a>(hunk: &UnifiedDiffHunk<'a, 'a, 'a, 'a, str>) -> String {
    let start = hunk.ops().first().map_or((0, 0), |op| (op.old_range().start, op.new_range().start));
    let old = hunk.ops().iter().map(|op| op.old_range().len()).sum();
    let new = hunk.ops().iter().map(|op| op.new_range().len()).sum();
    let range = |start: usize, count: usize| match count {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    };
    let text = hunk.to_string();
    let lines = text.split_once('\n').map_or("", |(_, lines)| lines);
    format!("@@ -{} +{} @@\n{lines}", range(start.0, old), range(start.1, new))
}

/// Returns the number of lines.
fn count(text: &[u8]) -> usize {
    let ends = memchr::memchr_iter(b'\n', text).count();
    ends + usize::from(text.last().is_some_and(|last| *last != b'\n'))
}

/// Returns the changes in the details of a result. Empty if there are none, or the result is of another tool.
#[must_use]
pub fn changes_of(details: &Value) -> Vec<FileChange> {
    let changes = details.get("changes").map(Vec::<FileChange>::deserialize);
    changes.and_then(Result::ok).unwrap_or_default()
}
