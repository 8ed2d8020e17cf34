//! Compares two requests by their parts: whether one extends the other, and what differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::CacheBreakCause;
use crate::history::{History, Unit, UnitKind};
use crate::message::estimate_tokens;
use crate::provider::ModelRequest;
use crate::shared::Shared;
use crate::tool::{ToolDefinition, ToolDefinitions};

/// What the driver knows about a changed history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Known {
    pub(super) compacted: bool,
    pub(super) hooked: bool,
}

/// The difference between the parts of two requests.
pub(super) struct Difference {
    pub(super) field: String,
    pub(super) message: Option<usize>,
    pub(super) cause: CacheBreakCause,
    /// The counted tokens after the difference that were sent before.
    pub(super) rebilled: u64,
}

/// Returns whether the new request certainly extends the old one: the same objects, followed by more. Costs O(new
/// units).
pub(super) fn extends(old: &ModelRequest, new: &ModelRequest) -> bool {
    same_prompt(old, new)
        && (ToolDefinitions::same(&old.tools, &new.tools) || old.tools == new.tools)
        && setting(old, new).is_none()
        && (Arc::ptr_eq(&old.model, &new.model) || old.model == new.model)
        && new.history.extends(&old.history)
}

fn same_prompt(old: &ModelRequest, new: &ModelRequest) -> bool {
    Arc::ptr_eq(&old.system_prompt, &new.system_prompt) || old.system_prompt == new.system_prompt
}

/// Returns the name of the first changed setting.
fn setting(old: &ModelRequest, new: &ModelRequest) -> Option<&'static str> {
    if Shared::ptr_eq(&old.options, &new.options) {
        return None;
    }
    if old.options.thinking_level != new.options.thinking_level
        || old.options.thinking_budgets != new.options.thinking_budgets
    {
        Some("thinking")
    } else if old.options.tool_choice != new.options.tool_choice {
        Some("tool_choice")
    } else if old.options.server_tools != new.options.server_tools {
        Some("server_tools")
    } else if old.options.response_format != new.options.response_format {
        Some("response_format")
    } else if old.options.foreign_thinking_as_text != new.options.foreign_thinking_as_text {
        Some("foreign_thinking_as_text")
    } else if old.options.async_tools != new.options.async_tools {
        Some("async_tools")
    } else {
        None
    }
}

/// Returns the first difference in the order in which a cache would read it.
pub(super) fn difference(old: &ModelRequest, new: &ModelRequest, known: Known) -> Option<Difference> {
    let shared = equal_units(&old.history, &new.history);
    let prompt = estimate_tokens(&new.system_prompt);
    let all = || unchanged_tokens(&old.history, &new.history, 0);
    if old.tools != new.tools {
        let (was, is) = (old.tools.definitions(), new.tools.definitions());
        let at = was.iter().zip(is).take_while(|(a, b)| a == b).count();
        let prompt = if same_prompt(old, new) { prompt } else { 0 };
        let field = format!("tools[{at}]");
        let rebilled = all().saturating_add(prompt);
        return Some(Difference { field, message: None, cause: tools(was, is), rebilled });
    }
    if !same_prompt(old, new) {
        let (field, cause) = ("system".to_owned(), CacheBreakCause::SystemPrompt);
        return Some(Difference { field, message: None, cause, rebilled: all() });
    }
    if let Some(name) = setting(old, new) {
        let cause = CacheBreakCause::Setting { name: name.to_owned() };
        return Some(Difference { field: name.to_owned(), message: None, cause, rebilled: all() });
    }
    if shared < old.history.unit_count() {
        let message = new.history.units().take(shared).filter(|u| shown(u)).map(|u| u.entries().len()).sum();
        let cause = if known.compacted {
            CacheBreakCause::Compaction
        } else if known.hooked {
            CacheBreakCause::ContextHook
        } else {
            CacheBreakCause::History
        };
        let rebilled = unchanged_tokens(&old.history, &new.history, shared);
        return Some(Difference {
            field: format!("messages[{message}]"),
            message: Some(message),
            cause,
            rebilled,
        });
    }
    None
}

fn shown(unit: &Unit) -> bool {
    unit.kind() != UnitKind::Failed && unit.first().is_some_and(|m| m.as_llm().is_some())
}

/// Returns the tokens of the units after the first `from` that both histories contain, as the same objects or as
/// copies.
fn unchanged_tokens(old: &History, new: &History, from: usize) -> u64 {
    let mut was: BTreeMap<u64, Vec<&Arc<Unit>>> = BTreeMap::new();
    for unit in old.units().skip(from) {
        was.entry(unit.tokens()).or_default().push(unit);
    }
    let was_sent =
        |unit: &Arc<Unit>| was.get(&unit.tokens()).is_some_and(|w| w.iter().any(|old| is_same(old, unit)));
    let again = new.units().skip(from).filter(|unit| shown(unit) && was_sent(unit));
    again.map(|unit| unit.tokens()).fold(0, u64::saturating_add)
}

/// Returns whether both units have the same content: one object, or a copy such as a run restored from JSON has.
fn is_same(a: &Arc<Unit>, b: &Arc<Unit>) -> bool {
    Arc::ptr_eq(a, b) || a.entries() == b.entries()
}

/// Returns how many units at the start of both histories have the same content.
fn equal_units(old: &History, new: &History) -> usize {
    let shared = new.shared_units(old);
    let rest = old.units().zip(new.units()).skip(shared);
    shared + rest.take_while(|(old, new)| is_same(old, new)).count()
}

/// Returns the tokens of the units with which both histories begin.
pub(super) fn common(old: &History, new: &History) -> u64 {
    let shared = equal_units(old, new);
    new.units().take(shared).filter(|u| shown(u)).map(|u| u.tokens()).fold(0, u64::saturating_add)
}

fn tools(was: &[ToolDefinition], is: &[ToolDefinition]) -> CacheBreakCause {
    let names = |list: &[ToolDefinition]| -> Vec<String> { list.iter().map(|t| t.name.clone()).collect() };
    let (before, after) = (names(was), names(is));
    let added = after.iter().filter(|n| !before.contains(n)).cloned().collect();
    let removed = before.iter().filter(|n| !after.contains(n)).cloned().collect();
    let changed = is.iter().filter(|t| was.iter().any(|w| w.name == t.name && w != *t));
    let stayed = |list: &[String], others: &[String]| -> Vec<String> {
        list.iter().filter(|n| others.contains(n)).cloned().collect()
    };
    CacheBreakCause::Tools {
        added,
        removed,
        changed: changed.map(|t| t.name.clone()).collect(),
        reordered: stayed(&before, &after) != stayed(&after, &before),
    }
}
