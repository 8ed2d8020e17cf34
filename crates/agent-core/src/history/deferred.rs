//! Deferred calls in a history: which of them wait for a result, and what a compaction does to them.
//!
//! A call waits from its preliminary result, or from the notice that replaces its exchange, to the user message with its
//! result. A message that refers to no waiting call is a plain user message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Entry, History, HistoryError, MessageRef, Unit, UnitKind};
use crate::identity::{Timestamp, ToolCallId};
use crate::message::{AgentMessage, Content, DeferredCall, DeferredState, Message};

/// The content of a deferred call whose result a compaction removed.
const RESULT_REMOVED: &str = "This call has ended. Its result was removed to fit context window.";

/// Returns what a user message says about a deferred call.
pub(super) fn of_user(message: &AgentMessage) -> Option<&DeferredCall> {
    match message.as_llm() {
        Some(Message::User(user)) => user.deferred.as_deref(),
        _ => None,
    }
}

/// Returns whether a message of the unit concerns a deferred call.
pub(super) fn concerns(unit: &Unit) -> bool {
    match unit.kind() {
        UnitKind::Message => unit.first().and_then(of_user).is_some(),
        UnitKind::Exchange => unit.results().any(|r| r.deferred.is_some()),
        UnitKind::Failed => false,
    }
}

/// Returns the calls of a unit that begin to wait, with the time of the message.
fn begun(unit: &Unit) -> impl Iterator<Item = (DeferredCall, Timestamp)> {
    let results = unit.results().filter_map(|r| {
        let handle = r.deferred.clone()?;
        Some((DeferredCall::new(r.tool_call_id.clone(), r.tool_name.clone(), handle), r.timestamp))
    });
    let notice = unit.first().and_then(AgentMessage::as_llm).and_then(|m| match m {
        Message::User(user) => Some((user.deferred.as_deref()?, user.timestamp)),
        Message::Assistant(_) | Message::ToolResult(_) => None,
    });
    let notice = notice.filter(|(call, _)| call.state == DeferredState::Running);
    results.chain(notice.map(|(call, at)| (call.clone(), at)))
}

/// Returns the call that a unit ends.
fn ended(unit: &Unit) -> Option<&ToolCallId> {
    let call = unit.first().and_then(of_user)?;
    (call.state != DeferredState::Running).then_some(&call.tool_call_id)
}

/// Returns the calls that wait for a result, oldest first.
pub(super) fn running(history: &History) -> Vec<DeferredCall> {
    if !history.tail.has_deferred() {
        return Vec::new();
    }
    let mut calls: Vec<DeferredCall> = Vec::new();
    for unit in history.units() {
        if let Some(id) = ended(unit) {
            calls.retain(|call| call.tool_call_id != *id);
        }
        for (call, _) in begun(unit) {
            calls.retain(|earlier| earlier.tool_call_id != call.tool_call_id);
            calls.push(call);
        }
    }
    calls
}

/// Checks what a user message says about a deferred call against the history before it.
pub(super) fn check(history: &History, call: &DeferredCall) -> Result<(), HistoryError> {
    let id = &call.tool_call_id;
    let has_ended = || history.units().any(|unit| ended(unit) == Some(id));
    if call.state == DeferredState::Running {
        return if history.tail.has_deferred() && has_ended() {
            Err(HistoryError::AlreadyCompleted(id.clone()))
        } else {
            Ok(())
        };
    }
    check_completion(history, id)
}

/// Checks that this call waits for its result.
pub(super) fn check_completion(history: &History, id: &ToolCallId) -> Result<(), HistoryError> {
    if running(history).iter().any(|open| open.tool_call_id == *id) {
        Ok(())
    } else if history.units().any(|unit| ended(unit) == Some(id)) {
        Err(HistoryError::AlreadyCompleted(id.clone()))
    } else if history.has_call(id.as_str()) {
        Err(HistoryError::NotDeferred(id.clone()))
    } else {
        Err(HistoryError::UnknownCall(id.clone()))
    }
}

/// Returns the result of a deferred call with the handle of the call, which the sender may not have known. A message that
/// does not fit the history becomes a plain user message.
pub(super) fn linked(history: &History, mut entry: Entry) -> Entry {
    let Some(call) = of_user(entry.message()) else { return entry };
    if check(history, call).is_err() {
        detach(entry.message_mut());
    } else if call.handle.as_str().is_empty()
        && let Some(known) = running(history).into_iter().find(|open| open.tool_call_id == call.tool_call_id)
        && let AgentMessage::Llm(m) = entry.message_mut()
        && let Message::User(user) = &mut m.message
        && let Some(call) = &mut user.deferred
    {
        call.handle = known.handle;
        let first = Content::text(call.first_line());
        if let Some(block) = user.content.first_mut() {
            *block = first;
        }
    }
    entry
}

