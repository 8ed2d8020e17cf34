//! The old conversation of a session that is continued.

use looptree::Message;
use looptree::context::SUMMARY_HEADING;
use looptree::history::History;

use crate::screen::{Screen, Style, Styled};
use crate::text::more_lines;

/// Messages that are shown.
const SHOWN: usize = 40;
/// Lines of a prompt that are shown.
const PROMPT_LINES: usize = 12;

/// Shows the newest part of a conversation.
pub(super) fn show(history: &History, screen: &Screen) {
    let messages: Vec<_> = history.entries().collect();
    let left_out = messages.len().saturating_sub(SHOWN);
    if left_out > 0 {
        screen.paragraph(Style::Dim, "", format!("… {left_out} earlier messages; /tree shows the turns"));
    }
    for message in messages.into_iter().skip(left_out) {
        let message = message.shared();
        if let Some(reason) = message.stopped_run_reason() {
            screen.paragraph(Style::Dim, "", format!("stopped: {reason}"));
            continue;
        }
        match message.as_llm() {
            Some(Message::Assistant(reply)) => {
                let text = message.text();
                if !text.trim().is_empty() {
                    screen.line("");
                    screen.markdown(&text);
                }
                for call in reply.tool_calls() {
                    let arguments = serde_json::from_str(call.arguments.json_text()).unwrap_or_default();
                    screen.call(call.name.as_str(), &arguments);
                }
            }
            Some(Message::User(_)) => {
                let text = message.text();
                screen.line("");
                let (text, style) = match text.strip_prefix(SUMMARY_HEADING) {
                    Some(summary) => {
                        screen.paragraph(Style::Dim, "", "summary of the earlier conversation:");
                        (summary, Style::Dim)
                    }
                    None => (text.as_str(), Style::Bold),
                };
                let lines: Vec<_> = Styled::prose(text).lines().collect();
                let first = if style == Style::Bold { "> " } else { "  " };
                for (n, line) in lines.iter().take(PROMPT_LINES).enumerate() {
                    screen.paragraph(style, if n == 0 { first } else { "  " }, line);
                }
                let more = lines.len().saturating_sub(PROMPT_LINES);
                if more > 0 {
                    screen.paragraph(Style::Dim, "  ", more_lines(more));
                }
            }
            _ => {}
        }
    }
    screen.line("");
}
