//! `edit_file`: replaces text in a file and leaves every other byte unchanged.
//!
//! ```
//! use agent_core::AgentTool;
//! use agent_tools::EditFileTool;
//! // Field names that models know from other tools are accepted.
//! let tool: &dyn AgentTool = &EditFileTool::default();
//! let arguments = tool.prepare_arguments(serde_json::json!({"path": "a.rs", "oldText": "x", "newText": "y"}));
//! assert_eq!(arguments, serde_json::json!({"path": "a.rs", "old_text": "x", "new_text": "y"}));
//! ```

mod apply;
mod error;
mod matching;

#[cfg(test)]
mod tests;

use std::io::Read as _;
use std::path::PathBuf;

use agent_core::{CancellationToken, Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub use error::EditFileError;

use crate::blocking::{interruptible, to_completion};
use crate::file_change::{Contents, FileChange, MAX_COMPARED_BYTES};
use crate::text::lines;
use crate::workspace::{FileLock, Intent, Place};
use crate::{PathError, Workspace};

/// The maximum size of a file that can be edited: 8 MiB. The whole file is read into memory, which takes about ten
/// times its size while it is searched.
pub const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The maximum number of replacements in one call.
pub const MAX_EDITS: usize = 200;

/// The `edit_file` tool, which replaces text in a file.
#[derive(Debug, Clone, Default)]
pub struct EditFileTool {
    workspace: Workspace,
}

impl EditFileTool {
    /// Creates a tool that edits files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

/// The arguments of `edit_file`: either one replacement or a list of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct EditFileArgs {
    /// The file to edit
    pub path: String,
    /// The text to replace. It must occur in the file exactly once
    pub old_text: Option<String>,
    /// The text that replaces it
    pub new_text: Option<String>,
    /// Several replacements in one call, instead of old_text and new_text
    pub edits: Option<Vec<Replacement>>,
}

/// One replacement of a text in the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct Replacement {
    /// The text to replace. It must occur in the file exactly once
    pub old_text: String,
    /// The text that replaces it
    pub new_text: String,
}

impl Replacement {
    /// Creates a replacement of `old` by `new`, which may be empty.
    #[must_use]
    pub fn new(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self { old_text: old.into(), new_text: new.into() }
    }
}

impl EditFileArgs {
    /// Returns the path and the replacements, whichever form the arguments have.
    fn into_parts(self) -> Result<(String, Vec<Replacement>), EditFileError> {
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

impl Tool for EditFileTool {
    const NAME: &'static str = "edit_file";
    type Args = EditFileArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Edit File"
    }

    fn description(&self) -> &str {
        "Replace text in a file. Pass old_text and new_text, or several of them as edits. Each old_text must occur in \
         the file exactly once: include surrounding lines where needed. All edits of a call refer to the file as it was \
         before the call and must not overlap. To create a file, use write_file."
    }

    fn effects(&self, _: &EditFileArgs) -> Effects {
        Effects::Once
    }

    /// Accepts field names in camel case, a single edit without a list, and a list that was sent as JSON text, which
    /// are the forms that models know from other tools.
    fn prepare_arguments(&self, arguments: Value) -> Value {
        with_known_names(arguments)
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.workspace.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.workspace.resolved_arguments(arguments)
    }

    async fn call(&self, args: EditFileArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        let (path, edits) = args.into_parts().map_err(|error| ToolError::InvalidArgs(error.to_string()))?;
        ctx.check_cancelled()?;
        let (access, named) = (self.workspace.access(ctx), path.clone());
        let locate = move |_: &_| {
            // An edit shows whether a text occurs in the file.
            access.locate(&named, Intent::Read)?;
            access.locate(&named, Intent::Write)
        };
        let place = interruptible(ctx, None, locate).await??;
        let turn = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(ToolError::Cancelled),
            turn = FileLock::enter(place.real()) => turn,
        };
        let cancel = ctx.cancel.clone();
        to_completion(move || {
            // Released when the work ends, even if the caller has stopped waiting for it.
            let _turn = turn;
            edit(&place, &path, &edits, &cancel)
        })
        .await?
    }
}

fn edit(
    place: &Place,
    path: &str,
    edits: &[Replacement],
    cancel: &CancellationToken,
) -> Result<ToolResult, ToolError> {
    let check = || if cancel.is_cancelled() { Err(ToolError::Cancelled) } else { Ok(()) };
    check()?;
    let before = read(place, path)?;
    let after = apply::apply(path, &before, edits)?;
    let count = |text: fn(&Replacement) -> &str| edits.iter().map(|edit| text(edit).lines().count()).sum();
    let (old, new): (usize, usize) = (count(|edit| &edit.old_text), count(|edit| &edit.new_text));
    if after == before {
        // The model expected a change, so this is an error.
        return Ok(ToolResult::error("No changes (old_text == new_text)")
            .with_details(json!({"path": path, "old_lines": old, "new_lines": old})));
    }
    check()?;
    place.replace(&after).map_err(|error| match error {
        PathError::Access { path, source } => EditFileError::Write { path, source },
        error => error.into(),
    })?;
    let many = if edits.len() > 1 { format!(" ({} edits)", edits.len()) } else { String::new() };
    let text = format!("Replaced {} with {} in {path}{many}", lines(old), lines(new));
    let changes = [FileChange::between(path, Some(&before), Some(&after))];
    let details = json!({"path": path, "old_lines": old, "new_lines": new, "changes": changes});
    Ok(ToolResult::text(text).with_details(details))
}

/// Returns what a call would change in a file that can be compared; `None` if it would fail.
pub(crate) fn planned(workspace: &Workspace, arguments: &Value) -> Option<Contents> {
    let args = EditFileArgs::deserialize(with_known_names(arguments.clone())).ok()?;
    let (path, edits) = args.into_parts().ok()?;
    workspace.place(&path, Intent::Write).ok()?;
    let before = workspace.read_bytes(&path, MAX_COMPARED_BYTES as u64).ok()?;
    let after = apply::apply(&path, &before, &edits).ok()?;
    Some((path, Some(before), after))
}

fn read(place: &Place, path: &str) -> Result<Vec<u8>, EditFileError> {
    let failed = |cause: String| EditFileError::Read { path: path.to_owned(), cause };
    let (file, bytes) = place.open_file().map_err(|error| match error {
        PathError::Access { source, .. } => failed(source.to_string()),
        error => error.into(),
    })?;
    let too_large = |bytes| Err(EditFileError::TooLarge { path: path.to_owned(), bytes });
    if bytes > MAX_FILE_BYTES {
        return too_large(bytes);
    }
    let mut content = Vec::new();
    // The file may have grown since its size was read, so the read is limited as well.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(|error| failed(error.to_string()))?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return too_large(content.len() as u64);
    }
    Ok(content)
}

/// Renames the fields that models know from other tools, and puts `edits` into a list.
fn with_known_names(arguments: Value) -> Value {
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
            Value::Array(list) => Value::Array(list.into_iter().map(edit_with_known_names).collect()),
            other => other,
        };
        fields.insert("edits".to_owned(), edits);
    }
    Value::Object(fields)
}

fn edit_with_known_names(edit: Value) -> Value {
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
