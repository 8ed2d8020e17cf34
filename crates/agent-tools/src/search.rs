//! `search`: finds lines that match a regular expression.
//!
//! It runs in this process on the libraries of ripgrep. No program needs to be installed, no argument can be mistaken
//! for an option of a program, and no configuration file of the user has an effect.
//!
//! ```
//! use agent_core::AgentTool;
//! use agent_tools::SearchTool;
//! let tool: &dyn AgentTool = &SearchTool::default();
//! assert_eq!(tool.parameters_schema()["required"], serde_json::json!(["pattern"]));
//! ```

mod scan;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use agent_core::{CancellationToken, Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::{WorkError, interruptible};
use crate::glob::NamePattern;
use crate::walk::{is_file, walk};
use crate::workspace::open_regular;
use crate::{PathError, Workspace};
use scan::{Hit, Scanner};

/// The default maximum number of matching lines in a result, over all files.
pub const MAX_MATCHES: usize = 50;

/// The default maximum duration of a search.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of bytes of a line in a result. A longer line is cut around its match.
pub const MAX_LINE_BYTES: usize = 500;

/// The longest line that is searched: 8 MiB. A file with a longer line counts as unreadable.
pub const MAX_SEARCHED_LINE_BYTES: usize = 8 * 1024 * 1024;

/// The `search` tool. It respects `.gitignore` and skips binary files.
#[derive(Debug, Clone)]
pub struct SearchTool {
    workspace: Workspace,
    max_matches: usize,
    timeout: Duration,
}

impl SearchTool {
    /// Creates a tool that searches files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, max_matches: MAX_MATCHES, timeout: TIMEOUT }
    }

    /// Sets the maximum number of matching lines in a result. The default is [`MAX_MATCHES`].
    #[must_use]
    pub fn with_max_matches(mut self, matches: usize) -> Self {
        self.max_matches = matches;
        self
    }

    /// Sets the maximum duration of a search. The default is [`TIMEOUT`].
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Default for SearchTool {
    fn default() -> Self {
        Self::new(Workspace::unconfined())
    }
}

/// The arguments of `search`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct SearchArgs {
    /// The regular expression, in the syntax of Rust's regex crate
    pub pattern: String,
    /// The folder or file to search. Default: .
    #[serde(default = "current_folder")]
    pub path: String,
    /// Only files that match this glob, for example *.rs or src/**/*.{ts,tsx}
    pub include: Option<String>,
    /// Whether upper and lower case differ. Default: false
    #[serde(default)]
    pub case_sensitive: bool,
}

fn current_folder() -> String {
    ".".to_owned()
}

/// The reason why a search failed. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The regular expression is invalid.
    #[error("Invalid regex '{pattern}': {cause}. To search for the text itself, use '{literal}'")]
    Regex {
        /// The expression in the arguments.
        pattern: String,
        /// The error of the regex compiler.
        cause: String,
        /// The expression that matches the text literally.
        literal: String,
    },
    /// The glob is invalid.
    #[error("Invalid include pattern: {0}")]
    Include(#[from] globset::Error),
    /// The path is a file that cannot be searched.
    #[error("Search error: {path}: {cause}")]
    File {
        /// The path in the arguments.
        path: String,
        /// The reason for the failure.
        cause: String,
    },
    /// The search exceeded its time limit.
    #[error("Search timed out")]
    TimedOut,
    /// The call was cancelled.
    #[error("Operation aborted")]
    Cancelled,
}

impl SearchError {
    fn into_tool_error(self) -> ToolError {
        match self {
            Self::Cancelled => ToolError::Cancelled,
            Self::Regex { .. } | Self::Include(_) => ToolError::InvalidArgs(self.to_string()),
            error => error.into(),
        }
    }
}

