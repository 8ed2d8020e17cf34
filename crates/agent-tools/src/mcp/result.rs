//! Converts a server's result to the result for the model.

use agent_core::{Content, ToolResult};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::content::{McpContent, McpResource, McpResourceBody, McpToolCallResult};
use super::{MAX_IMAGE_BYTES, MAX_RESULT_TEXT_BYTES};
use crate::{OutputStore, pictures, text};

/// The note that replaces omitted text.
pub(super) const TRUNCATED: &str = "\n... (output truncated)";

/// Returns the result for the model. Structured content becomes the details, and also the text if there is no other
/// content. Text above the limit is put into the store, if there is one.
pub(super) async fn tool_result(result: McpToolCallResult, store: Option<&OutputStore>) -> ToolResult {
    let McpToolCallResult { content, structured_content, is_error } = result;
    // The size of a message is limited, so the whole text fits in memory.
    let max = if store.is_some() { usize::MAX } else { MAX_RESULT_TEXT_BYTES };
    let mut budget = Budget { left: max };
    let mut blocks: Vec<Content> =
        content.into_iter().filter_map(|content| block(content, &mut budget)).collect();
    // Some servers repeat the bytes of an image in the structured content.
    if let Some(structured) = &structured_content
        && blocks.is_empty()
    {
        blocks.extend(budget.text(structured.to_string()));
    }
    if blocks.is_empty() && is_error {
        blocks.push(Content::text("The tool failed and did not say why."));
    }
    let mut shown = ToolResult::content(blocks);
    if let Some(store) = store {
        shown = store.offload(shown, MAX_RESULT_TEXT_BYTES).await;
    }
    if let Some(structured) = structured_content {
        shown = shown.with_details(structured);
    }
    if is_error { shown.failed() } else { shown }
}

/// The remaining number of bytes of text.
struct Budget {
    left: usize,
}

impl Budget {
    fn text(&mut self, text: String) -> Option<Content> {
        if self.left == 0 {
            return None;
        }
        let shown = text::head(&text, self.left);
        if shown.len() < text.len() {
            self.left = 0;
            return Some(Content::text(format!("{shown}{TRUNCATED}")));
        }
        self.left -= text.len();
        Some(Content::text(text))
    }
}

fn block(content: McpContent, budget: &mut Budget) -> Option<Content> {
    match content {
        McpContent::Text(text) => budget.text(text),
        McpContent::Image { data, mime_type } => picture(data, &mime_type, "image", budget),
        McpContent::Audio { data, mime_type } => budget.text(unshown("audio", &mime_type, &data)),
        McpContent::Resource(McpResource { uri, mime_type, body }) => match body {
            McpResourceBody::Text(text) => budget.text(format!("[resource {uri}]\n{text}")),
            McpResourceBody::Blob(data) => {
                let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                picture(data, &mime_type, &format!("resource {uri}"), budget)
            }
        },
        McpContent::ResourceLink { uri, name, description, mime_type } => {
            let kind = mime_type.map(|kind| format!(", {kind}")).unwrap_or_default();
            let about = description.map(|about| format!(": {about}")).unwrap_or_default();
            budget.text(format!("[resource link {name} <{uri}>{kind}{about}]"))
        }
        McpContent::Other(value) => budget.text(value.to_string()),
    }
}

/// Returns an image if providers accept it, otherwise a note. The media type is that of the bytes.
fn picture(data: String, mime_type: &str, what: &str, budget: &mut Budget) -> Option<Content> {
    let kind = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // Base64 has four characters for three bytes. Longer data is not decoded.
    if pictures::may_be_image(&kind)
        && data.len() <= MAX_IMAGE_BYTES.div_ceil(3) * 4
        && let Some(found) = STANDARD.decode(&data).ok().and_then(|bytes| pictures::accepted(&bytes))
    {
        return Some(Content::image(data, found));
    }
    budget.text(unshown(what, mime_type, &data))
}

fn unshown(what: &str, mime_type: &str, data: &str) -> String {
    format!("[{what}: {mime_type}, about {} bytes, which cannot be shown here]", data.len() / 4 * 3)
}
