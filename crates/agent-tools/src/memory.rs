//! `memory`: notes in a folder that the user can read, which outlast a conversation.
//!
//! The commands and the paths are those of Anthropic's memory tool, which Claude was trained on. The tool works with any model.
//!
//! ```
//! use agent_core::{AgentTool, Effects};
//! use agent_tools::MemoryTool;
//! # let folder = tempfile::tempdir()?;
//! let tool = MemoryTool::open(folder.path())?;
//! let view = serde_json::json!({"command": "view", "path": "/memories"});
//! assert_eq!(AgentTool::effects(&tool, &view), Effects::ReadOnly);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod store;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use agent_core::{Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use error::MemoryError;

use crate::blocking::{interruptible, to_completion};
use crate::file_change::FileChange;
use crate::workspace::{FileLock, Intent, Place};
use crate::{PathError, Workspace};
use store::Store;

/// The maximum size of a file: 128 KiB.
pub const MAX_FILE_BYTES: u64 = 128 * 1024;

/// The maximum number of files and folders in the memory.
pub const MAX_FILES: usize = 1000;

/// The maximum number of entries in the listing of a folder.
pub const MAX_LISTED: usize = 500;

/// The maximum depth of folders.
const MAX_DEPTH: usize = 16;

/// The folder of the memory in the arguments.
const ROOT: &str = "/memories";

/// The `memory` tool over one folder.
#[derive(Debug, Clone)]
pub struct MemoryTool {
    workspace: Workspace,
}

impl MemoryTool {
    /// Creates a tool whose memory is the folder at this path. Creates the folder if it is missing.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or opened.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, PathError> {
        let folder = folder.as_ref();
        let failed = |source| PathError::access(&folder.display().to_string(), source);
        std::fs::create_dir_all(folder).map_err(failed)?;
        Ok(Self { workspace: Workspace::open(folder)? })
    }

    /// Creates a tool whose memory is the root of this workspace, with its rules. An unconfined workspace is refused, because
    /// `/memories` has to be a folder.
    ///
    /// # Errors
    /// Returns [`PathError::Empty`] for a workspace without a root.
    pub fn new(workspace: Workspace) -> Result<Self, PathError> {
        if workspace.root().is_none() { Err(PathError::Empty) } else { Ok(Self { workspace }) }
    }

    /// Returns the name of an entry below a place for policies.
    fn label(&self, place: &Place, rest: &Path) -> String {
        store::shown(&self.workspace.labels().of(&place.real().join(rest)))
    }
}

/// The commands of `memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MemoryCommand {
    /// Shows a file with line numbers, or lists a folder.
    View,
    /// Creates a file that does not exist.
    Create,
    /// Replaces a text that occurs once.
    StrReplace,
    /// Inserts lines behind a line.
    Insert,
    /// Removes a file, or a folder with its content.
    Delete,
    /// Gives a file or a folder another path.
    Rename,
}

impl MemoryCommand {
    fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Create => "create",
            Self::StrReplace => "str_replace",
            Self::Insert => "insert",
            Self::Delete => "delete",
            Self::Rename => "rename",
        }
    }
}

/// The arguments of `memory`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct MemoryArgs {
    /// What to do: view, create, str_replace, insert, delete or rename
    #[schemars(with = "String", extend("enum" = ["view", "create", "str_replace", "insert", "delete", "rename"]))]
    pub command: MemoryCommand,
    /// The file or folder, such as /memories/notes.md; for all commands but rename
    pub path: Option<String>,
    /// The first and the last line to view; -1 as the last is the end of the file
    pub view_range: Option<Vec<i64>>,
    /// The content of a new file
    pub file_text: Option<String>,
    /// The text to replace, which must occur exactly once
    pub old_str: Option<String>,
    /// The text that replaces it
    pub new_str: Option<String>,
    /// The line behind which to insert; 0 is the beginning
    pub insert_line: Option<u64>,
    /// The lines to insert
    pub insert_text: Option<String>,
    /// The path to rename
    pub old_path: Option<String>,
    /// The new path, which must not exist
    pub new_path: Option<String>,
}

impl MemoryArgs {
    fn need<'a>(&self, argument: &'static str, value: Option<&'a String>) -> Result<&'a str, MemoryError> {
        value.map(String::as_str).ok_or(MemoryError::Missing { command: self.command.name(), argument })
    }

    /// Returns the names and the values of the paths of the command.
    fn paths(&self) -> Result<Vec<(&'static str, &str)>, MemoryError> {
        if self.command == MemoryCommand::Rename {
            let old = self.need("old_path", self.old_path.as_ref())?;
            return Ok(vec![("old_path", old), ("new_path", self.need("new_path", self.new_path.as_ref())?)]);
        }
        Ok(vec![("path", self.need("path", self.path.as_ref())?)])
    }
}

