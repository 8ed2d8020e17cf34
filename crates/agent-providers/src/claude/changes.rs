//! Changes of the system prompt and the tools that a request appends to the conversation, for both protocols.
//!
//! The conversation records the instructions of its loops. A request begins with the first recorded ones, and each later
//! difference becomes a message of the role `system`. The API accepts such a message behind a message of the user, if a reply
//! or nothing follows it; a change at another place is written at the next such place.

use std::borrow::Cow;

use agent_core::ModelRequest;
use agent_core::provider::{Instructions, RecordedTool};

use crate::json;

/// The beginnings of the ids of the models for which the vendor documents system messages within a conversation.
const MODELS: &[&str] = &[
    "claude-fable-5",
    "claude-mythos-5",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
];

/// The text before a system prompt that replaces an earlier one.
const REPLACED: &str = "The system prompt has changed. From now on, only this one applies:\n\n";

/// The text after a system prompt was removed.
const REMOVED: &str = "The system prompt at the beginning of this conversation no longer applies.";

/// Returns whether the vendor documents system messages within a conversation for a model.
pub(crate) fn takes_system_messages(id: &str) -> bool {
    // Bedrock has a region and the vendor before the name.
    let name = id.find("claude-").and_then(|at| id.get(at..)).unwrap_or_default();
    MODELS.iter().any(|model| name.starts_with(model))
}

/// A difference between two recorded instructions.
#[derive(Debug, PartialEq)]
pub(crate) struct Change<'r> {
    /// The position of the note among the units of the history.
    pub(crate) unit: usize,
    /// The text for the model, if the system prompt changed.
    pub(crate) text: Option<Cow<'r, str>>,
    /// The new tools, and those whose definition changed.
    pub(crate) added: Vec<RecordedTool<'r>>,
    /// The names of the removed tools.
    pub(crate) removed: Vec<&'r str>,
}

impl<'r> Change<'r> {
    fn between(old: &Instructions<'r>, new: &Instructions<'r>) -> Option<Self> {
        let text = (old.system_prompt != new.system_prompt)
            .then(|| prompt_change(old.system_prompt, new.system_prompt))
            .filter(|text| !text.trim().is_empty());
        let has = |list: &Instructions<'r>, name: &str| list.tools().any(|tool| tool.name == name);
        let added = new.tools().filter(|tool| !old.tools().any(|known| known == *tool)).collect();
        let removed = old.tools().map(|tool| tool.name).filter(|name| !has(new, name)).collect();
        let change = Self { unit: new.unit, text, added, removed };
        let is_empty = change.text.is_none() && !change.has_tools();
        (!is_empty).then_some(change)
    }

    /// Returns whether the change is about tools.
    pub(crate) fn has_tools(&self) -> bool {
        !self.added.is_empty() || !self.removed.is_empty()
    }
}

/// Returns the text about a changed system prompt: what was added at its end, or all of it.
fn prompt_change<'r>(old: &str, new: &'r str) -> Cow<'r, str> {
    match new.strip_prefix(old) {
        Some(more) => Cow::Borrowed(more.trim_start()),
        None if new.trim().is_empty() => Cow::Borrowed(REMOVED),
        None => Cow::Owned([REPLACED, new].concat()),
    }
}

/// A request that begins with the first recorded instructions, and the changes of them.
#[derive(Debug)]
pub(crate) struct Changed<'r> {
    /// The request with the system prompt and the tools that it begins with.
    pub(crate) first: Box<ModelRequest>,
    /// The changes, oldest first. Empty if only the order of the tools differs.
    pub(crate) changes: Vec<Change<'r>>,
}

impl<'r> Changed<'r> {
    /// Returns the changes that a request appends, or `None` if it appends none. `takes` returns whether the API can express a
    /// change of these first instructions; the request begins anew after one that it cannot.
    pub(crate) fn of(
        request: &'r ModelRequest,
        takes: impl Fn(&Instructions<'r>, &Change<'r>) -> bool,
    ) -> Option<Self> {
        let recorded = request.recorded_instructions();
        let mut first = recorded.first()?;
        let mut changes = Vec::new();
        for (old, new) in recorded.iter().zip(recorded.iter().skip(1)) {
            let Some(change) = Change::between(old, new) else { continue };
            if takes(first, &change) {
                changes.push(change);
            } else {
                first = new;
                changes.clear();
            }
        }
        if first.unit == recorded.last()?.unit {
            return None;
        }
        let mut begins = Box::new(request.clone());
        begins.system_prompt = first.system_prompt.into();
        begins.tools = first.tools().map(|tool| tool.definition()).collect();
        Some(Self { first: begins, changes })
    }
}

/// Places the changes among the messages.
pub(crate) struct Places<'c, 'r> {
    left: &'c [Change<'r>],
    pending: Vec<&'c Change<'r>>,
}

impl<'c, 'r> Places<'c, 'r> {
    /// Creates the places of these changes.
    pub(crate) fn new(changes: &'c [Change<'r>]) -> Self {
        Self { left: changes, pending: Vec::new() }
    }

    /// Makes the changes up to the unit at this position due.
    pub(crate) fn reach(&mut self, unit: usize) {
        while let Some((change, rest)) = self.left.split_first().filter(|(change, _)| change.unit <= unit) {
            self.pending.push(change);
            self.left = rest;
        }
    }

    /// Returns the changes to write here. Call it before a reply and at the end of the conversation.
    pub(crate) fn take(&mut self, follows_user: bool) -> Vec<&'c Change<'r>> {
        if follows_user { std::mem::take(&mut self.pending) } else { Vec::new() }
    }
}

/// Writes a system message with these changes. `text`, `added` and `removed` write one block each.
pub(crate) fn write(
    out: &mut Vec<u8>,
    changes: &[&Change<'_>],
    text: &'static [u8],
    added: impl Fn(&mut Vec<u8>, &RecordedTool<'_>),
    removed: impl Fn(&mut Vec<u8>, &str),
) {
    out.extend_from_slice(br#"{"role":"system","content":["#);
    let start = out.len();
    let next = |out: &mut Vec<u8>| {
        if out.len() > start {
            out.push(b',');
        }
    };
    for change in changes {
        if let Some(content) = &change.text {
            next(out);
            out.extend_from_slice(text);
            json::write(out, &**content);
            out.push(b'}');
        }
        for name in &change.removed {
            next(out);
            removed(out, name);
        }
        for tool in &change.added {
            next(out);
            added(out, tool);
        }
    }
    out.extend_from_slice(b"]}");
}
