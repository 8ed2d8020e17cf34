//! What the model sees of a write.

use agent_core::ToolResult;
use serde_json::json;

pub(super) fn written(path: &str, bytes: usize) -> ToolResult {
    ToolResult::text(format!("Wrote {bytes} bytes to {path}"))
        .with_details(json!({"path": path, "bytes": bytes}))
}
