//! The work of `read_file`.

use std::io::{BufReader, Read as _, Seek as _};

use agent_core::{CancellationToken, ToolContext, ToolError, ToolResult};

use super::window::{Stopped, Wanted, read_window};
use super::{MAX_IMAGE_BYTES, ReadFileArgs, ReadFileError, ReadFileTool, image, output};
use crate::offload::interruptible;
use crate::workspace::open_regular;

/// How much is looked at to tell text from anything else, and how much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) async fn run(
    tool: &ReadFileTool,
    args: ReadFileArgs,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    ctx.check_cancelled()?;
    let tool = tool.clone();
    interruptible(ctx, None, move |stop| read(&tool, &args, stop))
        .await?
        .map_err(ReadFileError::into_tool_error)
}

fn read(
    tool: &ReadFileTool,
    args: &ReadFileArgs,
    stop: &CancellationToken,
) -> Result<ToolResult, ReadFileError> {
    let path = &args.path;
    let failed = |source| ReadFileError::Read { path: path.clone(), source };
    if args.limit == Some(0) {
        return Err(ReadFileError::NoLines);
    }
    check(stop)?;
    let real = tool.workspace.resolve(path)?;
    check(stop)?;
    let (mut file, bytes) = open_regular(&real, path)?;

    let mut head = Vec::with_capacity(image::MAGIC_BYTES);
    (&mut file).take(image::MAGIC_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
    if let Some(mime_type) = image::mime_type(&head) {
        if bytes > MAX_IMAGE_BYTES {
            return Err(ReadFileError::ImageTooLarge { megabytes: bytes.div_ceil(1024 * 1024) });
        }
        check(stop)?;
        // The file may have grown since; what is read has the bound, too.
        file.take(MAX_IMAGE_BYTES).read_to_end(&mut head).map_err(failed)?;
        return Ok(output::image(path, mime_type, &head));
    }
    if args.is_whole() && bytes > tool.max_text_bytes {
        return Err(ReadFileError::TooLarge { bytes, max: tool.max_text_bytes });
    }

    check(stop)?;
    file.rewind().map_err(failed)?;
    let mut reader = BufReader::with_capacity(CHUNK_BYTES, file);
    let beginning = std::io::BufRead::fill_buf(&mut reader).map_err(failed)?;
    if memchr::memchr(0, beginning).is_some() {
        return Err(ReadFileError::Binary { path: path.clone(), bytes });
    }
    let first = args.offset.unwrap_or(1).max(1);
    let wanted = Wanted { first, count: args.limit.unwrap_or(u64::MAX), bytes: tool.max_text_bytes };
    let window = read_window(&mut reader, wanted, stop).map_err(|stopped| match stopped {
        Stopped::Cancelled => ReadFileError::Cancelled,
        Stopped::Io(source) => failed(source),
    })?;
    if window.lines.is_empty() && first > 1 {
        return Err(ReadFileError::PastEnd { path: path.clone(), offset: first, lines: window.total });
    }
    Ok(output::text(path, args.is_whole(), first, &window))
}

fn check(stop: &CancellationToken) -> Result<(), ReadFileError> {
    if stop.is_cancelled() { Err(ReadFileError::Cancelled) } else { Ok(()) }
}