/// Makes a user message refer to this call.
pub(super) fn attach(message: &mut AgentMessage, call: DeferredCall) {
    if let AgentMessage::Llm(m) = message
        && let Message::User(user) = &mut m.message
    {
        user.deferred = Some(Box::new(call));
    }
}

/// Makes a message about a deferred call a plain user message.
pub(super) fn detach(message: &mut AgentMessage) {
    if let AgentMessage::Llm(m) = message
        && let Message::User(user) = &mut m.message
    {
        user.deferred = None;
    }
}

/// Corrects a history whose messages were replaced: a waiting call of `old` whose exchange was removed gets a notice, a
/// result without its call becomes a plain user message, and a call whose result was removed no longer waits.
pub(super) fn consistent(old: &History, new: History) -> History {
    if !old.tail.has_deferred() && !new.tail.has_deferred() {
        return new;
    }
    let ids = |history: &History| -> BTreeSet<ToolCallId> {
        history.units().flat_map(|u| begun(u)).map(|(call, _)| call.tool_call_id).collect()
    };
    let ends = |history: &History| -> BTreeSet<ToolCallId> {
        history.units().filter_map(|u| ended(u)).cloned().collect()
    };
    let (present, ended_now) = (ids(&new), ends(&new));
    let over: BTreeSet<ToolCallId> = ends(old).difference(&ended_now).cloned().collect();
    let waiting: BTreeSet<ToolCallId> = running(old).into_iter().map(|call| call.tool_call_id).collect();

    // The removed calls that still wait, each with the place of its unit in the old history.
    let mut places: BTreeMap<*const Unit, usize> = BTreeMap::new();
    let mut removed: Vec<(usize, DeferredCall, Timestamp)> = Vec::new();
    for (at, unit) in old.units().enumerate() {
        places.insert(Arc::as_ptr(unit), at);
        let lost = begun(unit).filter(|(call, _)| {
            waiting.contains(&call.tool_call_id) && !present.contains(&call.tool_call_id)
        });
        removed.extend(lost.map(|(call, time)| (at, call, time)));
    }
    let mut removed = removed.into_iter().peekable();
    let mut out = History::new();
    let mut open: BTreeSet<ToolCallId> = BTreeSet::new();
    let notice = |out: &mut History, open: &mut BTreeSet<ToolCallId>, call: DeferredCall, time| {
        open.insert(call.tool_call_id.clone());
        out.append(Unit::single(Entry::from(AgentMessage::from(Message::from(call.notice(time))))));
    };
    for unit in new.units() {
        if let Some(place) = places.get(&Arc::as_ptr(unit)) {
            while let Some((_, call, time)) = removed.next_if(|(at, ..)| at < place) {
                notice(&mut out, &mut open, call, time);
            }
        }
        let stays = match ended(unit) {
            Some(id) => open.remove(id),
            None => begun(unit).all(|(call, _)| !over.contains(&call.tool_call_id)),
        };
        if stays {
            open.extend(begun(unit).map(|(call, _)| call.tool_call_id));
            out.append_shared(Arc::clone(unit));
        } else {
            out.append_shared(corrected(unit, &over, &mut open));
        }
    }
    for (_, call, time) in removed {
        notice(&mut out, &mut open, call, time);
    }
    out
}

/// Returns a unit without its references to calls that are `over` or that do not wait.
fn corrected(unit: &Arc<Unit>, over: &BTreeSet<ToolCallId>, open: &mut BTreeSet<ToolCallId>) -> Arc<Unit> {
    let mut entries: Vec<Entry> = Vec::with_capacity(unit.entries().len());
    for entry in unit.entries() {
        let (mut message, tokens) = (entry.message().clone(), entry.tokens());
        if let AgentMessage::Llm(m) = &mut message {
            match &mut m.message {
                Message::User(user) => {
                    if user.deferred.take().is_some_and(|call| call.state == DeferredState::Running) {
                        user.content = vec![Content::text(RESULT_REMOVED)];
                    }
                }
                Message::ToolResult(result) if over.contains(&result.tool_call_id) => {
                    if result.deferred.take().is_some() {
                        result.content = vec![Content::text(RESULT_REMOVED)].into();
                    }
                }
                Message::ToolResult(result) if result.deferred.is_some() => {
                    open.insert(result.tool_call_id.clone());
                }
                Message::Assistant(_) | Message::ToolResult(_) => {}
            }
        }
        entries.push(Entry::new(MessageRef::new(message), tokens));
    }
    let mut entries = entries.into_iter();
    let (Some(first), rest) = (entries.next(), entries.collect::<Vec<_>>()) else { return Arc::clone(unit) };
    match unit.kind() {
        // The calls and results are those of the unit, so they still match.
        UnitKind::Exchange => Unit::exchange(first, rest).map_or_else(|_| Arc::clone(unit), Arc::new),
        UnitKind::Message | UnitKind::Failed => Arc::new(Unit::single(first)),
    }
}
