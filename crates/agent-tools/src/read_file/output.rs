//! What the model sees of a file.

use std::fmt::Write as _;

use agent_core::{Content, ToolResult};
use base64::Engine as _;
use serde_json::json;

use super::window::Window;

/// The lines, each with its number, below a header that says which they are.
pub(super) fn text(path: &str, whole: bool, first: u64, window: &Window) -> ToolResult {
    let shown = window.lines.len() as u64;
    let last = first + shown.saturating_sub(1);
    let mut out = if (whole && !window.full) || shown == 0 {
        format!("[{}]", crate::text::lines(window.total))
    } else {
        format!("[Lines {first}-{last} of {}]", window.total)
    };
    for (number, line) in (first..).zip(&window.lines) {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n{number:>4} | {line}");
    }
    if window.full {
        let _ = write!(out, "\n... (output truncated; continue with offset {})", last + 1);
    }
    ToolResult::text(out).with_details(json!({"path": path}))
}

/// The picture (REQ-099).
pub(super) fn image(path: &str, mime_type: &str, bytes: &[u8]) -> ToolResult {
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    ToolResult::content(vec![Content::image(data, mime_type)])
        .with_details(json!({"path": path, "bytes": bytes.len(), "mime_type": mime_type}))
}
