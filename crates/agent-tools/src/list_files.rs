//! `list_files`: lists the files below a folder.
//!
//! ```
//! use agent_tools::{ListFilesTool, Workspace};
//! let tool = ListFilesTool::new(Workspace::unconfined()).with_max_results(50);
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use agent_core::{CancellationToken, Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocking::{WorkError, interruptible};
use crate::dir::Kind;
use crate::glob::{NamePattern, PatternError};
use crate::walk::{IgnoreFiles, Walk, is_skipped, skipped_note};
use crate::workspace::{Access, Intent};
use crate::{PathError, Workspace};

/// The default maximum number of files in a listing.
pub const MAX_RESULTS: usize = 200;

/// The default depth of a listing. The files of the folder itself are at depth 1.
pub const DEFAULT_DEPTH: usize = 3;

/// The default maximum duration of a listing.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The `list_files` tool. It runs in this process and respects `.gitignore`.
#[derive(Debug, Clone)]
pub struct ListFilesTool {
    workspace: Workspace,
    max_results: usize,
    timeout: Duration,
}

impl ListFilesTool {
    /// Creates a tool that lists files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, max_results: MAX_RESULTS, timeout: TIMEOUT }
    }

    /// Sets the maximum number of files in a listing. The default is [`MAX_RESULTS`].
    #[must_use]
    pub fn with_max_results(mut self, files: usize) -> Self {
        self.max_results = files;
        self
    }

    /// Sets the maximum duration of a listing. The default is [`TIMEOUT`].
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Default for ListFilesTool {
    fn default() -> Self {
        Self::new(Workspace::unconfined())
    }
}

/// The arguments of `list_files`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct ListFilesArgs {
    /// The folder to list. Default: .
    #[serde(default = "current_folder")]
    pub path: String,
    /// Only files that match this glob, for example *.rs or src/**/*.{ts,tsx}
    pub pattern: Option<String>,
    /// How many levels of folders to list; 1 is the folder itself. Default: 3
    #[schemars(range(min = 1))]
    pub max_depth: Option<usize>,
}

fn current_folder() -> String {
    ".".to_owned()
}

/// The reason why a folder was not listed. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListFilesError {
    /// The path was refused.
    #[error(transparent)]
    Path(PathError),
    /// The folder does not exist.
    #[error("Directory not found: {path}. Check the path and try again.")]
    NotFound {
        /// The path in the arguments.
        path: String,
    },
    /// The glob is invalid, or exceeds a [limit](crate::glob).
    #[error("Invalid pattern: {0}")]
    Pattern(#[from] PatternError),
    /// The listing exceeded its time limit.
    #[error("Listing timed out")]
    TimedOut,
    /// The call was cancelled.
    #[error("Operation aborted")]
    Cancelled,
}

impl ListFilesError {
    fn into_tool_error(self) -> ToolError {
        match self {
            Self::Cancelled => ToolError::Cancelled,
            Self::Pattern(_) => ToolError::InvalidArgs(self.to_string()),
            error => error.into(),
        }
    }
}

impl Tool for ListFilesTool {
    const NAME: &'static str = "list_files";
    type Args = ListFilesArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "List Files"
    }

    fn prepare_arguments(&self, arguments: serde_json::Value) -> serde_json::Value {
        crate::arguments::without_blanks(arguments, &["path", "pattern", "max_depth"])
    }

    fn description(&self) -> &str {
        "List the files below a folder, sorted by path. Skips files that .gitignore excludes and the folders target, \
         .git and node_modules. Includes hidden files."
    }

    fn effects(&self, _: &ListFilesArgs) -> Effects {
        Effects::ReadOnly
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.workspace.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.workspace.resolved_arguments(arguments)
    }

    async fn call(&self, args: ListFilesArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let (tool, access) = (self.clone(), self.workspace.access(ctx));
        match interruptible(ctx, Some(self.timeout), move |stop| tool.list(&access, &args, stop)).await {
            Ok(listed) => listed.map_err(ListFilesError::into_tool_error),
            Err(WorkError::TimedOut) => Err(ListFilesError::TimedOut.into()),
            Err(halt) => Err(halt.into()),
        }
    }
}

impl ListFilesTool {
    fn list(
        &self,
        access: &Access,
        args: &ListFilesArgs,
        stop: &CancellationToken,
    ) -> Result<ToolResult, ListFilesError> {
        let path = &args.path;
        let missing = || ListFilesError::NotFound { path: path.clone() };
        let pattern = args.pattern.as_deref().map(NamePattern::new).transpose()?;
        let failed =
            |error: PathError| if error.is_not_found() { missing() } else { ListFilesError::Path(error) };
        let folder = access.locate(path, Intent::List).map_err(failed)?;
        if folder.facts().map_err(failed)?.kind != Kind::Folder {
            return Err(missing());
        }
        let labels = access.labels();
        let mut listing = Listing::new(self.max_results);
        let mut walk = Walk::new(folder.dir(), folder.below(), IgnoreFiles::Respected)
            .with_max_depth(Some(args.max_depth.unwrap_or(DEFAULT_DEPTH).max(1)))
            .with_filter(|below, kind| {
                !(kind == Kind::Folder && below.file_name().is_some_and(is_skipped))
                    && access.allows(&folder, below, Intent::List)
            });
        let mut is_first = true;
        for entry in walk.by_ref() {
            if stop.is_cancelled() {
                return Err(ListFilesError::Cancelled);
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(source) if is_first => return Err(ListFilesError::Path(folder.failed(source))),
                // Unreadable folders are skipped; the rest of the listing is still useful.
                Err(_) => continue,
            };
            is_first = false;
            let rest = entry.below.strip_prefix(folder.below()).unwrap_or(&entry.below);
            if entry.kind == Kind::File && pattern.as_ref().is_none_or(|pattern| pattern.matches(rest)) {
                listing.add(labels.of(&folder.real().join(rest)));
            }
        }
        Ok(listing.into_result(path, walk.skipped_rules()))
    }
}

/// The first paths in order, and the number of all paths. Memory does not grow with the number of files.
#[derive(Debug)]
struct Listing {
    first: BTreeSet<String>,
    total: usize,
    max: usize,
}

impl Listing {
    fn new(max: usize) -> Self {
        Self { first: BTreeSet::new(), total: 0, max }
    }

    fn add(&mut self, path: String) {
        self.total += 1;
        self.first.insert(path);
        if self.first.len() > self.max {
            self.first.pop_last();
        }
    }

    fn into_result(self, path: &str, skipped_rules: usize) -> ToolResult {
        let Self { first, total, max } = self;
        let truncated = total > max;
        let text = if total == 0 {
            format!("No files found in {path}")
        } else {
            let list = first.into_iter().collect::<Vec<_>>().join("\n");
            if truncated {
                format!("{list}\n\n... ({total} files, showing first {max})")
            } else {
                format!("{list}\n\n({total} files)")
            }
        };
        ToolResult::text(text + &skipped_note(skipped_rules))
            .with_details(json!({"total": total, "truncated": truncated}))
    }
}