impl Tool for SearchTool {
    const NAME: &'static str = "search";
    type Args = SearchArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Search Files"
    }

    fn description(&self) -> &str {
        "Search files for a regular expression, line by line. Returns path, line number and line. Skips files that \
         .gitignore excludes, binary files, and the folders target, .git and node_modules."
    }

    fn effects(&self, _: &SearchArgs) -> Effects {
        Effects::ReadOnly
    }

    async fn call(&self, args: SearchArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let tool = self.clone();
        match interruptible(ctx, Some(self.timeout), move |stop| tool.search(&args, stop)).await {
            Ok(found) => found.map_err(SearchError::into_tool_error),
            Err(WorkError::TimedOut) => Err(SearchError::TimedOut.into()),
            Err(halt) => Err(halt.into()),
        }
    }
}

impl SearchTool {
    fn search(&self, args: &SearchArgs, stop: &CancellationToken) -> Result<ToolResult, SearchError> {
        let mut scanner = Scanner::new(&args.pattern, args.case_sensitive)?;
        let include = args.include.as_deref().map(NamePattern::new).transpose()?;
        let root = self.workspace.resolve(&args.path)?;
        let labels = self.workspace.labels();
        let mut matches = Matches::new(self.max_matches);
        if std::fs::metadata(&root).map_err(|source| PathError::access(&args.path, source))?.is_dir() {
            for entry in walk(&root, None) {
                if stop.is_cancelled() {
                    return Err(SearchError::Cancelled);
                }
                let Ok(entry) = entry else {
                    matches.unreadable += 1;
                    continue;
                };
                let included = || include.as_ref().is_none_or(|include| include.matches(entry.path(), &root));
                if !is_file(&entry) || !included() {
                    continue;
                }
                match scan(&mut scanner, entry.path(), matches.missing(), stop) {
                    Ok(hits) => matches.add(&labels.of(entry.path()), hits),
                    Err(_) => matches.unreadable += 1,
                }
                if matches.truncated {
                    break;
                }
            }
        } else {
            let hits = scan(&mut scanner, &root, matches.missing(), stop)
                .map_err(|cause| SearchError::File { path: args.path.clone(), cause })?;
            matches.add(&labels.of(&root), hits);
        }
        if stop.is_cancelled() { Err(SearchError::Cancelled) } else { Ok(matches.into_result(&args.pattern)) }
    }
}

/// Returns one hit more than `missing`, if there is one, so that the caller knows whether the result is complete.
fn scan(
    scanner: &mut Scanner,
    path: &Path,
    missing: usize,
    stop: &CancellationToken,
) -> Result<Vec<Hit>, String> {
    let (file, _) = open_regular(path, "the file").map_err(|error| error.to_string())?;
    scanner.scan(file, missing.saturating_add(1), stop).map_err(|error| error.to_string())
}

/// The matching lines of a search.
#[derive(Debug)]
struct Matches {
    /// `path:line: text`, at most `max`.
    lines: Vec<String>,
    max: usize,
    /// Whether there are more than `max`.
    truncated: bool,
    /// The number of files that could not be read.
    unreadable: usize,
}

impl Matches {
    fn new(max: usize) -> Self {
        Self { lines: Vec::new(), max, truncated: false, unreadable: 0 }
    }

    fn missing(&self) -> usize {
        self.max.saturating_sub(self.lines.len())
    }

    fn add(&mut self, path: &str, hits: Vec<Hit>) {
        for hit in hits {
            if self.missing() == 0 {
                self.truncated = true;
                return;
            }
            self.lines.push(format!("{path}:{}: {}", hit.line, hit.text));
        }
    }

    fn into_result(self, pattern: &str) -> ToolResult {
        let Self { lines, truncated, unreadable, .. } = self;
        let shown = lines.len();
        let mut out = if shown == 0 {
            format!("No matches found for '{pattern}'")
        } else if truncated {
            format!("{}\n\n... (showing first {shown} matches)", lines.join("\n"))
        } else {
            format!("{}\n\n({shown} matches)", lines.join("\n"))
        };
        if unreadable > 0 {
            // Writing to a string cannot fail.
            let _ = write!(out, "\n({unreadable} files could not be read)");
        }
        let details = json!({"matches": shown, "truncated": truncated, "unreadable": unreadable});
        ToolResult::text(out).with_details(details)
    }
}
