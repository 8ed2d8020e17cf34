//! Renders a session as Markdown for human readers.
//!
//! ```
//! use agent_core::Timestamp;
//! use agent_session::{Session, to_markdown};
//! let session = Session::new("s-1".into(), "agent".into(), Timestamp(1_767_225_600_000));
//! assert!(to_markdown(&session).starts_with("# Session s-1\n"));
//! ```

use std::fmt::Write as _;

use agent_core::{AgentMessage, Citation, CitationSource, Content, GroupRole, ImageContent, Message};

use crate::model::stored::MISSING;
use crate::model::{LoopRecord, Session};
use crate::store::SessionSummary;

/// Returns the session as Markdown: its loops in order, with their messages, tool calls and results.
#[must_use]
pub fn to_markdown(session: &Session) -> String {
    let summary = SessionSummary::of(session);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# Session {}\n", session.session_id);
    let _ = writeln!(out, "- agent: {}", session.agent_id);
    let _ = writeln!(out, "- begun: {}", session.created_at.to_rfc3339());
    let _ = writeln!(out, "- last active: {}", session.last_active_at.to_rfc3339());
    if !summary.models.is_empty() {
        let _ = writeln!(out, "- models: {}", summary.models.into_iter().collect::<Vec<_>>().join(", "));
    }
    let _ = writeln!(out, "- tokens: {} in, {} out", summary.usage.prompt_tokens(), summary.usage.output);
    // Shown only if the head is not the last loop.
    if let Some(head) = session.head()
        && session.loops.last().is_some_and(|last| last.loop_id != head.loop_id)
    {
        let _ = writeln!(out, "- continues from: loop {}", head.loop_id);
    }
    for record in &session.loops {
        write_loop(&mut out, record);
    }
    out
}

fn write_loop(out: &mut String, record: &LoopRecord) {
    let _ = writeln!(out, "\n## Loop {}\n", record.loop_id);
    let parent = record.parent_loop_id.as_ref().map(|p| format!(", after {p}")).unwrap_or_default();
    let _ = writeln!(out, "{:?}, {}{parent}", record.status, record.started_at.to_rfc3339());
    if let Some(member) = &record.group {
        let selected = match &record.parallel_group {
            Some(group) if group.is_selected => ", selected",
            _ => "",
        };
        let _ = match member.role {
            GroupRole::Branch { index } => {
                writeln!(out, "\nBranch {} of group {}{selected}", index + 1, member.group_id)
            }
            GroupRole::Judge => writeln!(out, "\nJudge of group {}", member.group_id),
            _ => writeln!(out, "\nIn group {}", member.group_id),
        };
    }
    for message in &record.messages {
        write_message(out, message);
    }
}

fn write_message(out: &mut String, message: &AgentMessage) {
    if let Some(reason) = message.stopped_run_reason() {
        let _ = writeln!(out, "\n### Stopped\n\nThe run was stopped: {reason}");
        return;
    }
    let message = match message {
        AgentMessage::Llm(llm) => &llm.message,
        AgentMessage::Extension(note) if note.kind == MISSING => {
            let _ = writeln!(out, "\n### Missing\n\nA message that stood here could not be read.");
            return;
        }
        AgentMessage::Extension(note) => {
            let _ = writeln!(out, "\n### Note: {}\n", note.kind);
            fenced(out, "json", &note.data.to_string());
            return;
        }
        _ => return,
    };
    match message {
        Message::Assistant(reply) => {
            let _ = writeln!(out, "\n### {}", reply.model);
            if let Some(error) = &reply.error_message {
                let _ = writeln!(out, "\n{:?}: {error}", reply.stop_reason);
            }
        }
        Message::ToolResult(result) => {
            let what = if result.is_error { "Error" } else { "Result" };
            let _ = writeln!(out, "\n### {what} of {}", result.tool_name);
        }
        _ => {
            let _ = writeln!(out, "\n### User");
        }
    }
    let is_result = message.as_tool_result().is_some();
    for content in message.content() {
        out.push('\n');
        match content {
            Content::Text(text) if is_result => fenced(out, "", &text.text),
            Content::Text(text) => {
                let _ = writeln!(out, "{}", text.text);
                for citation in &text.citations {
                    let _ = writeln!(out, "- Source: {}", source(citation));
                }
            }
            Content::Thinking(thinking) if !thinking.thinking.is_empty() => {
                for line in thinking.thinking.lines() {
                    let _ = writeln!(out, "> {line}");
                }
            }
            Content::ToolCall(call) => {
                let _ = writeln!(out, "Calls `{}`:\n", call.name);
                fenced(out, "json", call.arguments.text());
            }
            Content::Image(ImageContent::Url { url }) => {
                let _ = writeln!(out, "Image: <{url}>");
            }
            Content::Image(_) => out.push_str("An image.\n"),
            Content::Document(document) => {
                let title = document.title.as_deref().unwrap_or("without a name");
                let _ = writeln!(out, "A document: {}.", one_line(title));
            }
            Content::SearchResult(result) => {
                let _ = writeln!(
                    out,
                    "A search result: {} ({}).",
                    one_line(&result.title),
                    one_line(&result.source)
                );
            }
            Content::Audio(_) => out.push_str("A recording of sound.\n"),
            Content::Video(_) => out.push_str("A film.\n"),
            _ => {}
        }
    }
}

/// Returns the title and the address of a source on one line.
fn source(citation: &Citation) -> String {
    let name = match &citation.source {
        CitationSource::Url { url } => format!("<{url}>"),
        CitationSource::Document { index, .. } => format!("document {}", index + 1),
        CitationSource::SearchResult { source, .. } => source.clone(),
        CitationSource::File { file_id, name } => name.clone().unwrap_or_else(|| file_id.clone()),
        _ => "a source of the vendor".to_owned(),
    };
    let title = citation.title.as_deref().map_or_else(String::new, |title| format!("{title}, "));
    one_line(&format!("{title}{name}"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Appends a fenced block. The fence is longer than any run of backticks in the text, so the text cannot end it.
fn fenced(out: &mut String, language: &str, text: &str) {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(out, "{fence}{language}\n{text}\n{fence}");
}
