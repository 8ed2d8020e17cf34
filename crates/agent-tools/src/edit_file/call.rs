//! The work of `edit_file`.

use std::io::Read as _;
use std::path::Path;

use agent_core::{CancellationToken, ToolContext, ToolError, ToolResult};

use super::{EditFileArgs, EditFileError, EditFileTool, MAX_FILE_BYTES, Replacement, apply, output};
use crate::PathError;
use crate::offload::{interruptible, to_completion};
use crate::workspace::{FileOrder, open_regular, replace_file};

pub(super) async fn run(
    tool: &EditFileTool,
    args: EditFileArgs,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let (path, edits) = args.into_parts().map_err(EditFileError::into_tool_error)?;
    ctx.check_cancelled()?;
    let (workspace, named) = (tool.workspace.clone(), path.clone());
    let real =
        interruptible(ctx, None, move |_| workspace.resolve(&named)).await?.map_err(EditFileError::from)?;
    let turn = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => return Err(ToolError::Cancelled),
        turn = FileOrder::enter(&real) => turn,
    };
    let cancel = ctx.cancel.clone();
    to_completion(move || {
        // The turn ends with the work, also when nobody waits for it any more.
        let _turn = turn;
        edit(&real, &path, &edits, &cancel)
    })
    .await?
}

fn edit(
    real: &Path,
    path: &str,
    edits: &[Replacement],
    cancel: &CancellationToken,
) -> Result<ToolResult, ToolError> {
    let check = || if cancel.is_cancelled() { Err(ToolError::Cancelled) } else { Ok(()) };
    check()?;
    let before = read(real, path)?;
    let after = apply::apply(path, &before, edits)?;
    if after == before {
        return Ok(output::unchanged(path, edits));
    }
    check()?;
    replace_file(real, &after).map_err(|source| EditFileError::Write { path: path.to_owned(), source })?;
    Ok(output::replaced(path, edits))
}

fn read(real: &Path, path: &str) -> Result<Vec<u8>, EditFileError> {
    let failed = |cause: String| EditFileError::Read { path: path.to_owned(), cause };
    let (file, bytes) = open_regular(real, path).map_err(|error| match error {
        PathError::Access { source, .. } => failed(source.to_string()),
        error => error.into(),
    })?;
    let too_large = |bytes| Err(EditFileError::TooLarge { path: path.to_owned(), bytes });
    if bytes > MAX_FILE_BYTES {
        return too_large(bytes);
    }
    let mut content = Vec::new();
    // The file may have grown since; what is read has the bound, too.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(|error| failed(error.to_string()))?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return too_large(content.len() as u64);
    }
    Ok(content)
}
