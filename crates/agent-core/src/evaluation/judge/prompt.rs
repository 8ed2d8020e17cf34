//! The prompt of the judge.

use super::fit::Parts;
use crate::evaluation::ParallelLoopOutcome;
use crate::history::History;
use crate::message::{AgentMessage, Message};

/// The replacement of an answer without text.
const NO_TEXT: &str = "(no text)";

impl Parts {
    /// Collects the query, the conversation before it, and the answers.
    ///
    /// With prompts, the query is their text, preceded by the whole conversation. Without prompts, it is the last
    /// user message of the conversation.
    pub(super) fn of(
        prompts: &[AgentMessage],
        original: &History,
        candidates: &[&ParallelLoopOutcome],
    ) -> Self {
        let messages: Vec<&AgentMessage> = original.messages().collect();
        let is_user = |m: &&AgentMessage| matches!(m.as_llm(), Some(Message::User(_)));
        let from_prompts: Vec<String> = prompts.iter().filter(is_user).map(AgentMessage::text).collect();
        let (query, at) = if prompts.is_empty() {
            let at = messages.iter().rposition(is_user);
            (at.and_then(|at| messages.get(at)).map(|m| m.text()).unwrap_or_default(), at)
        } else {
            (from_prompts.join("\n\n"), None)
        };
        let before = messages.iter().enumerate().filter(|(i, _)| Some(*i) != at);
        let prior: Vec<String> = before.filter_map(|(_, m)| transcript_line(m)).collect();
        let answer = |o: &&ParallelLoopOutcome| o.final_text().unwrap_or_else(|| NO_TEXT.to_owned());
        Self { prior: prior.join("\n"), query, outputs: candidates.iter().map(answer).collect() }
    }
}

/// Renders one message for the judge. Messages without text, such as calls, are omitted.
fn transcript_line(message: &AgentMessage) -> Option<String> {
    let message = message.as_llm()?;
    let text = message.text();
    if text.trim().is_empty() {
        return None;
    }
    match message {
        Message::User(_) => Some(format!("User: {text}")),
        Message::Assistant(reply) => (!reply.is_failed()).then(|| format!("Assistant: {text}")),
        Message::ToolResult(result) => Some(format!("Tool [{}]: {text}", result.tool_name)),
    }
}

/// Builds the judge's prompt.
pub(super) fn build(parts: &Parts) -> String {
    let mut text = String::new();
    if !parts.prior.is_empty() {
        section(&mut text, "Prior conversation context:", &parts.prior);
    }
    section(&mut text, "Original query:", &parts.query);
    for (n, output) in parts.outputs.iter().enumerate() {
        section(&mut text, &format!("Response {}:", n + 1), output);
    }
    let most = parts.outputs.len();
    text.push_str(&format!(
        "Which response answers the query best? Reply with its number, from 1 to {most}, and with nothing else."
    ));
    text
}

fn section(text: &mut String, heading: &str, body: &str) {
    for part in [heading, "\n", body, "\n\n"] {
        text.push_str(part);
    }
}
