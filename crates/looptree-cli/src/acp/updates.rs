//! The events and the messages of a session, as updates for an editor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Diff, ImageContent, Plan as PlanUpdate, PlanEntry, PlanEntryPriority,
    PlanEntryStatus, SessionUpdate, TextContent, ToolCall, ToolCallContent, ToolCallId, ToolCallLocation,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use looptree::event::ToolExecutionEnd;
use looptree::history::History;
use looptree::identity::LoopId;
use looptree::prelude::*;
use looptree::tools::file_change::{ChangeOf, FileChange, changes_of};
use looptree::tools::plan::{Plan, StepState};
use looptree::{Content, Message, Question};
use serde_json::Value;

use crate::preview::Preview;
use crate::screen::{Styled, question as whole};
use crate::text::{one_line, telling};

/// The name of the tool whose calls are shown as a plan.
const PLAN: &str = "plan";

/// What the editor knows of a session.
pub(crate) struct Updates {
    root: PathBuf,
    /// The ids that were given to the editor. A model can use an id again in a later reply, the editor needs unique ones.
    used: BTreeSet<String>,
    /// The calls without a result, by the ids of the model.
    open: BTreeMap<String, ToolCallId>,
    /// Those of them that the user or the policy has rejected, so that they never run.
    rejected: BTreeSet<String>,
    told_failures: bool,
}

/// A part of a change: where it begins, the lines before it and those after it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hunk {
    line: u32,
    before: String,
    after: String,
}

