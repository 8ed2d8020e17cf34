//! The change that an edit would make, before it is made.

use std::path::Path;

use serde_json::Value;
use similar::TextDiff;

/// The largest file that is compared with its new content.
const MAX_COMPARED: u64 = 1 << 20;

/// The change of one file that a call would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreseen {
    /// The path, as in the arguments of the call.
    pub(crate) path: String,
    /// The content now; `None` if there is no such file.
    pub(crate) before: Option<String>,
    pub(crate) after: String,
}

impl Foreseen {
    /// The unified diff of the change.
    pub(crate) fn diff(&self) -> String {
        let before = self.before.as_deref().unwrap_or_default();
        TextDiff::from_lines(before, &self.after).unified_diff().context_radius(3).to_string()
    }
}

/// Returns the change that an edit would make, if the whole call is a change of one file that can be foreseen.
pub(crate) fn foreseen(root: &Path, tool: &str, arguments: &Value) -> Option<Foreseen> {
    let path = arguments.get("path")?.as_str()?;
    let file = root.join(path);
    // A path that leads out is refused by the tool, and nothing is read here.
    let folder = file.parent()?.canonicalize().ok()?;
    if !folder.starts_with(root) || std::fs::symlink_metadata(&file).is_ok_and(|facts| !facts.is_file()) {
        return None;
    }
    let before = match std::fs::metadata(&file) {
        Ok(facts) if facts.len() > MAX_COMPARED => return None,
        Ok(_) => Some(std::fs::read_to_string(&file).ok()?),
        Err(_) => None,
    };
    let text = before.as_deref().unwrap_or_default();
    let after = match tool {
        "write_file" => arguments.get("content")?.as_str()?.to_owned(),
        "edit_file" => edited(text, arguments)?,
        _ => return None,
    };
    (text != after).then(|| Foreseen { path: path.to_owned(), before, after })
}

/// Applies the replacements of a call, each of which must apply once.
fn edited(before: &str, arguments: &Value) -> Option<String> {
    let single = [arguments.clone()];
    let edits = match arguments.get("edits").and_then(Value::as_array) {
        Some(edits) => edits.as_slice(),
        None => &single,
    };
    let mut text = before.to_owned();
    for edit in edits {
        let (old, new) = (edit.get("old_text")?.as_str()?, edit.get("new_text")?.as_str()?);
        if old.is_empty() || text.matches(old).count() != 1 {
            return None;
        }
        text = text.replacen(old, new, 1);
    }
    Some(text)
}
