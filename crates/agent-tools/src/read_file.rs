//! `read_file`: reads numbered lines of a text file, or an image.
//!
//! ```
//! use agent_core::{AgentTool, Effects};
//! use agent_tools::{ReadFileTool, Workspace};
//! let tool: &dyn AgentTool = &ReadFileTool::new(Workspace::unconfined());
//! assert_eq!(tool.name(), "read_file");
//! assert_eq!(tool.effects(&serde_json::json!({"path": "a.txt"})), Effects::ReadOnly);
//! ```

mod window;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io::{self, BufReader, Read as _, Seek as _};
use std::path::PathBuf;

use agent_core::{CancellationToken, Content, Effects, Tool, ToolContext, ToolError, ToolResult};
use base64::Engine as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocking::interruptible;
use crate::workspace::{Access, Intent};
use crate::{PathError, Workspace};
use window::{Stopped, Wanted, Window, read_window};

/// The maximum size of a text file that is read without `offset` and `limit`, and the maximum size of the text that one
/// call returns: 1 MiB. With `offset` or `limit`, files of any size can be read.
pub const MAX_TEXT_BYTES: u64 = 1024 * 1024;

/// The maximum size of an image: 20 MiB.
pub const MAX_IMAGE_BYTES: u64 = 20 * 1024 * 1024;

/// The maximum size of one line in a result: 64 KiB. The rest of a longer line is omitted and replaced by a mark.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// The size of the prefix that is checked for binary data, and of one read.
const CHUNK_BYTES: usize = 64 * 1024;

/// The number of bytes that [`image_type`] needs.
const MAGIC_BYTES: usize = 12;

/// The `read_file` tool, which reads text files and pictures.
#[derive(Debug, Clone)]
pub struct ReadFileTool {
    workspace: Workspace,
    max_text_bytes: u64,
}

impl ReadFileTool {
    /// Creates a tool that reads files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, max_text_bytes: MAX_TEXT_BYTES }
    }

    /// Sets the maximum number of bytes of text. The default is [`MAX_TEXT_BYTES`].
    #[must_use]
    pub fn with_max_text_bytes(mut self, bytes: u64) -> Self {
        self.max_text_bytes = bytes;
        self
    }
}

impl Default for ReadFileTool {
    fn default() -> Self {
        Self::new(Workspace::unconfined())
    }
}

/// The arguments of `read_file`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct ReadFileArgs {
    /// The file to read
    pub path: String,
    /// The first line to read, counted from 1. Default: 1
    #[schemars(range(min = 1))]
    pub offset: Option<u64>,
    /// The maximum number of lines to read. Default: all
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

impl ReadFileArgs {
    /// Returns whether the whole file is requested.
    fn is_whole(&self) -> bool {
        self.offset.is_none() && self.limit.is_none()
    }
}

/// The reason why a file was not read. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadFileError {
    /// The path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file could not be read.
    #[error("Cannot read {path}: {source}")]
    Read {
        /// The path in the arguments.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The text file is too large to be returned whole.
    #[error("File too large ({bytes} bytes, max {max}). Use offset/limit for partial reads.")]
    TooLarge {
        /// The size of the file in bytes.
        bytes: u64,
        /// The maximum size in bytes.
        max: u64,
    },
    /// The image is too large.
    #[error("Image too large ({megabytes}MB, max {}MB)", MAX_IMAGE_BYTES / (1024 * 1024))]
    ImageTooLarge {
        /// The size in MiB, rounded up.
        megabytes: u64,
    },
    /// The file is neither text nor an image of a known format.
    #[error(
        "Cannot read {path}: it is a binary file ({bytes} bytes), neither text nor a known kind of picture"
    )]
    Binary {
        /// The path in the arguments.
        path: String,
        /// The size of the file in bytes.
        bytes: u64,
    },
    /// The file ends before the first requested line.
    #[error("offset {offset} is past the end of {path}, which has {}", crate::text::lines(*.lines))]
    PastEnd {
        /// The path in the arguments.
        path: String,
        /// The first requested line.
        offset: u64,
        /// The number of lines in the file.
        lines: usize,
    },
    /// The limit is 0.
    #[error("limit must be at least 1")]
    NoLines,
    /// The call was cancelled.
    #[error("Operation aborted")]
    Cancelled,
}

impl ReadFileError {
    fn into_tool_error(self) -> ToolError {
        match self {
            Self::Cancelled => ToolError::Cancelled,
            Self::NoLines => ToolError::InvalidArgs(self.to_string()),
            error => error.into(),
        }
    }
}

