//! What the caller's model sees of a child.

use agent_core::{Content, Ended, LoopId, Message, MessageRef, ToolResult, Usage};
use serde_json::json;

/// What stands for the answer of a child that wrote none (REQ-149).
pub const NO_TEXT: &str = "(sub-agent produced no text output)";

/// The text of the last reply that has any, its blocks joined by line ends; [`NO_TEXT`] when none has (REQ-149).
#[must_use]
pub fn extract_final_text(messages: &[MessageRef]) -> String {
    let replies = messages.iter().rev().filter_map(|m| m.as_llm().and_then(Message::as_assistant));
    let said = replies
        .map(|reply| reply.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n"))
        .find(|text| !text.trim().is_empty());
    said.unwrap_or_else(|| NO_TEXT.to_owned())
}

/// What is known of a child when it has ended.
pub(super) struct Finished {
    pub(super) loop_id: LoopId,
    pub(super) messages: Vec<MessageRef>,
    pub(super) ended: Ended,
    pub(super) turns: u32,
    /// Its own tokens, and those of its own children.
    pub(super) usage: Usage,
}

/// The result for the caller; `None` when the child was aborted.
pub(super) fn result(name: &str, finished: &Finished) -> Option<ToolResult> {
    let text = extract_final_text(&finished.messages);
    let details = json!({ "sub_agent": name, "turns": finished.turns });
    let result = match &finished.ended {
        Ended::Completed => ToolResult::text(text),
        Ended::Limit { reason } => {
            ToolResult::text(format!("{text}\n\n[the sub-agent was stopped: {reason}]"))
        }
        Ended::Budget { refusal } => {
            ToolResult::text(format!("{text}\n\n[the sub-agent was stopped: {refusal}]"))
        }
        Ended::Aborted => return None,
        Ended::Error { message, .. } => ToolResult::error(failed(&text, message)),
        other => ToolResult::error(failed(&text, &format!("{other:?}"))),
    };
    Some(result.with_details(details).with_child_loop(finished.loop_id.clone()).with_usage(finished.usage))
}

fn failed(text: &str, error: &str) -> String {
    format!("{text}\n\n[the sub-agent failed: {error}]")
}
