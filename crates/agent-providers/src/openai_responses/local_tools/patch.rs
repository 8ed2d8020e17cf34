//! Converts the vendor's change of one file to the patch that `apply_patch` reads, and back.

use serde_json::{Value, json};

use super::escaped;

const BEGIN: &str = "*** Begin Patch\n";
const END: &str = "*** End Patch";

/// The heads of sections and the vendor's names of what they do.
const HEADS: [(&str, &str); 3] = [
    ("*** Add File: ", "create_file"),
    ("*** Update File: ", "update_file"),
    ("*** Delete File: ", "delete_file"),
];

/// The line of a hunk that begins like the head of a section.
const END_OF_FILE: &str = "*** End of File";

/// Returns the beginning of the arguments, up to the text of the diff.
pub(super) fn opening(operation: &Value) -> Option<String> {
    let kind = operation.get("type")?.as_str()?;
    let (head, _) = HEADS.iter().find(|(_, name)| *name == kind)?;
    let path = operation.get("path")?.as_str()?;
    let is_line = !path.trim().is_empty() && path.trim() == path && !path.contains(['\n', '\r']);
    is_line.then(|| format!(r#"{{"input":"{}"#, escaped(&format!("{BEGIN}{head}{path}\n"))))
}

/// Returns the arguments; `None` if the patch would do something else than the operation.
pub(super) fn arguments(operation: &Value) -> Option<String> {
    let opening = opening(operation)?;
    let diff = match operation.get("diff") {
        Some(diff) => diff.as_str()?,
        None if operation.get("type")? == "delete_file" => "",
        None => return None,
    };
    if !is_one_section(diff) {
        return None;
    }
    let newline = if diff.is_empty() || diff.ends_with('\n') { "" } else { "\n" };
    Some(format!(r#"{opening}{}{}"}}"#, escaped(diff), escaped(&format!("{newline}{END}"))))
}

/// Returns the operation of a patch with one section.
pub(super) fn operation(arguments: &Value) -> Option<Value> {
    let members = arguments.as_object().filter(|members| members.len() == 1)?;
    let section = members.get("input")?.as_str()?.strip_prefix(BEGIN)?.trim_end().strip_suffix(END)?;
    let (head, diff) = section.split_once('\n')?;
    let (path, kind) = HEADS.iter().find_map(|(start, kind)| Some((head.strip_prefix(start)?, kind)))?;
    let path = path.trim();
    if path.is_empty() || !is_one_section(diff) {
        return None;
    }
    match *kind {
        "delete_file" if diff.trim().is_empty() => Some(json!({"type": kind, "path": path})),
        "delete_file" => None,
        _ => Some(json!({"type": kind, "path": path, "diff": diff})),
    }
}

/// Returns whether no line of a diff begins another section or moves the file.
fn is_one_section(diff: &str) -> bool {
    !diff.lines().any(|line| line.starts_with("*** ") && !line.starts_with(END_OF_FILE))
}
