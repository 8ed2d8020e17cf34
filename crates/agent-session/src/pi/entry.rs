//! Reads the lines of a file: a head, then entries that refer to their parents.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::PI_VERSION;
use crate::error::SessionError;
use crate::store::Loss;

/// A file, converted to the latest version.
pub(super) struct File {
    pub(super) head: Value,
    pub(super) entries: Vec<Entry>,
    pub(super) losses: Vec<Loss>,
}

/// An entry whose parent comes before it.
pub(super) struct Entry {
    pub(super) value: Value,
    /// The line, from 1.
    pub(super) line: usize,
    /// The position of its parent among the entries.
    pub(super) parent: Option<usize>,
}

impl Entry {
    pub(super) fn kind(&self) -> &str {
        text(&self.value, "type")
    }

    pub(super) fn id(&self) -> &str {
        text(&self.value, "id")
    }
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn read(bytes: &[u8], path: &Path) -> Result<File, SessionError> {
    let corrupt = |reason: String| SessionError::corrupt(path, "line 1", reason);
    // Only a line feed ends a line; other line separators can occur inside of strings.
    let mut lines = bytes.split(|b| *b == b'\n').enumerate().map(|(n, line)| (n + 1, line.trim_ascii()));
    let (_, first) = lines.next().unwrap_or((1, &[]));
    let head: Value = serde_json::from_slice(first).map_err(|e| corrupt(e.to_string()))?;
    if text(&head, "type") != "session" || text(&head, "id").is_empty() {
        return Err(corrupt("this is not the head of a session of pi".to_owned()));
    }
    let version = match head.get("version") {
        None => 1,
        Some(version) => version.as_u64().ok_or_else(|| corrupt("its version is no number".to_owned()))?,
    };
    if version > PI_VERSION {
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let (found, known) = (number(version), number(PI_VERSION));
        return Err(SessionError::UnsupportedVersion { path: path.to_owned(), found, known });
    }
    let mut file = File { head, entries: Vec::new(), losses: Vec::new() };
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (line, bytes) in lines.filter(|(_, line)| !line.is_empty()) {
        let mut lost =
            |reason: String| file.losses.push(Loss::new(format!("{}: line {line}", path.display()), reason));
        let mut value: Value = match serde_json::from_slice(bytes) {
            Ok(value) => value,
            Err(error) => {
                lost(error.to_string());
                continue;
            }
        };
        if !value.is_object() || text(&value, "type").is_empty() {
            lost("this is no entry".to_owned());
            continue;
        }
        if version < 2 {
            number_entry(&mut value, &file.entries);
        }
        if version < 3
            && let Some(role) = value.pointer_mut("/message/role").filter(|r| *r == "hookMessage")
        {
            *role = json!("custom");
        }
        let id = text(&value, "id").to_owned();
        if id.is_empty() || places.contains_key(&id) {
            lost(format!("its id {id:?} is empty or was there before"));
            continue;
        }
        let parent = match value.get("parentId") {
            None | Some(Value::Null) => None,
            Some(parent) => match parent.as_str().and_then(|p| places.get(p)) {
                Some(at) => Some(*at),
                None => {
                    // Only an earlier entry can be a parent, so there are no cycles.
                    lost(format!("its parent {parent} is no entry before it"));
                    None
                }
            },
        };
        places.insert(id, file.entries.len());
        file.entries.push(Entry { value, line, parent });
    }
    if version < PI_VERSION
        && let Some(head) = file.head.as_object_mut()
    {
        head.insert("version".to_owned(), json!(PI_VERSION));
    }
    Ok(file)
}

/// Converts an entry of version 1, which was a list: the parent is the previous entry.
fn number_entry(value: &mut Value, before: &[Entry]) {
    let parent = before.last().map(|e| e.id().to_owned());
    let kept = value.get("firstKeptEntryIndex").and_then(Value::as_u64);
    let kept =
        kept.and_then(|n| before.get(usize::try_from(n).ok()?.checked_sub(1)?)).map(|e| e.id().to_owned());
    if let Some(map) = value.as_object_mut() {
        map.insert("id".to_owned(), json!(format!("{:08x}", before.len() + 1)));
        map.insert("parentId".to_owned(), json!(parent));
        if let Some(kept) = kept {
            map.shift_remove("firstKeptEntryIndex");
            map.insert("firstKeptEntryId".to_owned(), json!(kept));
        }
    }
}
