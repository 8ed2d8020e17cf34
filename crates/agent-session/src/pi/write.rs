//! Writes a session as a file of pi.

use std::collections::BTreeMap;
use std::path::Path;

use agent_core::{AgentEvent, AgentMessage, History, Message, MessageRef, Timestamp};
use serde_json::{Value, json};

use super::message::{note_kind, to_pi};
use super::{HEAD_MARK, PI_VERSION};
use crate::error::SessionError;
use crate::model::{Histories, LoopRecord, Session};

/// Exports a session as a file of pi in version 3. The entries of an imported session are unchanged; loops that were added
/// later follow.
///
/// A session does not contain its working directory, so the `cwd` of a session that was not imported is empty. Use
/// [`export_from`] if the directory is known.
///
/// # Errors
/// When the events of a loop do not make a conversation.
pub fn export(session: &Session) -> Result<String, SessionError> {
    export_from(session, Path::new(""))
}

/// Exports a session as [`export`] does, with the working directory of its tools. The header of an imported session is
/// unchanged.
///
/// # Errors
/// When the events of a loop do not make a conversation.
pub fn export_from(session: &Session, directory: &Path) -> Result<String, SessionError> {
    let mut writer = Writer { lines: Vec::new(), ids: BTreeMap::new(), last: BTreeMap::new() };
    let header = session.loops.iter().find_map(|r| r.metadata.pointer("/pi/header")).cloned();
    let header = header.unwrap_or_else(|| {
        json!({
            "type": "session", "version": PI_VERSION, "id": session.session_id,
            "timestamp": session.created_at.to_rfc3339(), "cwd": directory.display().to_string(),
        })
    });
    let mut histories = Histories::of(session);
    for (at, record) in session.loops.iter().enumerate() {
        match record.metadata.pointer("/pi/entries").and_then(Value::as_array) {
            Some(notes) => writer.imported(at, record, notes),
            None => writer.recorded(&mut histories, at, record)?,
        }
    }
    writer.head(session);
    // Entries of different loops can alternate in the file. Recorded loops follow.
    writer.lines.sort_by_key(|(line, _)| *line);
    let mut text = header.to_string();
    text.push('\n');
    for (_, value) in writer.lines {
        text.push_str(&value.to_string());
        text.push('\n');
    }
    Ok(text)
}

struct Writer {
    /// The number of each line in the imported file, and the line.
    lines: Vec<(usize, Value)>,
    /// The ids of the entries of messages, by the address of the message. The session holds the messages.
    ids: BTreeMap<usize, String>,
    /// The last entry of each loop.
    last: BTreeMap<usize, String>,
}

fn address(message: &AgentMessage) -> usize {
    std::ptr::from_ref(message).addr()
}

impl Writer {
    fn imported(&mut self, at: usize, record: &LoopRecord, notes: &[Value]) {
        for note in notes {
            let Some(mut entry) = note.get("entry").cloned() else { continue };
            let place = note.get("at").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            let id = entry.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(message) = place.and_then(|p| record.messages.get(p)) {
                self.ids.insert(address(message), id.clone());
                if entry.get("message").is_some_and(Value::is_null) {
                    let mut theirs = to_pi(message);
                    let usage = theirs.get_mut("usage").and_then(Value::as_object_mut);
                    if let (Some(cost), Some(usage)) = (note.get("cost"), usage) {
                        usage.insert("cost".to_owned(), cost.clone());
                    }
                    if let Some(map) = entry.as_object_mut() {
                        map.insert("message".to_owned(), theirs);
                    }
                }
            }
            let line = note.get("line").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            self.last.insert(at, id);
            self.lines.push((line.unwrap_or(usize::MAX), entry));
        }
    }

    /// Pi continues from the last entry. If that is a judge's, or one of a branch that was not selected, another entry names the place
    /// from which the conversation continues.
    fn head(&mut self, session: &Session) {
        let (Some(head), true) = (session.head(), session.loops.iter().any(|r| r.group.is_some())) else {
            return;
        };
        let last = session.position(head.loop_id.as_str()).and_then(|at| self.last.get(&at));
        let is_last = self
            .lines
            .last()
            .is_none_or(|(_, entry)| entry.get("id").and_then(Value::as_str) == last.map(String::as_str));
        let (Some(last), false) = (last, is_last) else { return };
        let entry = json!({
            "type": "custom", "customType": HEAD_MARK, "data": null, "id": format!("{:04x}0000", session.loops.len() + 1),
            "parentId": last, "timestamp": session.last_active_at.to_rfc3339(),
        });
        self.lines.push((usize::MAX, entry));
    }

