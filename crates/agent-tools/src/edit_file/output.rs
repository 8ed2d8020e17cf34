//! What the model sees of an edit.

use agent_core::ToolResult;
use serde_json::json;

use super::Replacement;
use crate::text::lines;

/// How many lines took the place of how many.
pub(super) fn replaced(path: &str, edits: &[Replacement]) -> ToolResult {
    let old: usize = edits.iter().map(|edit| edit.old_text.lines().count()).sum();
    let new: usize = edits.iter().map(|edit| edit.new_text.lines().count()).sum();
    let many = if edits.len() > 1 { format!(" ({} edits)", edits.len()) } else { String::new() };
    ToolResult::text(format!("Replaced {} with {} in {path}{many}", lines(old), lines(new)))
        .with_details(json!({"path": path, "old_lines": old, "new_lines": new}))
}

/// The file would be as it was. The model hoped for a change, so this is an error.
pub(super) fn unchanged(path: &str, edits: &[Replacement]) -> ToolResult {
    let old: usize = edits.iter().map(|edit| edit.old_text.lines().count()).sum();
    ToolResult::error("No changes (old_text == new_text)")
        .with_details(json!({"path": path, "old_lines": old, "new_lines": old}))
}
