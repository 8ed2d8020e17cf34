//! What the model sees of a listing.

use std::collections::BTreeSet;

use agent_core::ToolResult;
use serde_json::json;

/// The first paths in order, and how many there are in all. Memory does not grow with the number of files.
#[derive(Debug)]
pub(super) struct Listing {
    first: BTreeSet<String>,
    total: usize,
    max: usize,
}

impl Listing {
    pub(super) fn new(max: usize) -> Self {
        Self { first: BTreeSet::new(), total: 0, max }
    }

    pub(super) fn add(&mut self, path: String) {
        self.total += 1;
        self.first.insert(path);
        if self.first.len() > self.max {
            self.first.pop_last();
        }
    }

    pub(super) fn into_result(self, path: &str) -> ToolResult {
        let Self { first, total, max } = self;
        let truncated = total > max;
        let text = if total == 0 {
            format!("No files found in {path}")
        } else {
            let list = first.into_iter().collect::<Vec<_>>().join("\n");
            if truncated {
                format!("{list}\n\n... ({total} files, showing first {max})")
            } else {
                format!("{list}\n\n({total} files)")
            }
        };
        ToolResult::text(text).with_details(json!({"total": total, "truncated": truncated}))
    }
}
