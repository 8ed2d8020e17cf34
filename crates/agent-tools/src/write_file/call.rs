//! The work of `write_file`.

use agent_core::{ToolContext, ToolError, ToolResult};

use super::{WriteFileArgs, WriteFileError, WriteFileTool, output};
use crate::offload::{interruptible, to_completion};
use crate::workspace::{FileOrder, replace_file};

pub(super) async fn run(
    tool: &WriteFileTool,
    args: WriteFileArgs,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    ctx.check_cancelled()?;
    let (workspace, path) = (tool.workspace.clone(), args.path.clone());
    let real =
        interruptible(ctx, None, move |_| workspace.resolve(&path)).await?.map_err(WriteFileError::from)?;
    let turn = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => return Err(ToolError::Cancelled),
        turn = FileOrder::enter(&real) => turn,
    };
    let cancel = ctx.cancel.clone();
    to_completion(move || {
        // The turn ends with the work, also when nobody waits for it any more.
        let _turn = turn;
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        replace_file(&real, args.content.as_bytes())
            .map_err(|source| WriteFileError::Write { path: args.path.clone(), source })?;
        Ok(output::written(&args.path, args.content.len()))
    })
    .await?
}
