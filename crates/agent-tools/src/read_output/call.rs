//! The work of `read_output`.

use agent_core::{ToolContext, ToolError, ToolResult};

use super::{ReadOutputArgs, ReadOutputError, ReadOutputTool, output};

pub(super) async fn run(
    tool: &ReadOutputTool,
    args: ReadOutputArgs,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    ctx.check_cancelled()?;
    let limit = args.page_bytes().map_err(ReadOutputError::into_tool_error)?;
    let page = tool.store.read(&args.key, args.offset, limit).await?;
    Ok(output::result(&page))
}