impl Tool for ReadFileTool {
    const NAME: &'static str = "read_file";
    type Args = ReadFileArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Read File"
    }

    fn prepare_arguments(&self, arguments: serde_json::Value) -> serde_json::Value {
        crate::arguments::without_blanks(arguments, &["offset", "limit"])
    }

    fn description(&self) -> &str {
        "Read a file. Text is returned with line numbers; to read a part of a large file, use offset and limit. \
         Images (PNG, JPEG, GIF, WebP, BMP) are returned as images."
    }

    fn effects(&self, _: &ReadFileArgs) -> Effects {
        Effects::ReadOnly
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.workspace.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.workspace.resolved_arguments(arguments)
    }

    async fn call(&self, args: ReadFileArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let (tool, access) = (self.clone(), self.workspace.access(ctx));
        let read = interruptible(ctx, None, move |stop| tool.read(&access, &args, stop)).await?;
        read.map_err(ReadFileError::into_tool_error)
    }
}

impl ReadFileTool {
    fn read(
        &self,
        access: &Access,
        args: &ReadFileArgs,
        stop: &CancellationToken,
    ) -> Result<ToolResult, ReadFileError> {
        let path = &args.path;
        let failed = |source| ReadFileError::Read { path: path.clone(), source };
        if args.limit == Some(0) {
            return Err(ReadFileError::NoLines);
        }
        check(stop)?;
        let place = access.locate(path, Intent::Read)?;
        check(stop)?;
        let (mut file, bytes) = place.open_file()?;

        let mut head = Vec::with_capacity(MAGIC_BYTES);
        (&mut file).take(MAGIC_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
        if let Some(mime_type) = image_type(&head) {
            if bytes > MAX_IMAGE_BYTES {
                return Err(ReadFileError::ImageTooLarge { megabytes: bytes.div_ceil(1024 * 1024) });
            }
            check(stop)?;
            // The file may have grown since its size was read, so the read is limited as well.
            file.take(MAX_IMAGE_BYTES).read_to_end(&mut head).map_err(failed)?;
            return Ok(image_result(path, mime_type, &head));
        }
        if args.is_whole() && bytes > self.max_text_bytes {
            return Err(ReadFileError::TooLarge { bytes, max: self.max_text_bytes });
        }

        check(stop)?;
        file.rewind().map_err(failed)?;
        let mut reader = BufReader::with_capacity(CHUNK_BYTES, file);
        let beginning = io::BufRead::fill_buf(&mut reader).map_err(failed)?;
        if memchr::memchr(0, beginning).is_some() {
            return Err(ReadFileError::Binary { path: path.clone(), bytes });
        }
        let first = args.offset.unwrap_or(1).max(1);
        let wanted = Wanted { first, count: args.limit.unwrap_or(u64::MAX), bytes: self.max_text_bytes };
        let window = read_window(&mut reader, wanted, stop).map_err(|stopped| match stopped {
            Stopped::Cancelled => ReadFileError::Cancelled,
            Stopped::Io(source) => failed(source),
        })?;
        if window.shown == 0 && first > 1 {
            return Err(ReadFileError::PastEnd { path: path.clone(), offset: first, lines: window.total });
        }
        Ok(text_result(path, args.is_whole(), first, &window))
    }
}

fn check(stop: &CancellationToken) -> Result<(), ReadFileError> {
    if stop.is_cancelled() { Err(ReadFileError::Cancelled) } else { Ok(()) }
}

/// The least width of a line number.
const NUMBER_WIDTH: usize = 4;

/// What is between a line number and its line.
const SEPARATOR: &str = " | ";

/// Room for the note about a cut.
const MARK_BYTES: usize = 80;

/// Returns the numbered lines below a header with the range of lines.
fn text_result(path: &str, whole: bool, first: u64, window: &Window) -> ToolResult {
    let shown = window.shown as u64;
    let last = first + shown.saturating_sub(1);
    let heading = if (whole && !window.full) || shown == 0 {
        format!("[{}]", crate::text::lines(window.total))
    } else {
        format!("[Lines {first}-{last} of {}]", window.total)
    };
    let digits = last.checked_ilog10().map_or(1, |power| power as usize + 1).max(NUMBER_WIDTH);
    let numbers = window.shown.saturating_mul(digits + SEPARATOR.len());
    let mut out = String::with_capacity(heading.len() + window.bytes() + numbers + MARK_BYTES);
    out.push_str(&heading);
    for (number, line) in (first..).zip(window.lines()) {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n{number:>NUMBER_WIDTH$}{SEPARATOR}{line}");
    }
    if window.full {
        let _ = write!(out, "\n... (output truncated; continue with offset {})", last + 1);
    }
    ToolResult::text(out).with_details(json!({"path": path}))
}

fn image_result(path: &str, mime_type: &str, bytes: &[u8]) -> ToolResult {
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    ToolResult::content(vec![Content::image(data, mime_type)])
        .with_details(json!({"path": path, "bytes": bytes.len(), "mime_type": mime_type}))
}

/// Returns the media type of an image that begins with `head`. The content decides, not the file name, because
/// providers reject, for example, a web page that was saved as `a.png`.
pub(crate) fn image_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        // A text may begin with "BM" too, but a bitmap has zeros in its two reserved fields.
        [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] => Some("image/bmp"),
        _ => None,
    }
}
