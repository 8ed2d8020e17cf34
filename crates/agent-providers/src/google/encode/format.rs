//! The format of a reply: enforced by the API, or through a function whose arguments are the reply if the model does
//! not support tools together with JSON replies.

use std::borrow::Cow;

use agent_core::{ModelRequest, ResponseFormat, ToolChoice};
use serde_json::{Value, json};

use crate::google::generation::Known;

/// How a request demands the format of the reply.
#[derive(Debug, PartialEq)]
pub(super) enum Format<'r> {
    /// No format is required.
    Free,
    /// JSON, with this schema if there is one.
    Native(Option<&'r Value>),
    /// A function that must be called.
    Tool {
        /// The name of the function.
        name: String,
        /// The schema of the answer.
        schema: Cow<'r, Value>,
    },
}

/// Selects how the format is demanded.
pub(super) fn choose(request: &ModelRequest, known: Known) -> Format<'_> {
    let schema = match &request.options.response_format {
        ResponseFormat::JsonSchema { schema, .. } => Some(schema),
        ResponseFormat::JsonObject => None,
        _ => return Format::Free,
    };
    if is_native(request, known) {
        return Format::Native(schema);
    }
    let schema = schema.map_or_else(|| Cow::Owned(json!({"type": "object"})), Cow::Borrowed);
    Format::Tool { name: crate::answer_format::tool_name(request), schema }
}

/// Returns the name of the function whose arguments are the answer, if this request has one. The decoder emits them as
/// text.
pub(in crate::google) fn answer_tool(request: &ModelRequest) -> Option<String> {
    match choose(request, Known::of(&request.model.id)) {
        Format::Tool { name, .. } => Some(name),
        Format::Free | Format::Native(_) => None,
    }
}

/// Returns whether the API can enforce the format. Before Gemini 3 it rejects requests with both functions and a JSON
/// format.
fn is_native(request: &ModelRequest, known: Known) -> bool {
    let demanded = matches!(request.options.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    (request.tools.is_empty() && !demanded) || known.answers_in_json_with_tools()
}
