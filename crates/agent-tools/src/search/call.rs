//! The work of `search`.

use std::path::Path;

use agent_core::{CancellationToken, ToolContext, ToolError, ToolResult};

use super::output::Matches;
use super::scan::{Hit, Scanner};
use super::{SearchArgs, SearchError, SearchTool};
use crate::glob::NamePattern;
use crate::offload::{Halt, interruptible};
use crate::walk::{is_file, walk};
use crate::workspace::open_regular;

pub(super) async fn run(
    tool: &SearchTool,
    args: SearchArgs,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    ctx.check_cancelled()?;
    let limit = tool.timeout;
    let tool = tool.clone();
    match interruptible(ctx, Some(limit), move |stop| search(&tool, &args, stop)).await {
        Ok(found) => found.map_err(SearchError::into_tool_error),
        Err(Halt::TimedOut) => Err(SearchError::TimedOut.into_tool_error()),
        Err(halt) => Err(halt.into()),
    }
}

fn search(tool: &SearchTool, args: &SearchArgs, stop: &CancellationToken) -> Result<ToolResult, SearchError> {
    let mut scanner = Scanner::new(&args.pattern, args.case_sensitive)?;
    let include = args.include.as_deref().map(NamePattern::new).transpose()?;
    let place = tool.workspace.resolve(&args.path)?;
    let labels = tool.workspace.labels();
    let mut matches = Matches::default();
    if std::fs::metadata(&place).map_err(|source| crate::PathError::access(&args.path, source))?.is_dir() {
        for entry in walk(&place, None) {
            if stop.is_cancelled() {
                return Err(SearchError::Cancelled);
            }
            let Ok(entry) = entry else {
                matches.unreadable += 1;
                continue;
            };
            let fits = || include.as_ref().is_none_or(|include| include.fits(entry.path(), &place));
            if !is_file(&entry) || !fits() {
                continue;
            }
            let room = tool.max_matches.saturating_sub(matches.lines.len());
            match scan(&mut scanner, entry.path(), room, stop) {
                Ok(hits) => add(&mut matches, tool.max_matches, &labels.of(entry.path()), hits),
                Err(_) => matches.unreadable += 1,
            }
            if matches.truncated {
                break;
            }
        }
    } else {
        let hits = scan(&mut scanner, &place, tool.max_matches, stop)
            .map_err(|cause| SearchError::File { path: args.path.clone(), cause })?;
        add(&mut matches, tool.max_matches, &labels.of(&place), hits);
    }
    if stop.is_cancelled() { Err(SearchError::Cancelled) } else { Ok(matches.into_result(&args.pattern)) }
}

/// One more than there is room for, to know whether there are more.
fn scan(
    scanner: &mut Scanner,
    path: &Path,
    room: usize,
    stop: &CancellationToken,
) -> Result<Vec<Hit>, String> {
    let (file, _) = open_regular(path, "the file").map_err(|error| error.to_string())?;
    scanner.scan(file, room.saturating_add(1), stop).map_err(|error| error.to_string())
}

fn add(matches: &mut Matches, max: usize, path: &str, hits: Vec<Hit>) {
    for hit in hits {
        if matches.lines.len() >= max {
            matches.truncated = true;
            return;
        }
        matches.lines.push(format!("{path}:{}: {}", hit.line, hit.text));
    }
}
