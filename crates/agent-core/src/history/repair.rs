//! Repairs lists of messages from other sources: restored, replaced, transformed or imported.

use std::collections::{BTreeMap, BTreeSet};

use super::{Entry, History, MessageRef, Unit, UnitKind, deferred};
use crate::identity::{ToolCallId, stable_hash};
use crate::message::{AgentMessage, Content, Message, ToolResultMessage};

/// The text of a result that was added for a call without one.
pub const ORPHAN_RESULT: &str = "No result provided";

/// A change that was needed to give every call its result.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Repair {
    /// A call had no result and was given one with the text [`ORPHAN_RESULT`].
    ResultAdded {
        /// The id of the call.
        call: ToolCallId,
    },
    /// A result without a preceding call was removed.
    ResultDropped {
        /// The id that the result refers to.
        call: ToolCallId,
    },
    /// The results were reordered to match the order of the calls.
    ResultsReordered {
        /// The first call of the reply.
        call: ToolCallId,
    },
    /// An empty or repeated call id was replaced, in the call and in its result.
    CallRenamed {
        /// The id before the repair.
        from: ToolCallId,
        /// The id after the repair.
        to: ToolCallId,
    },
    /// The result of a call that was not deferred, or had its result, became a plain user message.
    ResultDetached {
        /// The id that the result refers to.
        call: ToolCallId,
    },
}

pub(super) fn repaired(entries: impl Iterator<Item = Entry>) -> (History, Vec<Repair>) {
    let mut builder = Builder::default();
    for entry in entries {
        builder.take(entry);
    }
    builder.finish()
}

/// Repairs a part of a history. What its messages say about deferred calls is not checked, because the calls can be
/// outside of the part.
pub(super) fn repaired_part(entries: impl Iterator<Item = Entry>) -> (History, Vec<Repair>) {
    let mut builder = Builder { part: true, ..Builder::default() };
    for entry in entries {
        builder.take(entry);
    }
    builder.finish()
}

pub(super) fn rebuilt(old: &History, messages: impl Iterator<Item = MessageRef>) -> (History, Vec<Repair>) {
    let known: BTreeMap<*const AgentMessage, &std::sync::Arc<Unit>> =
        old.units().filter_map(|u| u.first().map(|m| (std::ptr::from_ref(m), u))).collect();
    let list: Vec<MessageRef> = messages.collect();
    let mut builder = Builder::default();
    let mut at = 0;
    while let Some(message) = list.get(at) {
        let unit = known.get(&std::ptr::from_ref::<AgentMessage>(message));
        if let Some(unit) = unit
            && unit
                .entries()
                .iter()
                .zip(list.iter().skip(at))
                .filter(|(e, m)| MessageRef::same(e.shared(), m))
                .count()
                == unit.entries().len()
            && builder.take_unit(unit)
        {
            at += unit.entries().len();
            continue;
        }
        let tokens = unit.and_then(|u| u.entries().first()).map(Entry::tokens);
        builder.take(Entry::counted(message.clone(), tokens));
        at += 1;
    }
    builder.finish()
}

#[derive(Default)]
struct Builder {
    history: History,
    repairs: Vec<Repair>,
    open: Option<Open>,
    /// The new ids of renamed calls.
    renamed: BTreeMap<ToolCallId, ToolCallId>,
    /// Whether the messages are a part of a longer history.
    part: bool,
}

/// A reply with calls whose results are being collected.
struct Open {
    reply: Entry,
    /// The calls, with their original and their new ids.
    calls: Vec<(ToolCallId, ToolCallId, crate::identity::ToolName)>,
    results: Vec<Option<Entry>>,
    arrived: Vec<usize>,
}

impl Builder {
    /// Reuses a unit unchanged, unless one of its call ids is already in use.
    fn take_unit(&mut self, unit: &std::sync::Arc<Unit>) -> bool {
        // A note may stand between a call and its result, as in `take`.
        if unit.first().is_some_and(|m| m.as_llm().is_some()) || !self.waits_for_results() {
            self.close();
        }
        let clash = unit.kind() == UnitKind::Exchange
            && unit.reply().is_some_and(|r| r.tool_calls().any(|c| self.history.has_call(c.id.as_str())));
        let detached = unit
            .first()
            .and_then(deferred::of_user)
            .is_some_and(|call| deferred::check(&self.history, call).is_err());
        if clash || detached {
            return false;
        }
        self.history.append_shared(std::sync::Arc::clone(unit));
        true
    }

    fn take(&mut self, entry: Entry) {
        match entry.message().as_llm() {
            Some(Message::ToolResult(result)) => {
                let result = result.clone();
                self.result(entry, &result);
            }
            Some(Message::Assistant(reply)) if reply.is_failed() => {
                self.close();
                self.history.append(Unit::failed(entry));
            }
            Some(Message::Assistant(reply)) if reply.tool_calls().next().is_some() => {
                self.close();
                self.reply(entry);
            }
            Some(_) => {
                self.close();
                let entry = if self.part { entry } else { self.user(entry) };
                self.history.append(Unit::single(entry));
            }
            // A note between a call and its result is moved before both.
            None => {
                if !self.waits_for_results() {
                    self.close();
                }
                self.history.append(Unit::single(entry));
            }
        }
    }

