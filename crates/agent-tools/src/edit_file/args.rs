//! What the model sends to `edit_file`.

use agent_core::ToolError;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{EditFileError, MAX_EDITS};

/// The arguments of `edit_file`: one replacement or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct EditFileArgs {
    /// The file.
    pub path: String,
    /// The text to replace, when there is one replacement.
    #[serde(default)]
    pub old_text: Option<String>,
    /// What to put in its place.
    #[serde(default)]
    pub new_text: Option<String>,
    /// The replacements, when there are several.
    #[serde(default)]
    pub edits: Option<Vec<Replacement>>,
}

/// One text for another.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Replacement {
    /// The text to replace.
    pub old_text: String,
    /// What to put in its place; may be empty.
    pub new_text: String,
}

impl Replacement {
    /// `old` for `new`.
    #[must_use]
    pub fn new(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self { old_text: old.into(), new_text: new.into() }
    }
}

impl EditFileArgs {
    pub(super) fn parse(arguments: Value) -> Result<Self, ToolError> {
        serde_json::from_value(put_right(arguments))
            .map_err(|error| ToolError::InvalidArgs(format!("edit_file: {error}")))
    }

    /// The path and what to replace, whichever way it was said.
    pub(super) fn into_parts(self) -> Result<(String, Vec<Replacement>), EditFileError> {
        let edits = match (self.old_text, self.new_text, self.edits) {
            (Some(old_text), Some(new_text), None) => vec![Replacement { old_text, new_text }],
            (None, None, Some(edits)) if !edits.is_empty() && edits.len() <= MAX_EDITS => edits,
            (None, None, Some(edits)) if edits.len() > MAX_EDITS => return Err(EditFileError::TooManyEdits),
            (None, None, Some(_)) => return Err(EditFileError::NoEdits),
            (Some(old_text), Some(new_text), Some(edits)) if edits.is_empty() => {
                vec![Replacement { old_text, new_text }]
            }
            (_, _, None) => return Err(EditFileError::NoEdits),
            (_, _, Some(_)) => return Err(EditFileError::BothForms),
        };
        Ok((self.path, edits))
    }
}

/// Names in camel case, one edit without a list around it, and a list that was sent as JSON text are what models
/// that were trained on other tools send.
pub(super) fn put_right(arguments: Value) -> Value {
    let Value::Object(mut fields) = arguments else { return arguments };
    rename(&mut fields, "file_path", "path");
    rename(&mut fields, "filePath", "path");
    rename_texts(&mut fields);
    if let Some(edits) = fields.remove("edits") {
        let edits = match edits {
            Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            other => other,
        };
        let edits = match edits {
            one @ Value::Object(_) => Value::Array(vec![one]),
            other => other,
        };
        let edits = match edits {
            Value::Array(list) => Value::Array(list.into_iter().map(put_right_edit).collect()),
            other => other,
        };
        fields.insert("edits".to_owned(), edits);
    }
    Value::Object(fields)
}

fn put_right_edit(edit: Value) -> Value {
    let Value::Object(mut fields) = edit else { return edit };
    rename_texts(&mut fields);
    Value::Object(fields)
}

fn rename_texts(fields: &mut Map<String, Value>) {
    for (from, to) in [
        ("oldText", "old_text"),
        ("newText", "new_text"),
        ("old_string", "old_text"),
        ("new_string", "new_text"),
    ] {
        rename(fields, from, to);
    }
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if !fields.contains_key(to)
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}

pub(super) fn schema() -> Value {
    let old = "The text to replace. It must be in the file exactly once";
    let new = "The text to put in its place";
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file to edit"},
            "old_text": {"type": "string", "description": old},
            "new_text": {"type": "string", "description": new},
            "edits": {
                "type": "array",
                "description": "Several replacements in one call, in place of old_text and new_text",
                "items": {
                    "type": "object",
                    "properties": {
                        "old_text": {"type": "string", "description": old},
                        "new_text": {"type": "string", "description": new}
                    },
                    "required": ["old_text", "new_text"]
                }
            }
        },
        "required": ["path"]
    })
}
