//! Replies in a given format from models and servers that cannot enforce a JSON schema: through a tool whose arguments are
//! the reply, or through an instruction in the system prompt.

use std::borrow::Cow;

use agent_core::{ModelRequest, ResponseFormat};

/// The name of the tool, unless the caller has a tool of this name.
const TOOL_NAME: &str = "respond_json";

/// The description of the tool.
pub(crate) const TOOL_DESCRIPTION: &str =
    "Gives the final answer. Call it once, with the whole answer as its arguments.";

/// Returns a name for the tool that no tool of the request has.
pub(crate) fn tool_name(request: &ModelRequest) -> String {
    let taken = |name: &str| request.tools.definitions().iter().any(|d| d.name == name);
    let numbered = (2_u32..).map(|n| format!("{TOOL_NAME}_{n}"));
    std::iter::once(TOOL_NAME.to_owned()).chain(numbered).find(|n| !taken(n)).unwrap_or_default()
}

/// Returns the instruction for a format, or `None` if the reply may be any text.
pub(crate) fn instruction(format: &ResponseFormat) -> Option<String> {
    match format {
        ResponseFormat::JsonObject => {
            Some(String::from("Give the final answer as one JSON object, and nothing else."))
        }
        ResponseFormat::JsonSchema { schema, .. } => Some(format!(
            "Give the final answer as one JSON object that fits this JSON schema, and nothing else:\n{schema}"
        )),
        _ => None,
    }
}

/// Appends an instruction to a system prompt.
pub(crate) fn with_instruction(prompt: &str, instruction: Option<String>) -> Cow<'_, str> {
    match instruction {
        None => Cow::Borrowed(prompt),
        Some(instruction) if prompt.trim().is_empty() => Cow::Owned(instruction),
        Some(instruction) => Cow::Owned(format!("{prompt}\n\n{instruction}")),
    }
}