impl Tool for MemoryTool {
    const NAME: &'static str = "memory";
    type Args = MemoryArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Memory"
    }

    fn description(&self) -> &str {
        "Read and write notes in /memories, which you will have in later conversations. View /memories before you begin a \
         task. Note what helps later: decisions, findings, the state of the work. Do not note secrets."
    }

    fn effects(&self, args: &MemoryArgs) -> Effects {
        if args.command == MemoryCommand::View { Effects::ReadOnly } else { Effects::Once }
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.workspace.working_directory()
    }

    /// Resolves the paths below `/memories`. A rename has them as `paths`, and so has a deletion; both with everything below a
    /// folder, so that a policy about a file decides about the folder that contains it.
    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        let mut resolved = arguments.clone();
        let mut places = Vec::new();
        for name in ["path", "old_path", "new_path"] {
            let Some(path) = arguments.get(name).and_then(Value::as_str) else { continue };
            let place = self.workspace.place(&store::relative(path).ok()?, Intent::List).ok()?;
            *resolved.get_mut(name)? = Value::String(self.label(&place, Path::new("")));
            places.push(place);
        }
        // The paths that a deletion or a renaming concerns: the last one is where the others go.
        let carried = match arguments.get("command").and_then(Value::as_str) {
            Some("delete" | "rename") => places.first(),
            _ => None,
        };
        let fields = resolved.as_object_mut()?;
        fields.remove("paths");
        if let Some(carried) = carried {
            // What cannot be listed is refused when the call runs.
            let mut below = store::tree(carried).ok()?;
            below.insert(0, PathBuf::new());
            let labels = |place: &Place| below.iter().map(|rest| self.label(place, rest)).collect::<Vec<_>>();
            fields.insert("paths".to_owned(), json!(places.iter().flat_map(labels).collect::<Vec<_>>()));
        }
        Some(resolved)
    }

    async fn call(&self, args: MemoryArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let store = Store::new(&self.workspace, ctx);
        if args.command == MemoryCommand::View {
            return Ok(interruptible(ctx, None, move |_| view(&store, &args)).await??);
        }
        // Changes to the memory are made one after the other, because a folder can be removed with its files.
        let root = self.workspace.root().map(Path::to_path_buf).unwrap_or_default();
        let turn = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(ToolError::Cancelled),
            turn = FileLock::enter(&root) => turn,
        };
        let cancel = ctx.cancel.clone();
        to_completion(move || {
            // Released when the work ends, even if the caller has stopped waiting for it.
            let _turn = turn;
            if cancel.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            Ok(change(&store, &args)?)
        })
        .await?
    }
}

fn view(store: &Store, args: &MemoryArgs) -> Result<ToolResult, MemoryError> {
    let path = args.need("path", args.path.as_ref())?;
    let place = store.locate("path", path, Intent::List)?;
    match store::kind(&place, path)? {
        None => Err(MemoryError::NotFound { path: path.to_owned() }),
        Some(crate::dir::Kind::Folder) => listing(&place, path),
        Some(_) => {
            let text = store::read(&store.locate("path", path, Intent::Read)?, path)?;
            numbered(&text, path, args.view_range.as_deref())
        }
    }
}

fn listing(place: &Place, path: &str) -> Result<ToolResult, MemoryError> {
    let failed = |source| MemoryError::Change { path: path.to_owned(), source };
    let (found, is_complete) = store::list(place).map_err(failed)?;
    let mut text = format!("The files and folders in {}, two levels deep:", path.trim_end_matches('/'));
    for item in &found {
        let below = store::shown(&crate::text::path_text(&item.below));
        let end = if item.is_folder { "/".to_owned() } else { format!(" ({} bytes)", item.bytes) };
        text.push_str(&format!("\n{below}{end}"));
    }
    if found.is_empty() {
        text.push_str("\n(none)");
    }
    if !is_complete {
        text.push_str("\n(and more)");
    }
    Ok(ToolResult::text(text))
}

fn numbered(text: &str, path: &str, range: Option<&[i64]>) -> Result<ToolResult, MemoryError> {
    let lines = text.lines().count();
    let wrong = || MemoryError::Line { path: path.to_owned(), lines };
    let (first, last) = match range {
        None => (1, lines),
        Some([first, last]) => {
            let last = if *last == -1 { Ok(lines) } else { usize::try_from(*last) };
            (usize::try_from(*first).map_err(|_| wrong())?, last.map_err(|_| wrong())?)
        }
        Some(_) => return Err(wrong()),
    };
    if range.is_some() && (first == 0 || first > last || first > lines) {
        return Err(wrong());
    }
    let mut shown = format!("Here's the content of {path} with line numbers:");
    for (number, line) in (1..).zip(text.lines()).take(last).skip(first - 1) {
        shown.push_str(&format!("\n{number:6}\t{line}"));
    }
    Ok(ToolResult::text(shown))
}