impl Updates {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            used: BTreeSet::new(),
            open: BTreeMap::new(),
            rejected: BTreeSet::new(),
            told_failures: false,
        }
    }

    /// Returns the failures the first time, and nothing later.
    pub(super) fn once_told(&mut self, failures: &[String]) -> Vec<String> {
        if std::mem::replace(&mut self.told_failures, true) { Vec::new() } else { failures.to_vec() }
    }

    /// Returns the updates of an event.
    pub(super) fn event(&mut self, event: &AgentEvent) -> Vec<SessionUpdate> {
        match event {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { text }, .. } => vec![said(text)],
            AgentEvent::MessageUpdate { delta: StreamDelta::Thinking { text }, .. } => vec![thought(text)],
            AgentEvent::MessageEnd { superseded: true, .. } => {
                vec![said("\n\n(This answer broke off; it begins again.)\n\n")]
            }
            AgentEvent::ToolExecutionStart { tool_call_id, tool_name, args, .. } => {
                let arguments = serde_json::from_str(args.json_text()).unwrap_or(Value::Null);
                self.started(tool_call_id.as_ref(), tool_name.as_str(), &arguments)
            }
            AgentEvent::ToolExecutionUpdate { tool_call_id, partial_result, .. } => {
                let text = fenced(&plain_text(&partial_result.to_text()));
                self.progress(tool_call_id.as_ref(), text)
            }
            AgentEvent::ProgressMessage { tool_call_id, text, .. } => {
                self.progress(tool_call_id.as_ref(), plain_text(text))
            }
            AgentEvent::ToolExecutionEnd(end) => self.ended(end),
            AgentEvent::RetryStart(retry) => {
                let error = line(&one_line(retry.error.as_deref().unwrap_or_default()));
                let (delay, attempt, of) = (retry.delay_ms, retry.attempt, retry.max_attempts);
                vec![thought(&format!("\n{error}; trying again in {delay} ms ({attempt}/{of})\n"))]
            }
            AgentEvent::RouteChanged(change) => {
                vec![thought(&format!(
                    "\n{}; asking {} now\n",
                    line(&one_line(&change.error)),
                    line(&change.to.model)
                ))]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the updates that show the call of a question, and the call for the request of a permission.
    pub(super) fn question(
        &mut self,
        question: &Question,
        preview: Preview,
    ) -> (Vec<SessionUpdate>, ToolCallUpdate) {
        let Some(view) = question.approval() else {
            let fields =
                ToolCallUpdateFields::new().title(line(&question.text)).status(ToolCallStatus::Pending);
            return (Vec::new(), ToolCallUpdate::new(question.id.to_string(), fields));
        };
        let (tool, call) = (view.tool.as_str(), question.call.as_ref());
        let key = call.map_or_else(|| question.id.to_string(), |call| call.id.as_ref().to_owned());
        let (id, is_new) = self.opened(&key);
        let note = preview.note();
        let content = match preview {
            // An editor shows a diff as it is.
            Preview::Change(plan) if is_plain(&plan.after) && plan.before.as_deref().is_none_or(is_plain) => {
                vec![Diff::new(self.root.join(&plan.change.path), plan.after).old_text(plan.before).into()]
            }
            // The whole call, with every invisible character escaped.
            _ => note
                .into_iter()
                .chain([fenced(whole(question).as_str())])
                .map(ToolCallContent::from)
                .collect(),
        };
        let shown = self.call(&id, tool, &view.arguments).status(ToolCallStatus::Pending).content(content);
        let updates = if is_new { vec![SessionUpdate::ToolCall(shown.clone())] } else { Vec::new() };
        (updates, shown.into())
    }

    /// Notes that a call does not run: it goes from pending to failed.
    pub(super) fn reject(&mut self, key: &str) {
        self.rejected.insert(key.to_owned());
    }

    /// Returns the calls that have no result, as failed. A run that ends has none that will get one.
    pub(super) fn left_open(&mut self) -> Vec<SessionUpdate> {
        let open = std::mem::take(&mut self.open);
        self.rejected.clear();
        let failed = |id| {
            let fields = ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
            SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
        };
        open.into_values().map(failed).collect()
    }

    /// Returns the updates that show a conversation from its beginning.
    pub(super) fn conversation(&mut self, history: &History) -> Vec<SessionUpdate> {
        let mut updates = Vec::new();
        for entry in history.entries() {
            if let Some(reason) = entry.shared().stopped_run_reason() {
                updates.push(said(&format!("\n\nstopped: {reason}\n")));
                continue;
            }
            match entry.shared().as_llm() {
                Some(Message::User(user)) => {
                    let blocks = user.content.iter().filter_map(block);
                    updates.extend(
                        blocks.map(|block| SessionUpdate::UserMessageChunk(ContentChunk::new(block))),
                    );
                }
                Some(Message::Assistant(reply)) => {
                    for content in &reply.content {
                        match content {
                            Content::Text(text) => updates.push(said(&text.text)),
                            Content::Thinking(thinking) => updates.push(thought(&thinking.thinking)),
                            Content::ToolCall(call) => {
                                let arguments = call.arguments.value().cloned().unwrap_or(Value::Null);
                                // Its result follows: nothing is running.
                                self.reject(call.id.as_ref());
                                updates.extend(self.started(
                                    call.id.as_ref(),
                                    call.name.as_str(),
                                    &arguments,
                                ));
                            }
                            _ => {}
                        }
                    }
                }
                Some(Message::ToolResult(result)) => {
                    let end = ToolExecutionEnd::from_message(LoopId::from("loaded"), result);
                    updates.extend(self.ended(&end));
                }
                _ => {}
            }
        }
        updates.extend(self.left_open());
        updates
    }

    /// Returns the editor's id of a call, and whether it is new.
    fn opened(&mut self, key: &str) -> (ToolCallId, bool) {
        if let Some(id) = self.open.get(key) {
            return (id.clone(), false);
        }
        let mut id = key.to_owned();
        let mut n = 1;
        while !self.used.insert(id.clone()) {
            n += 1;
            id = format!("{key}.{n}");
        }
        let id = ToolCallId::new(id);
        self.open.insert(key.to_owned(), id.clone());
        (id, true)
    }

    fn call(&self, id: &ToolCallId, tool: &str, arguments: &Value) -> ToolCall {
        let title = match telling(arguments) {
            Some(text) if tool == "bash" => line(&one_line(text)),
            Some(text) => line(&format!("{tool} {}", one_line(text))),
            None => line(tool),
        };
        ToolCall::new(id.clone(), title)
            .name(tool.to_owned())
            .kind(kind(tool))
            .locations(locations(&self.root, arguments))
            .raw_input(arguments.clone())
    }

    fn started(&mut self, key: &str, tool: &str, arguments: &Value) -> Vec<SessionUpdate> {
        if tool == PLAN {
            return Vec::new();
        }
        let (id, is_new) = self.opened(key);
        let is_rejected = self.rejected.contains(key);
        if is_new {
            let status = if is_rejected { ToolCallStatus::Pending } else { ToolCallStatus::InProgress };
            return vec![SessionUpdate::ToolCall(self.call(&id, tool, arguments).status(status))];
        }
        if is_rejected {
            return Vec::new();
        }
        let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
        vec![SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))]
    }

    fn progress(&self, key: &str, text: String) -> Vec<SessionUpdate> {
        let Some(id) = self.open.get(key) else { return Vec::new() };
        let fields = ToolCallUpdateFields::new()
            .status(ToolCallStatus::InProgress)
            .content(vec![ToolCallContent::from(text)]);
        vec![SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.clone(), fields))]
    }

    fn ended(&mut self, end: &ToolExecutionEnd) -> Vec<SessionUpdate> {
        if let Some(plan) = Plan::of_details(&end.result.details) {
            return vec![SessionUpdate::Plan(planned(&plan))];
        }
        let key = end.tool_call_id.as_ref();
        let (tool, mut updates) = (end.tool_name.as_str(), Vec::new());
        let (id, is_new) = self.opened(key);
        if is_new {
            updates.push(SessionUpdate::ToolCall(self.call(&id, tool, &Value::Null)));
        }
        self.open.remove(key);
        self.rejected.remove(key);
        let changes = changes_of(&end.result.details);
        let is_complete =
            !end.is_error && !changes.is_empty() && !changes.iter().any(|change| change.truncated);
        let mut fields = ToolCallUpdateFields::new().status(if end.is_error {
            ToolCallStatus::Failed
        } else {
            ToolCallStatus::Completed
        });
        let diffs = if is_complete { diffs(&self.root, &changes) } else { Vec::new() };
        if diffs.is_empty() {
            fields = fields.content(result(end));
        } else {
            let places =
                diffs.iter().map(|(line, diff)| ToolCallLocation::new(diff.path.clone()).line(*line));
            fields = fields.locations(places.collect::<Vec<_>>());
            fields = fields.content(diffs.into_iter().map(|(_, diff)| diff.into()).collect::<Vec<_>>());
        }
        updates.push(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)));
        updates
    }
}

