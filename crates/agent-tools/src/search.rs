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
use std::fs::File;
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
use crate::workspace::{Access, Intent, Place};
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

/// The maximum length of a regular expression: 16 KiB.
pub const MAX_PATTERN_BYTES: usize = 16 * 1024;

/// The maximum depth of groups in a regular expression.
pub const MAX_NESTING: u32 = 100;

/// The maximum size of a compiled regular expression: 10 MiB.
pub const MAX_REGEX_BYTES: usize = 10 * 1024 * 1024;

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
    /// The regular expression is longer than [`MAX_PATTERN_BYTES`].
    #[error(
        "the pattern has {bytes} bytes, at most {MAX_PATTERN_BYTES} are allowed; search for a part of it"
    )]
    PatternTooLong {
        /// The length of the expression.
        bytes: usize,
    },
    /// The glob is invalid, or exceeds a [limit](crate::glob).
    #[error("Invalid include pattern: {0}")]
    Include(#[from] PatternError),
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
            Self::Regex { .. } | Self::PatternTooLong { .. } | Self::Include(_) => {
                ToolError::InvalidArgs(self.to_string())
            }
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

    fn prepare_arguments(&self, arguments: serde_json::Value) -> serde_json::Value {
        crate::arguments::without_blanks(arguments, &["path", "include", "case_sensitive"])
    }

    fn description(&self) -> &str {
        "Search files for a regular expression, line by line. Returns path, line number and line. Skips files that \
         .gitignore excludes, binary files, and the folders target, .git and node_modules."
    }

    fn effects(&self, _: &SearchArgs) -> Effects {
        Effects::ReadOnly
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.workspace.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.workspace.resolved_arguments(arguments)
    }

    async fn call(&self, args: SearchArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let (tool, access) = (self.clone(), self.workspace.access(ctx));
        match interruptible(ctx, Some(self.timeout), move |stop| tool.search(&access, &args, stop)).await {
            Ok(found) => found.map_err(SearchError::into_tool_error),
            Err(WorkError::TimedOut) => Err(SearchError::TimedOut.into()),
            Err(halt) => Err(halt.into()),
        }
    }
}

impl SearchTool {
    fn search(
        &self,
        access: &Access,
        args: &SearchArgs,
        stop: &CancellationToken,
    ) -> Result<ToolResult, SearchError> {
        let mut scanner = Scanner::new(&args.pattern, args.case_sensitive)?;
        let include = args.include.as_deref().map(NamePattern::new).transpose()?;
        let place = access.locate(&args.path, Intent::Read)?;
        let labels = access.labels();
        let mut matches = Matches::new(self.max_matches);
        if place.facts()?.kind == Kind::Folder {
            let mut walk = walk(access, &place);
            for entry in walk.by_ref() {
                if stop.is_cancelled() {
                    return Err(SearchError::Cancelled);
                }
                let Ok(entry) = entry else {
                    matches.unreadable += 1;
                    continue;
                };
                let rest = entry.below.strip_prefix(place.below()).unwrap_or(&entry.below);
                let included = || include.as_ref().is_none_or(|include| include.matches(rest));
                if entry.kind != Kind::File || !included() {
                    continue;
                }
                let hits = place
                    .dir()
                    .open_file(&entry.below)
                    .map_err(|error| error.to_string())
                    .and_then(|(file, _)| scan(&mut scanner, file, matches.missing(), stop));
                match hits {
                    Ok(hits) => matches.add(&labels.of(&place.real().join(rest)), hits),
                    Err(_) => matches.unreadable += 1,
                }
                if matches.truncated {
                    break;
                }
            }
            matches.skipped_rules = walk.skipped_rules();
        } else {
            let hits = place
                .open_file()
                .map_err(|error| error.to_string())
                .and_then(|(file, _)| scan(&mut scanner, file, matches.missing(), stop))
                .map_err(|cause| SearchError::File { path: args.path.clone(), cause })?;
            matches.add(&labels.of(place.real()), hits);
        }
        if stop.is_cancelled() { Err(SearchError::Cancelled) } else { Ok(matches.into_result(&args.pattern)) }
    }
}

/// Walks the files that the call can read.
fn walk<'a>(access: &'a Access, place: &'a Place) -> Walk<'a> {
    Walk::new(place.dir(), place.below(), IgnoreFiles::Respected).with_filter(|below, kind| {
        !(kind == Kind::Folder && below.file_name().is_some_and(is_skipped))
            && access.allows(place, below, Intent::Read)
    })
}

/// Returns one hit more than `missing`, if there is one, so that the caller knows whether the result is complete.
fn scan(
    scanner: &mut Scanner,
    file: File,
    missing: usize,
    stop: &CancellationToken,
) -> Result<Vec<Hit>, String> {
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
    /// The number of lines of ignore files that had no effect.
    skipped_rules: usize,
}

impl Matches {
    fn new(max: usize) -> Self {
        Self { lines: Vec::new(), max, truncated: false, unreadable: 0, skipped_rules: 0 }
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
        let Self { lines, truncated, unreadable, skipped_rules, .. } = self;
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
        out.push_str(&skipped_note(skipped_rules));
        let details = json!({"matches": shown, "truncated": truncated, "unreadable": unreadable});
        ToolResult::text(out).with_details(details)
    }
}
