//! Calls that a model wrote into its text.
//!
//! Servers of local models turn the notation of a model, `<tool_call>{"name": …, "arguments": …}</tool_call>`, into calls. A
//! server without the model's parser leaves it in the text. The notation at the end of a reply is a call if nothing is
//! uncertain about it: the reply has no other call, the tool exists and the JSON is whole. It then passes the same hooks,
//! rules and questions as any call. Text before the notation stays text.

use serde::Deserialize;
use serde_json::Value;

use super::{AssistantMessage, Content, StopReason, TextContent, ToolArguments, ToolCall};

#[cfg(test)]
mod tests;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

/// The content of the notation.
#[derive(Deserialize)]
struct Written {
    name: String,
    #[serde(default, alias = "parameters")]
    arguments: Option<Value>,
}

/// Returns where the notation begins that a text ends with.
fn beginning(text: &str) -> Option<usize> {
    text.trim_end().ends_with(CLOSE).then(|| text.find(OPEN)).flatten()
}

/// Returns the calls of a text that consists of notations.
fn calls(text: &str) -> Option<Vec<Written>> {
    let mut rest = text.trim();
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let (inside, after) = rest.strip_prefix(OPEN)?.split_once(CLOSE)?;
        calls.push(serde_json::from_str(inside.trim()).ok()?);
        rest = after.trim_start();
    }
    Some(calls)
}

impl Written {
    fn into_call(self) -> ToolCall {
        let arguments = match self.arguments {
            // Some models write the arguments as a text with JSON.
            Some(Value::String(text)) => ToolArguments::from_text(text),
            Some(value) => ToolArguments::from(value),
            None => ToolArguments::default(),
        };
        ToolCall::new("", self.name, arguments)
    }
}

impl AssistantMessage {
    /// Returns whether a complete reply without calls ends with a call that the model wrote as text, in the notation
    /// `<tool_call>`. Nothing executes such a call.
    #[must_use]
    pub fn ends_with_call_in_text(&self) -> bool {
        let last = self.content.iter().rev().find_map(Content::as_text);
        self.stop_reason == StopReason::Stop && last.is_some_and(|text| beginning(text).is_some())
    }

    /// Turns the calls at the end of the text into calls if all of them are whole and of tools that exist.
    pub(crate) fn take_calls_in_text(&mut self, is_tool: impl Fn(&str) -> bool) {
        if !self.ends_with_call_in_text() {
            return;
        }
        let Some(Content::Text(TextContent { text, .. })) = self.content.last_mut() else { return };
        let Some(at) = beginning(text) else { return };
        let Some(calls) = text.get(at..).and_then(calls) else { return };
        let calls: Vec<ToolCall> = calls.into_iter().map(Written::into_call).collect();
        if !calls.iter().all(|call| is_tool(call.name.as_str()) && call.arguments.is_object()) {
            return;
        }
        tracing::debug!(calls = calls.len(), "the model wrote calls as text");
        text.truncate(text.get(..at).unwrap_or_default().trim_end().len());
        if text.is_empty() {
            self.content.pop();
        }
        self.content.extend(calls.into_iter().map(Content::ToolCall));
        self.stop_reason = StopReason::ToolUse;
    }
}
