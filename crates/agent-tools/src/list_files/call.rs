//! The work of `list_files`.

use agent_core::{CancellationToken, ToolContext, ToolError, ToolResult};

use super::output::Listing;
use super::{DEFAULT_DEPTH, ListFilesArgs, ListFilesError, ListFilesTool};
use crate::glob::NamePattern;
use crate::offload::{Halt, interruptible};
use crate::walk::{is_file, walk};

pub(super) async fn run(
    tool: &ListFilesTool,
    args: ListFilesArgs,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    ctx.check_cancelled()?;
    let limit = tool.timeout;
    let tool = tool.clone();
    match interruptible(ctx, Some(limit), move |stop| list(&tool, &args, stop)).await {
        Ok(listed) => listed.map_err(ListFilesError::into_tool_error),
        Err(Halt::TimedOut) => Err(ListFilesError::TimedOut.into_tool_error()),
        Err(halt) => Err(halt.into()),
    }
}

fn list(
    tool: &ListFilesTool,
    args: &ListFilesArgs,
    stop: &CancellationToken,
) -> Result<ToolResult, ListFilesError> {
    let path = &args.path;
    let missing = || ListFilesError::NotFound { path: path.clone() };
    let pattern = args.pattern.as_deref().map(NamePattern::new).transpose()?;
    let folder = tool
        .workspace
        .resolve(path)
        .map_err(|error| if error.is_not_found() { missing() } else { ListFilesError::Path(error) })?;
    if !folder.is_dir() {
        return Err(missing());
    }
    let labels = tool.workspace.labels();
    let mut listing = Listing::new(tool.max_results);
    // A folder that cannot be read leaves a gap; the rest is of use all the same.
    for entry in walk(&folder, Some(args.max_depth.unwrap_or(DEFAULT_DEPTH).max(1))).flatten() {
        if stop.is_cancelled() {
            return Err(ListFilesError::Cancelled);
        }
        let fits = || pattern.as_ref().is_none_or(|pattern| pattern.fits(entry.path(), &folder));
        if is_file(&entry) && fits() {
            listing.add(labels.of(entry.path()));
        }
    }
    Ok(listing.into_result(path))
}
