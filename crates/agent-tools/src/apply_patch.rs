//! `apply_patch`: changes several files by a patch in the format that GPT models were trained on.
//!
//! The patch is applied as a whole or not at all: all of its parts are read, checked and matched before the first file is
//! changed.
//!
//! ```
//! use agent_core::AgentTool;
//! use agent_tools::ApplyPatchTool;
//! // A policy receives the files of the patch as `paths`.
//! let patch = "*** Begin Patch\n*** Delete File: /tmp/../tmp-a.txt\n*** End Patch";
//! let resolved = ApplyPatchTool::default().resolved_arguments(&serde_json::json!({"input": patch}));
//! assert_eq!(resolved.map(|arguments| arguments["paths"][0].clone()), Some("/tmp-a.txt".into()));
//! ```

mod error;
mod matching;
mod parse;
mod write;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use agent_core::{Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub use error::PatchError;

use crate::blocking::{interruptible, to_completion};
use crate::workspace::{FileLock, Intent, Place};
use crate::{PathError, Workspace};
use parse::{Action, Section};

/// The maximum size of a patch: 1 MiB.
pub const MAX_PATCH_BYTES: usize = 1024 * 1024;

/// The maximum number of files in one patch.
pub const MAX_FILES: usize = 100;

/// The maximum size of a file that can be patched: 8 MiB.
pub const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The maximum size of the files of one patch together, before it: 64 MiB.
pub const MAX_TOTAL_BYTES: usize = 64 * 1024 * 1024;

/// The `apply_patch` tool, which adds, changes, moves and deletes files.
#[derive(Debug, Clone, Default)]
pub struct ApplyPatchTool {
    workspace: Workspace,
}

impl ApplyPatchTool {
    /// Creates a tool that patches files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

/// The arguments of `apply_patch`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct ApplyPatchArgs {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`
    pub input: String,
}

impl Tool for ApplyPatchTool {
    const NAME: &'static str = "apply_patch";
    type Args = ApplyPatchArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Apply Patch"
    }

    fn description(&self) -> &str {
        "Add, change, move and delete files by one patch, which is applied as a whole or not at all. The form:\n\
         *** Begin Patch\n\
         *** Update File: path\n\
         *** Move to: new path (optional)\n\
         @@ a line before the change, such as the head of the function (optional)\n \
         unchanged line\n\
         -removed line\n\
         +added line\n\
         *** End of File (optional, if the hunk ends with the file)\n\
         *** Add File: path\n\
         +line\n\
         *** Delete File: path\n\
         *** End Patch\n\
         Show three unchanged lines before and after each change. If the lines occur more than once, name the function or \
         class in @@. The hunks of a file are in its order, and each begins with @@."
    }

    fn effects(&self, _: &ApplyPatchArgs) -> Effects {
        Effects::Once
    }

    /// Accepts the names `patch` and `diff` for the argument. Removes a `path` and `paths`, which a policy would take for files
    /// of the patch.
    fn prepare_arguments(&self, mut arguments: Value) -> Value {
        if let Some(fields) = arguments.as_object_mut() {
            fields.remove("path");
            fields.remove("paths");
            if !fields.contains_key("input")
                && let Some(patch) = fields.remove("patch").or_else(|| fields.remove("diff"))
            {
                fields.insert("input".to_owned(), patch);
            }
        }
        arguments
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.workspace.working_directory()
    }

