//! Builds loops from a tree of entries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use agent_core::fold::Fold;
use agent_core::{
    AgentEvent, AgentMessage, Entry as Counted, History, LoopId, Message, MessageRef, SessionId, Timestamp,
    ToolCallId, ToolResultMessage, TurnTrigger, Usage,
};
use serde_json::{Map, Value, json};

use super::Imported;
use super::entry::{File, text};
use super::message::{call_of, from_pi, name_of, to_pi, user};
use super::split::{EntryLoop, split};
use crate::error::SessionError;
use crate::model::recording::{Recording, record_of_start};
use crate::model::{LoopBase, RecordedEvent, Session, form1};
use crate::store::Loss;

/// The agent of imported sessions.
const AGENT: &str = "pi";

pub(super) fn build(file: File, path: &Path) -> Result<Imported, SessionError> {
    let id = SessionId::from(text(&file.head, "id"));
    let begun = Timestamp::from_rfc3339(text(&file.head, "timestamp")).unwrap_or_default();
    let (loops, loop_of) = split(&file.entries);
    let begins = loops.iter().filter_map(|part| file.entries.get(*part.entries.first()?)?.parent);
    let mut builder = Builder {
        path,
        session: Session::new(id, AGENT.into(), begun),
        file: &file,
        losses: Vec::new(),
        places: file.entries.iter().enumerate().map(|(at, entry)| (entry.id(), at)).collect(),
        messages: BTreeMap::new(),
        begins: begins.collect(),
        closed: BTreeMap::new(),
        after: Vec::new(),
    };
    for (n, part) in loops.iter().enumerate() {
        builder.add_loop(n, part, &loop_of)?;
    }
    let Builder { session, losses, .. } = builder;
    Ok(Imported { session, losses: file.losses.into_iter().chain(losses).collect() })
}

struct Builder<'a> {
    path: &'a Path,
    session: Session,
    file: &'a File,
    losses: Vec<Loss>,
    /// The positions of entries by their ids.
    places: BTreeMap<&'a str, usize>,
    /// The messages of entries, by the position of the entry.
    messages: BTreeMap<usize, MessageRef>,
    /// The entries that loops begin after.
    begins: BTreeSet<usize>,
    /// The conversation after each of these entries.
    closed: BTreeMap<usize, History>,
    /// The conversation after each loop.
    after: Vec<History>,
}

/// A loop that is being built.
struct Building {
    /// A recording of this loop alone.
    recording: Recording,
    at: usize,
    loop_id: LoopId,
    fold: Fold,
    turn: u32,
    /// The calls of the last reply that have no result yet.
    waiting: Vec<ToolCallId>,
    results: Vec<(usize, Message)>,
    reply: Option<MessageRef>,
    notes: Vec<Value>,
    time: Timestamp,
}

