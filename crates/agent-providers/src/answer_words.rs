//! The form of the answer in words, for servers that cannot be held to a schema.

use std::borrow::Cow;

use agent_core::ResponseFormat;

/// What the model is told; `None` when the answer is free.
pub(crate) fn of(format: &ResponseFormat) -> Option<String> {
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

/// The system prompt with what is told behind it.
pub(crate) fn behind(prompt: &str, told: Option<String>) -> Cow<'_, str> {
    match told {
        None => Cow::Borrowed(prompt),
        Some(told) if prompt.trim().is_empty() => Cow::Owned(told),
        Some(told) => Cow::Owned(format!("{prompt}\n\n{told}")),
    }
}