    /// Follows a renamed call, and detaches a message from a call that does not wait for a result.
    fn user(&mut self, mut entry: Entry) -> Entry {
        let Some(call) = deferred::of_user(entry.message()) else { return entry };
        if deferred::check(&self.history, call).is_ok() {
            return entry;
        }
        let id = call.tool_call_id.clone();
        if let Some(to) = self.renamed.get(&id).cloned() {
            let mut renamed = call.clone();
            renamed.tool_call_id = to;
            if deferred::check(&self.history, &renamed).is_ok() {
                deferred::attach(entry.message_mut(), renamed);
                return entry;
            }
        }
        deferred::detach(entry.message_mut());
        self.repairs.push(Repair::ResultDetached { call: id });
        entry
    }

    fn waits_for_results(&self) -> bool {
        self.open.as_ref().is_some_and(|o| o.results.iter().any(Option::is_none))
    }

    fn reply(&mut self, entry: Entry) {
        let Some(reply) = entry.message().as_assistant() else { return };
        let mut seen = BTreeSet::new();
        let mut calls = Vec::new();
        for (n, call) in reply.tool_calls().enumerate() {
            let mut id = call.id.clone();
            let mut salt = 0_u32;
            while id.as_str().is_empty() || seen.contains(&id) || self.history.has_call(id.as_str()) {
                let place = format!("{}/{n}/{salt}", self.history.len());
                id =
                    ToolCallId::from(format!("call_{:012x}", stable_hash(&[&place, call.id.as_str()]) >> 16));
                salt += 1;
            }
            if id != call.id {
                self.repairs.push(Repair::CallRenamed { from: call.id.clone(), to: id.clone() });
                self.renamed.insert(call.id.clone(), id.clone());
            }
            seen.insert(id.clone());
            calls.push((call.id.clone(), id, call.name.clone()));
        }
        let renamed = calls.iter().any(|(from, to, _)| from != to);
        let reply = if renamed { with_ids(&entry, &calls) } else { entry };
        let results = vec![None; calls.len()];
        self.open = Some(Open { reply, calls, results, arrived: Vec::new() });
    }

    fn result(&mut self, entry: Entry, result: &ToolResultMessage) {
        let dropped = Repair::ResultDropped { call: result.tool_call_id.clone() };
        let Some(open) = &mut self.open else {
            self.repairs.push(dropped);
            return;
        };
        let slot = open
            .calls
            .iter()
            .zip(&open.results)
            .position(|((from, _, _), taken)| *from == result.tool_call_id && taken.is_none());
        let Some((slot, (from, to, _))) = slot.and_then(|s| open.calls.get(s).map(|c| (s, c))) else {
            self.repairs.push(dropped);
            return;
        };
        let entry = if from == to {
            entry
        } else {
            let renamed = ToolResultMessage { tool_call_id: to.clone(), ..result.clone() };
            Entry::new(MessageRef::from(Message::from(renamed)), entry.tokens())
        };
        if let Some(place) = open.results.get_mut(slot) {
            *place = Some(entry);
        }
        open.arrived.push(slot);
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if !open.arrived.is_sorted()
            && let Some((_, id, _)) = open.calls.first()
        {
            self.repairs.push(Repair::ResultsReordered { call: id.clone() });
        }
        let mut results = Vec::with_capacity(open.calls.len());
        for ((_, id, name), result) in open.calls.into_iter().zip(open.results) {
            results.push(result.unwrap_or_else(|| {
                self.repairs.push(Repair::ResultAdded { call: id.clone() });
                Entry::from(AgentMessage::from(Message::from(ToolResultMessage::error(
                    id,
                    name,
                    ORPHAN_RESULT,
                ))))
            }));
        }
        // The parts match by construction. If they did not, the reply would be left out rather than sent with open
        // calls.
        if let Ok(unit) = Unit::exchange(open.reply, results) {
            self.history.append(unit);
        }
    }

    fn finish(mut self) -> (History, Vec<Repair>) {
        self.close();
        (self.history, self.repairs)
    }
}

fn with_ids(entry: &Entry, calls: &[(ToolCallId, ToolCallId, crate::identity::ToolName)]) -> Entry {
    let mut message = entry.message().clone();
    if let AgentMessage::Llm(m) = &mut message
        && let Message::Assistant(reply) = &mut m.message
    {
        let mut ids = calls.iter().map(|(_, to, _)| to.clone());
        for block in &mut reply.content {
            if let Content::ToolCall(call) = block
                && let Some(id) = ids.next()
            {
                call.id = id;
            }
        }
    }
    Entry::new(MessageRef::new(message), entry.tokens())
}