fn said(text: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(ContentBlock::Text(TextContent::new(text))))
}

fn thought(text: &str) -> SessionUpdate {
    SessionUpdate::AgentThoughtChunk(ContentChunk::new(ContentBlock::Text(TextContent::new(text))))
}

/// Converts content that an editor can show.
fn block(content: &Content) -> Option<ContentBlock> {
    match content {
        Content::Text(text) => Some(ContentBlock::Text(TextContent::new(text.text.clone()))),
        Content::Image(looptree::ImageContent::Base64 { data, mime_type }) => {
            Some(ContentBlock::Image(ImageContent::new(data.clone(), mime_type.clone())))
        }
        _ => None,
    }
}

/// Returns the content of a result. Editors render text as Markdown, so it is put into a code block.
fn result(end: &ToolExecutionEnd) -> Vec<ToolCallContent> {
    let text = plain_text(&end.result.to_text());
    let mut content = Vec::new();
    if !text.trim().is_empty() {
        content.push(ToolCallContent::from(fenced(&text)));
    }
    let images = end.result.content.iter().filter(|content| matches!(content, Content::Image(_)));
    content.extend(images.filter_map(block).map(ToolCallContent::from));
    content
}

/// Escapes the characters that an editor could act on, except tabs and the ends of lines.
fn plain_text(text: &str) -> String {
    text.split('\t').map(|part| Styled::prose(part).as_str().to_owned()).collect::<Vec<_>>().join("\t")
}

