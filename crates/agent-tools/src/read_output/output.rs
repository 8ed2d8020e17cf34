//! What the model sees of an output.

use agent_core::ToolResult;
use serde_json::json;

use crate::output_store::OutputPage;

/// The place, where to go on, and the part.
pub(super) fn result(page: &OutputPage) -> ToolResult {
    let (start, end, output) = (page.start(), page.end(), page.output());
    let (kept, produced) = (output.kept_bytes(), output.produced_bytes());
    let next = match (page.is_last(), kept < produced) {
        (false, _) => format!("read on with offset {end}"),
        (true, false) => "this is the end".to_owned(),
        (true, true) => format!("this is the end of what is kept; {} more bytes are lost", produced - kept),
    };
    let text = format!("[{}: bytes {start} to {end} of {kept}; {next}]\n{}", output.key(), page.text());
    let details =
        json!({"key": output.key(), "start": start, "end": end, "kept": kept, "produced": produced});
    ToolResult::text(text).with_details(details)
}