    fn recorded(
        &mut self,
        histories: &mut Histories<'_>,
        at: usize,
        record: &LoopRecord,
    ) -> Result<(), SessionError> {
        let base = record.base.as_ref();
        let before = histories.index().before(at)?;
        let history = before.map(|before| histories.after(before)).transpose()?.unwrap_or_default();
        let mut parent = match (before, base) {
            (None, _) => None,
            (Some(_), Some(base)) if base.keep < history.len() => self.entry_at(&history, base.keep),
            (Some(before), _) => self.last.get(&before).cloned(),
        };
        let mut number = 0;
        let mut put = |this: &mut Self, parent: &mut Option<String>, time: Timestamp, mut entry: Value| {
            number += 1;
            let id = format!("{:04x}{number:04x}", at + 1);
            if let Some(map) = entry.as_object_mut() {
                map.insert("id".to_owned(), json!(id));
                map.insert("parentId".to_owned(), json!(parent));
                map.insert("timestamp".to_owned(), json!(time.to_rfc3339()));
            }
            *parent = Some(id.clone());
            this.last.insert(at, id.clone());
            this.lines.push((usize::MAX, entry));
            id
        };
        let added = base.map(|b| b.added.as_slice()).unwrap_or_default();
        for entry in added {
            let message = entry.shared();
            let id = put(self, &mut parent, record.started_at, entry_of(message));
            self.ids.insert(address(message), id);
        }
        // A base that does not fit is written as if all messages were kept.
        let history = histories.begin(at).unwrap_or(history);
        let mut fold = agent_core::fold::Fold::new(history);
        for event in record.events.iter().filter_map(|e| e.known()) {
            match event {
                AgentEvent::MessageEnd { message, superseded: false, .. } => {
                    let time = time_of(message).unwrap_or(record.started_at);
                    let id = put(self, &mut parent, time, entry_of(message));
                    self.ids.insert(address(message), id);
                }
                AgentEvent::CompactionEnded(ended) => {
                    let kept = ended.splices.last().and_then(|s| fold.history().entries().nth(s.to));
                    let kept = kept.and_then(|e| self.ids.get(&address(e.shared())).cloned());
                    let texts: Vec<String> = ended
                        .splices
                        .iter()
                        .flat_map(|s| &s.messages)
                        .map(|e| e.message().text())
                        .filter(|t| !t.is_empty())
                        .collect();
                    let entry = json!({
                        "type": "compaction", "summary": texts.join("\n\n"), "firstKeptEntryId": kept,
                        "tokensBefore": ended.estimated_tokens_before,
                    });
                    put(self, &mut parent, ended.timestamp, entry);
                }
                _ => {}
            }
            fold.push(event)
                .map_err(|e| SessionError::Fold { loop_id: record.loop_id.clone(), source: e.into() })?;
        }
        Ok(())
    }

    /// Returns the id of the entry of the last of the first messages of a conversation.
    fn entry_at(&self, history: &History, messages: usize) -> Option<String> {
        let message = match history.rewound(messages, Vec::new()) {
            Ok(kept) => kept.last().map(address),
            Err(_) => history.entries().nth(messages.checked_sub(1)?).map(|e| address(e.shared())),
        };
        self.ids.get(&message?).cloned()
    }
}

/// Creates an entry without its place in the tree.
fn entry_of(message: &MessageRef) -> Value {
    match note_kind(message) {
        Some(kind) => json!({ "type": "custom", "customType": kind, "data": to_pi(message) }),
        None => json!({ "type": "message", "message": to_pi(message) }),
    }
}

fn time_of(message: &AgentMessage) -> Option<Timestamp> {
    let time = match message.as_llm()? {
        Message::User(user) => user.timestamp,
        Message::Assistant(reply) => reply.timestamp,
        Message::ToolResult(result) => result.timestamp,
        _ => return None,
    };
    (time.0 > 0).then_some(time)
}