    /// Adds all files of the patch, resolved, as `paths`.
    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        let sections = parse::parse(arguments.get("input").and_then(Value::as_str)?).ok()?;
        let labels = self.workspace.labels();
        let resolve = |path: &str| self.workspace.resolve(path).ok().map(|real| labels.of(&real));
        let paths: Vec<String> = sections.iter().flat_map(named).map(resolve).collect::<Option<_>>()?;
        let mut resolved = arguments.clone();
        resolved.as_object_mut()?.insert("paths".to_owned(), json!(paths));
        Some(resolved)
    }

    async fn call(&self, args: ApplyPatchArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let (workspace, call) = (self.workspace.clone(), ctx.clone());
        let locate = move |_: &_| {
            let sections = parse::parse(&args.input)?;
            located(&workspace, &call, sections)
        };
        let files = interruptible(ctx, None, locate).await??;
        // All calls lock in the order of the paths, so that two of them never wait for each other.
        let mut reals: Vec<PathBuf> =
            files.iter().flat_map(File::places).map(|place| place.real().to_path_buf()).collect();
        reals.sort();
        let mut turns = Vec::with_capacity(reals.len());
        for real in &reals {
            turns.push(tokio::select! {
                biased;
                () = ctx.cancel.cancelled() => return Err(ToolError::Cancelled),
                turn = FileLock::enter(real) => turn,
            });
        }
        let cancel = ctx.cancel.clone();
        to_completion(move || {
            // Released when the work ends, even if the caller has stopped waiting for it.
            let _turns = turns;
            let check = || if cancel.is_cancelled() { Err(ToolError::Cancelled) } else { Ok(()) };
            check()?;
            let prepared = write::prepare(files, &|| cancel.is_cancelled());
            check()?;
            let changed = prepared?;
            let changes = write::write(&changed)?;
            Ok(ToolResult::text(summary(&changes)).with_details(json!({ "changes": changes })))
        })
        .await?
    }
}

/// A section of the patch with the places of its file.
struct File {
    section: Section,
    place: Place,
    moved_to: Option<Place>,
}

impl File {
    fn places(&self) -> impl Iterator<Item = &Place> {
        [Some(&self.place), self.moved_to.as_ref()].into_iter().flatten()
    }
}

/// Returns the paths that a section names.
fn named(section: &Section) -> impl Iterator<Item = &str> {
    let moved_to = match &section.action {
        Action::Update { moved_to, .. } => moved_to.as_deref(),
        Action::Add(_) | Action::Delete => None,
    };
    [Some(section.path.as_str()), moved_to].into_iter().flatten()
}

/// Checks all paths of a patch.
fn located(
    workspace: &Workspace,
    ctx: &ToolContext,
    sections: Vec<Section>,
) -> Result<Vec<File>, PatchError> {
    let access = workspace.access(ctx);
    let decided = ctx.resolved_arguments.as_deref();
    let labels = access.labels();
    let mut reals: Vec<PathBuf> = Vec::new();
    let mut files = Vec::with_capacity(sections.len());
    for section in sections {
        let mut find = |path: &str, is_new: bool| {
            if !is_new {
                // An error or a diff shows what is in the file.
                access.locate(path, Intent::Read)?;
            }
            let place = access.locate(path, Intent::Write)?;
            let label = Value::String(labels.of(place.real()));
            if let Some(decided) = decided
                && decided.get("paths").and_then(|paths| paths.get(reals.len())) != Some(&label)
            {
                // The hooks of the run have decided about another file.
                return Err(PatchError::Path(PathError::Changed { path: path.to_owned() }));
            }
            let real = place.real();
            if reals.iter().any(|other| other == real) {
                return Err(PatchError::Twice { path: path.to_owned() });
            }
            if let Some(other) = reals.iter().find(|other| real.starts_with(other) || other.starts_with(real))
            {
                let other = labels.of(other);
                return Err(PatchError::Nested { path: path.to_owned(), other });
            }
            reals.push(place.real().to_path_buf());
            Ok(place)
        };
        let place = find(&section.path, matches!(section.action, Action::Add(_)))?;
        let moved_to = match &section.action {
            Action::Update { moved_to: Some(path), .. } => Some(find(path, true)?),
            Action::Add(_) | Action::Delete | Action::Update { .. } => None,
        };
        files.push(File { section, place, moved_to });
    }
    Ok(files)
}

/// Lists what was done, in the form that models know.
fn summary(changes: &[crate::file_change::FileChange]) -> String {
    use crate::file_change::ChangeOf;
    let mut text = "Success. Updated the following files:".to_owned();
    for change in changes {
        let letter = match change.kind {
            ChangeOf::Added => 'A',
            ChangeOf::Updated => 'M',
            ChangeOf::Deleted => 'D',
        };
        let moved = change.moved_to.as_ref().map(|to| format!(" -> {to}")).unwrap_or_default();
        text.push_str(&format!("\n{letter} {}{moved}", change.path));
    }
    text
}