impl Builder<'_> {
    fn lost(&mut self, entry: usize, reason: impl Into<String>) {
        let line = self.file.entries.get(entry).map_or(0, |e| e.line);
        self.losses.push(Loss::new(format!("{}: line {line}", self.path.display()), reason));
    }

    fn add_loop(&mut self, n: usize, part: &EntryLoop, loop_of: &[usize]) -> Result<(), SessionError> {
        let Some(first) = part.entries.first().and_then(|e| self.file.entries.get(*e)) else {
            return Ok(());
        };
        let session = self.session.session_id.clone();
        let loop_id = LoopId::from(format!("{session}.{AGENT}.{}", n + 1));
        let parent = first.parent.and_then(|p| loop_of.get(p)).copied();
        let parent_id = parent.map(|p| format!("{session}.{AGENT}.{}", p + 1));
        let time = Timestamp::from_rfc3339(text(&first.value, "timestamp")).unwrap_or_default();
        let start = event(json!({
            "type": "AgentStart", "agent_id": AGENT, "session_id": session, "loop_id": loop_id,
            "parent_loop_id": parent_id, "continuation_kind": parent.map(|_| "Default"), "timestamp": time,
        }))?;
        let AgentEvent::AgentStart(started) = &start else { return Ok(()) };
        let alone = Session::new(session, AGENT.into(), self.session.created_at);
        let mut recording = Recording::new(alone);
        let at = recording.begin(record_of_start(started));
        let before = match first.parent {
            Some(parent) => self.closed.get(&parent).cloned().unwrap_or_default(),
            None => History::new(),
        };
        let base = self.base(parent, &before);
        if let Some(record) = recording.record_mut(at) {
            record.base = Some(base);
        }
        let mut building = Building {
            recording,
            at,
            loop_id,
            fold: Fold::new(before),
            turn: 0,
            waiting: Vec::new(),
            results: Vec::new(),
            reply: None,
            notes: Vec::new(),
            time,
        };
        self.push(&mut building, start)?;
        for entry in &part.entries {
            self.entry(&mut building, *entry)?;
            if self.begins.contains(entry) {
                let closed = match building.fold.has_open_exchange() {
                    true => building.fold.clone().into_closed(),
                    false => building.fold.history().clone(),
                };
                self.closed.insert(*entry, closed);
            }
        }
        let was_open = !building.waiting.is_empty();
        self.finish(&mut building)?;
        let is_open = was_open && building.waiting.is_empty();
        self.after.push(building.fold.history().clone());
        let ended = match is_open {
            true => json!({ "how": "interrupted", "reason": "the file ends before its calls have results" }),
            false => json!({ "how": "completed" }),
        };
        let usage = building.recording.record(at).map(|r| r.usage).unwrap_or_default();
        let mut end = event(json!({
            "type": "AgentEnd", "loop_id": building.loop_id, "messages": [], "usage": usage, "ended": ended,
            "timestamp": building.time,
        }))?;
        if let AgentEvent::AgentEnd(end) = &mut end
            && let Some(record) = building.recording.record(at)
        {
            end.messages = record.messages.clone().into();
        }
        self.push(&mut building, end)?;
        let metadata = match n {
            0 => json!({ "pi": { "entries": building.notes, "header": self.file.head } }),
            _ => json!({ "pi": { "entries": building.notes } }),
        };
        let recorded = building.recording.session;
        self.session.last_active_at = self.session.last_active_at.max(recorded.last_active_at);
        if let Some(mut record) = recorded.loops.into_iter().next() {
            record.metadata = metadata;
            if let Some(parent) = parent.and_then(|p| self.session.loops.get_mut(p)) {
                parent.children_loop_ids.push(record.loop_id.clone());
            }
            self.session.loops.push(record);
        }
        Ok(())
    }

    /// The conversation before a loop, in terms of the loop that it continues from.
    fn base(&self, parent: Option<usize>, before: &History) -> LoopBase {
        let nothing = History::new();
        let after = parent.and_then(|p| self.after.get(p)).unwrap_or(&nothing);
        let after_loop = parent.and_then(|p| self.session.loops.get(p)).map(|r| r.loop_id.clone());
        let shared = before.shared_units(after);
        if shared == before.unit_count() {
            return LoopBase { after_loop, keep: before.len(), added: Vec::new() };
        }
        // Only whole exchanges are shared; the rest is added.
        let same = |(a, b): &(&Counted, &Counted)| MessageRef::same(a.shared(), b.shared());
        let keep = before
            .units()
            .zip(after.units())
            .take_while(|(a, b)| {
                a.entries().len() == b.entries().len()
                    && a.entries().iter().zip(b.entries()).all(|p| same(&p))
            })
            .map(|(a, _)| a.entries().len())
            .sum();
        LoopBase { after_loop, keep, added: before.entries().skip(keep).cloned().collect() }
    }

    fn entry(&mut self, building: &mut Building, at: usize) -> Result<(), SessionError> {
        let Some(entry) = self.file.entries.get(at) else { return Ok(()) };
        if let Some(time) = Timestamp::from_rfc3339(text(&entry.value, "timestamp")) {
            building.time = building.time.max(time);
        }
        let message = match entry.kind() {
            "message" => entry.value.get("message").map(from_pi),
            "custom_message" => user(entry.value.get("content"), None),
            "branch_summary" => user(entry.value.get("summary"), None),
            "compaction" => return self.compaction(building, at),
            _ => None,
        };
        let Some(message) = message else {
            self.note(building, at, None);
            return Ok(());
        };
        match message.as_llm() {
            Some(Message::ToolResult(result)) => {
                let result = result.clone();
                if building.waiting.contains(&result.tool_call_id)
                    && !building.results.iter().any(|(_, r)| call_of(r) == Some(&result.tool_call_id))
                {
                    building.results.push((at, result.into()));
                    if building.results.len() == building.waiting.len() {
                        self.finish(building)?;
                    }
                } else {
                    self.lost(at, "its tool result answers no call before it");
                    self.note(building, at, None);
                }
            }
            Some(Message::Assistant(reply)) => {
                let calls: Vec<ToolCallId> = match reply.is_failed() {
                    true => Vec::new(),
                    false => reply.tool_calls().map(|c| c.id.clone()).collect(),
                };
                self.finish(building)?;
                let trigger = if building.turn == 0 { TurnTrigger::User } else { TurnTrigger::Continuation };
                let start = AgentEvent::TurnStart {
                    loop_id: building.loop_id.clone(),
                    turn_index: building.turn,
                    timestamp: building.time,
                    triggered_by: trigger,
                };
                self.push(building, start)?;
                building.turn += 1;
                let usage = reply.usage;
                let message = self.message(building, at, message)?;
                building.reply.clone_from(&message);
                if calls.is_empty() {
                    self.end_turn(building, usage)?;
                } else {
                    building.waiting = calls;
                }
            }
            _ => {
                self.finish(building)?;
                self.message(building, at, message)?;
            }
        }
        Ok(())
    }

    /// Gives the last reply's calls their results, in the order of the calls; a call without one gets a result that reports it.
    fn finish(&mut self, building: &mut Building) -> Result<(), SessionError> {
        if building.waiting.is_empty() {
            return Ok(());
        }
        let calls = std::mem::take(&mut building.waiting);
        let mut results = std::mem::take(&mut building.results);
        for call in calls {
            let found = results.iter().position(|(_, r)| call_of(r) == Some(&call));
            match found.map(|at| results.remove(at)) {
                Some((at, result)) => {
                    self.message(building, at, result.into())?;
                }
                None => {
                    let name = building.reply.as_ref().and_then(|r| name_of(r, &call)).unwrap_or_default();
                    let mut result =
                        ToolResultMessage::error(call, name.into(), agent_core::history::ORPHAN_RESULT);
                    result.timestamp = building.time;
                    self.push_message(building, MessageRef::from(AgentMessage::from(Message::from(result))))?;
                }
            }
        }
        let usage =
            building.reply.as_ref().and_then(|r| Some(r.as_llm()?.as_assistant()?.usage)).unwrap_or_default();
        self.end_turn(building, usage)
    }

    fn end_turn(&mut self, building: &mut Building, usage: Usage) -> Result<(), SessionError> {
        let end = AgentEvent::TurnEnd {
            loop_id: building.loop_id.clone(),
            message: building.reply.take(),
            usage,
            timestamp: building.time,
            tool_results: Vec::new(),
        };
        self.push(building, end)
    }

    fn message(
        &mut self,
        building: &mut Building,
        at: usize,
        message: AgentMessage,
    ) -> Result<Option<MessageRef>, SessionError> {
        let message = MessageRef::from(message);
        self.push_message(building, message.clone())?;
        self.messages.insert(at, message.clone());
        let place = building.recording.record(building.at).and_then(|r| r.messages.len().checked_sub(1));
        self.note(building, at, place.map(|p| (p, &message)));
        Ok(Some(message))
    }

    fn push_message(&mut self, building: &mut Building, message: MessageRef) -> Result<(), SessionError> {
        let loop_id = building.loop_id.clone();
        let tokens = Counted::from(message.clone()).tokens();
        self.push(building, AgentEvent::MessageStart { loop_id: loop_id.clone(), message: message.clone() })?;
        self.push(building, AgentEvent::MessageEnd { loop_id, message, tokens, superseded: false })
    }

    /// Replaces the conversation by a summary and the retained messages.
    fn compaction(&mut self, building: &mut Building, at: usize) -> Result<(), SessionError> {
        self.finish(building)?;
        self.note(building, at, None);
        let Some(entry) = self.file.entries.get(at) else { return Ok(()) };
        let Some(summary) = user(entry.value.get("summary"), None) else {
            self.lost(at, "its compaction has no summary");
            return Ok(());
        };
        let kept_id = text(&entry.value, "firstKeptEntryId");
        let history = building.fold.history();
        let length = history.len();
        let address = |message: &AgentMessage| std::ptr::from_ref(message).addr();
        // Of equal messages, the first counts.
        let places: BTreeMap<usize, usize> =
            history.messages().map(address).zip(0..).collect::<Vec<_>>().into_iter().rev().collect();
        let first = self.places.get(kept_id).and_then(|k| {
            self.messages.range(k..).find_map(|(_, message)| places.get(&address(message)).copied())
        });
        let before = entry.value.get("tokensBefore").and_then(Value::as_u64).unwrap_or_default();
        let summary = Counted::from(MessageRef::from(summary));
        // A cut between a call and its result is moved behind the result.
        for to in first.unwrap_or(length)..=length {
            let splice = agent_core::Splice { from: 0, to, messages: vec![summary.clone()] };
            let Ok(after) = building.fold.history().spliced(std::slice::from_ref(&splice)) else { continue };
            let mut ended = event(json!({
                "type": "CompactionEnded", "loop_id": building.loop_id, "reason": "budget", "splices": [],
                "messages_before": length, "messages_after": after.len(), "estimated_tokens_before": before,
                "estimated_tokens_after": after.tokens(), "timestamp": building.time,
            }))?;
            if let AgentEvent::CompactionEnded(ended) = &mut ended {
                ended.splices = vec![splice];
            }
            return self.push(building, ended);
        }
        self.lost(at, "its compaction does not fit the messages before it");
        Ok(())
    }

    fn push(&mut self, building: &mut Building, event: AgentEvent) -> Result<(), SessionError> {
        building
            .fold
            .push(&event)
            .map_err(|e| SessionError::Fold { loop_id: building.loop_id.clone(), source: e.into() })?;
        building.recording.take(building.at, RecordedEvent::Known(Box::new(event)));
        Ok(())
    }

    /// Stores the parts of an entry that the messages do not contain.
    fn note(&self, building: &mut Building, at: usize, place: Option<(usize, &MessageRef)>) {
        let Some(entry) = self.file.entries.get(at) else { return };
        let mut note = Map::new();
        note.insert("line".to_owned(), json!(entry.line));
        let mut is_same = false;
        if let Some((place, message)) = place {
            note.insert("at".to_owned(), json!(place));
            if let Some(original) = entry.value.get("message").filter(|_| entry.kind() == "message") {
                let mut ours = to_pi(message);
                if let (Some(cost), Some(usage)) =
                    (original.pointer("/usage/cost"), ours.get_mut("usage").and_then(Value::as_object_mut))
                {
                    note.insert("cost".to_owned(), cost.clone());
                    usage.insert("cost".to_owned(), cost.clone());
                }
                is_same = ours == *original;
            }
        }
        let kept = match entry.value.as_object().filter(|_| is_same) {
            None => entry.value.clone(),
            Some(map) => {
                let kept = |(key, value): (&String, &Value)| match key.as_str() {
                    "message" => (key.clone(), Value::Null),
                    _ => (key.clone(), value.clone()),
                };
                Value::Object(map.iter().map(kept).collect())
            }
        };
        note.insert("entry".to_owned(), kept);
        building.notes.push(Value::Object(note));
    }
}

fn event(value: Value) -> Result<AgentEvent, SessionError> {
    form1::read(value).map_err(|source| SessionError::Encode { what: "an imported event", source })
}