/// Escapes a title or a name.
fn line(text: &str) -> String {
    Styled::from(text).as_str().to_owned()
}

/// Returns whether a text has no character that an approver would not see.
fn is_plain(text: &str) -> bool {
    text.replace("\r\n", "\n").split(['\n', '\t']).all(|part| Styled::from(part).as_str() == part)
}

/// Puts a text into a code block whose fence the text does not contain.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

fn kind(tool: &str) -> ToolKind {
    match tool {
        "read_file" | "read_output" | "skill" => ToolKind::Read,
        "list_files" | "search" => ToolKind::Search,
        "write_file" | "edit_file" | "apply_patch" => ToolKind::Edit,
        "bash" => ToolKind::Execute,
        "web_fetch" => ToolKind::Fetch,
        _ => ToolKind::Other,
    }
}

/// Returns the file that a call names, with the line at which it is read.
fn locations(root: &Path, arguments: &Value) -> Vec<ToolCallLocation> {
    let Some(path) = arguments.get("path").and_then(Value::as_str) else { return Vec::new() };
    let line = arguments.get("offset").and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
    vec![ToolCallLocation::new(root.join(path)).line(line)]
}

fn planned(plan: &Plan) -> PlanUpdate {
    let entries = plan.steps.iter().map(|step| {
        let status = match step.status {
            StepState::Completed => PlanEntryStatus::Completed,
            StepState::InProgress => PlanEntryStatus::InProgress,
            _ => PlanEntryStatus::Pending,
        };
        PlanEntry::new(line(&step.step), PlanEntryPriority::Medium, status)
    });
    PlanUpdate::new(entries.collect())
}

/// Returns what was changed: one diff for each part of a file, with the line where it is.
fn diffs(root: &Path, changes: &[FileChange]) -> Vec<(u32, Diff)> {
    let mut diffs = Vec::new();
    for change in changes {
        let path = root.join(change.moved_to.as_deref().unwrap_or(&change.path));
        for hunk in hunks(&change.diff) {
            let before = (change.kind != ChangeOf::Added).then_some(hunk.before);
            diffs.push((hunk.line, Diff::new(path.clone(), hunk.after).old_text(before)));
        }
    }
    diffs
}

/// Splits a unified diff.
fn hunks(diff: &str) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    // The sides that the last line belongs to, for the note that it has no line end.
    let mut last = (false, false);
    for line in diff.split_inclusive('\n') {
        if let Some(header) = line.strip_prefix("@@ ") {
            let start = header.split('+').nth(1).and_then(|new| new.split([',', ' ']).next());
            let line = start.and_then(|start| start.parse().ok()).unwrap_or(1).max(1);
            hunks.push(Hunk { line, before: String::new(), after: String::new() });
            continue;
        }
        let Some(hunk) = hunks.last_mut() else { continue };
        let (mark, text) = line.split_at_checked(1).unwrap_or((line, ""));
        let sides = match mark {
            " " => (true, true),
            "-" => (true, false),
            "+" => (false, true),
            "\\" => {
                for side in [last.0.then_some(&mut hunk.before), last.1.then_some(&mut hunk.after)]
                    .into_iter()
                    .flatten()
                {
                    if side.ends_with('\n') {
                        side.pop();
                    }
                }
                continue;
            }
            // An empty line without its mark.
            _ => (true, true),
        };
        if sides.0 {
            hunk.before.push_str(text);
        }
        if sides.1 {
            hunk.after.push_str(text);
        }
        last = sides;
    }
    hunks
}

#[cfg(test)]
mod tests;