fn change(store: &Store, args: &MemoryArgs) -> Result<ToolResult, MemoryError> {
    let mut places = Vec::new();
    for (argument, path) in args.paths()? {
        places.push((store.locate(argument, path, Intent::Write)?, path));
    }
    let (Some((place, path)), second) = (places.first(), places.get(1)) else {
        return Err(MemoryError::Missing { command: args.command.name(), argument: "path" });
    };
    let kind = store::kind(place, path)?;
    let missing = || MemoryError::NotFound { path: (*path).to_owned() };
    match args.command {
        MemoryCommand::View => view(store, args),
        MemoryCommand::Create => {
            let text = args.need("file_text", args.file_text.as_ref())?;
            if kind.is_some() {
                return Err(MemoryError::Exists { path: (*path).to_owned() });
            }
            store::check_room(&store.locate_root()?, place, path, (1, 0))?;
            store::write(place, path, text)?;
            Ok(changed(format!("File created successfully at: {path}"), path, None, Some(text)))
        }
        MemoryCommand::StrReplace | MemoryCommand::Insert => {
            kind.ok_or_else(missing)?;
            let before = store::read(&store.locate("path", path, Intent::Read)?, path)?;
            let after = if args.command == MemoryCommand::Insert {
                inserted(args, path, &before)?
            } else {
                replaced(args, path, &before)?
            };
            store::write(place, path, &after)?;
            Ok(changed(format!("The file {path} has been edited."), path, Some(&before), Some(&after)))
        }
        MemoryCommand::Delete => {
            let kind = kind.ok_or_else(missing)?;
            if place.below().as_os_str().is_empty() {
                return Err(MemoryError::WholeMemory);
            }
            store.check_tree(place, path, None)?;
            let failed = |source| MemoryError::Change { path: (*path).to_owned(), source };
            store::remove(place.dir(), place.below(), kind, MAX_DEPTH * 2).map_err(failed)?;
            Ok(ToolResult::text(format!("Successfully deleted {path}")))
        }
        MemoryCommand::Rename => {
            kind.ok_or_else(missing)?;
            let (target, to) =
                second.ok_or(MemoryError::Missing { command: args.command.name(), argument: "new_path" })?;
            if place.below().as_os_str().is_empty() || target.below().as_os_str().is_empty() {
                return Err(MemoryError::WholeMemory);
            }
            if store::kind(target, to)?.is_some() {
                return Err(MemoryError::Exists { path: (*to).to_owned() });
            }
            let height = store.check_tree(place, path, Some(target))?;
            store::check_room(&store.locate_root()?, target, to, (0, height))?;
            let failed = |source| MemoryError::Change { path: (*path).to_owned(), source };
            let folder = target.below().parent().unwrap_or(Path::new(""));
            target.dir().create_dirs(folder).map_err(failed)?;
            place.dir().rename(place.below(), target.below()).map_err(failed)?;
            Ok(ToolResult::text(format!("Successfully renamed {path} to {to}")))
        }
    }
}

fn changed(text: String, path: &str, before: Option<&str>, after: Option<&str>) -> ToolResult {
    let change = FileChange::between(path, before.map(str::as_bytes), after.map(str::as_bytes));
    ToolResult::text(text).with_details(json!({ "changes": [change] }))
}

fn replaced(args: &MemoryArgs, path: &str, before: &str) -> Result<String, MemoryError> {
    let old = args.need("old_str", args.old_str.as_ref())?;
    let new = args.new_str.as_deref().unwrap_or_default();
    let count = if old.is_empty() { 0 } else { before.matches(old).count() };
    if count != 1 {
        return Err(MemoryError::Occurrences { path: path.to_owned(), count });
    }
    Ok(before.replacen(old, new, 1))
}

fn inserted(args: &MemoryArgs, path: &str, before: &str) -> Result<String, MemoryError> {
    let text = args.need("insert_text", args.insert_text.as_ref())?;
    let line = args.insert_line.ok_or(MemoryError::Missing { command: "insert", argument: "insert_line" })?;
    let mut lines: Vec<&str> = before.split_inclusive('\n').collect();
    let wrong = || MemoryError::Line { path: path.to_owned(), lines: lines.len() };
    let line = usize::try_from(line).ok().filter(|line| *line <= lines.len()).ok_or_else(wrong)?;
    let text = format!("{}\n", text.strip_suffix('\n').unwrap_or(text));
    let needs_end = line > 0 && line == lines.len() && !before.ends_with('\n');
    if needs_end {
        lines.push("\n");
    }
    lines.insert(if needs_end { line + 1 } else { line }, &text);
    Ok(lines.concat())
}
