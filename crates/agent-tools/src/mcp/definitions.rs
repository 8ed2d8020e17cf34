//! Remembers the definitions of a server's tools, and finds those that changed after they were first listed.
//!
//! A server controls the text that the model and the approver see of a tool. A policy that allows a tool by its name
//! refers to the definition that was listed when the tool was added, so a changed definition needs an approval of its
//! own.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::MAX_TOOLS;
use super::tool::{McpAnnotations, McpToolInfo};

/// The maximum number of tool names of a server whose first definitions are remembered. The tools of further names need
/// an approval.
const MAX_REMEMBERED: usize = 4 * MAX_TOOLS;

/// The maximum number of definitions of one tool that are approved or wait for an approval. The oldest is forgotten.
const MAX_VERSIONS: usize = 16;

/// The definition of a tool in short. Two definitions with the same fingerprint are the same definition: the hashes use
/// random keys of this process, which a server cannot know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint {
    /// Of the server's name for the tool.
    name: u128,
    title: u128,
    description: u128,
    input_schema: u128,
    output_schema: u128,
    annotations: McpAnnotations,
}

/// The state that all adapters of one server share.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    keys: [RandomState; 2],
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the name that the model uses, because policies refer to it.
    tools: BTreeMap<Arc<str>, Versions>,
    /// The most recent list, by the server's names.
    listed: BTreeMap<String, Listed>,
    /// The number of changes that the server had reported when the most recent list was requested.
    listed_at: Option<u64>,
}

/// The definitions of one name.
#[derive(Debug)]
struct Versions {
    first: Fingerprint,
    approved: Vec<Fingerprint>,
    /// Definitions that a question has shown to the approver.
    asked: Vec<Fingerprint>,
}

#[derive(Debug, Clone)]
struct Listed {
    fingerprint: Fingerprint,
    description: Option<Arc<str>>,
}

/// The tool of an adapter: its names and its definition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The name that the model uses.
    pub(super) name: &'a Arc<str>,
    pub(super) info: &'a McpToolInfo,
    pub(super) fingerprint: &'a Fingerprint,
}

impl Definitions {
    pub(super) fn fingerprint(&self, info: &McpToolInfo) -> Fingerprint {
        let text = |text: Option<&str>| self.hash(text.map(str::as_bytes));
        let json =
            |value: Option<&Value>| self.hash(value.map(Value::to_string).as_deref().map(str::as_bytes));
        Fingerprint {
            name: text(Some(&info.name)),
            title: text(info.title.as_deref()),
            description: text(info.description.as_deref()),
            input_schema: json(Some(&info.input_schema)),
            output_schema: json(info.output_schema.as_ref()),
            annotations: info.annotations,
        }
    }

    fn hash(&self, bytes: Option<&[u8]>) -> u128 {
        let [high, low] = &self.keys;
        (u128::from(high.hash_one(bytes)) << 64) | u128::from(low.hash_one(bytes))
    }

    /// Records the definition under which the model first knew a name. Later ones do not replace it.
    pub(super) fn first(&self, name: &Arc<str>, fingerprint: &Fingerprint) {
        let mut state = self.state();
        if state.tools.len() < MAX_REMEMBERED && !state.tools.contains_key(name) {
            let first = fingerprint.clone();
            let versions = Versions { first, approved: Vec::new(), asked: Vec::new() };
            state.tools.insert(Arc::clone(name), versions);
        }
    }

    /// Records a complete list. `changes` is the number of changes that the server had reported before the list was
    /// requested.
    pub(super) fn listed(&self, tools: &[McpToolInfo], changes: u64) {
        let entry = |tool: &McpToolInfo| {
            let description = tool.description.as_deref().map(Arc::from);
            (tool.name.clone(), Listed { fingerprint: self.fingerprint(tool), description })
        };
        let listed = tools.iter().map(entry).collect();
        let mut state = self.state();
        if state.listed_at.is_none_or(|at| at <= changes) {
            state.listed = listed;
            state.listed_at = Some(changes);
        }
    }

    /// Returns whether the most recent list was requested after this many changes.
    pub(super) fn is_current(&self, changes: u64) -> bool {
        self.state().listed_at.is_some_and(|at| at >= changes)
    }

    /// Returns the question for the approver if the tool's present definition is not the first and was not approved.
    pub(super) fn question(&self, server: &str, wanted: Wanted<'_>) -> Option<String> {
        let mut state = self.state();
        let State { tools, listed, .. } = &mut *state;
        let present = listed.get(&wanted.info.name);
        let fingerprint = present.map_or(wanted.fingerprint, |present| &present.fingerprint);
        let versions = tools.get_mut(wanted.name);
        if versions.as_ref().is_some_and(|versions| versions.accepts(fingerprint)) {
            return None;
        }
        let (tool, name) = (&wanted.info.name, wanted.name);
        let what = match versions {
            Some(versions) => {
                remember(&mut versions.asked, fingerprint);
                let differences = fingerprint.differences(&versions.first).join(", ");
                format!("has changed after it was first listed ({differences})")
            }
            None => "was not among the first tools of the server, which lists too many".to_owned(),
        };
        let description = match present {
            Some(present) => present.description.as_deref(),
            None => wanted.info.description.as_deref(),
        };
        let description = Value::from(description.unwrap_or_default());
        Some(format!(
            "The tool `{tool}` ({name}) of the MCP server `{server}` {what}. Its description is now {description}. \
             Approve the tool as it is now, and run this call?"
        ))
    }

    /// Accepts a call of the tool as the server defines it now. Its definition must be the first, one that was approved,
    /// or one that a question has shown: the driver executes such a call only after its approval.
    ///
    /// # Errors
    /// Returns how the tool has changed.
    pub(super) fn admit(&self, wanted: Wanted<'_>) -> Result<(), Changed> {
        let mut state = self.state();
        let State { tools, listed, .. } = &mut *state;
        let present = listed.get(&wanted.info.name);
        let fingerprint = present.map_or(wanted.fingerprint, |present| &present.fingerprint);
        let Some(versions) = tools.get_mut(wanted.name) else {
            return Err(Changed("its first definition is not known".to_owned()));
        };
        if versions.accepts(fingerprint) {
            return Ok(());
        }
        let Some(place) = versions.asked.iter().position(|asked| asked == fingerprint) else {
            return Err(Changed(fingerprint.differences(&versions.first).join(", ")));
        };
        let approved = versions.asked.remove(place);
        remember(&mut versions.approved, &approved);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of a definition that changed.
#[derive(Debug)]
pub(super) struct Changed(pub(super) String);

impl Versions {
    fn accepts(&self, fingerprint: &Fingerprint) -> bool {
        self.first == *fingerprint || self.approved.contains(fingerprint)
    }
}

impl Fingerprint {
    fn differences(&self, first: &Self) -> Vec<&'static str> {
        let parts = [
            (self.name != first.name, "name"),
            (self.title != first.title, "title"),
            (self.description != first.description, "description"),
            (self.input_schema != first.input_schema, "input schema"),
            (self.output_schema != first.output_schema, "output schema"),
            (self.annotations != first.annotations, "annotations"),
        ];
        parts.into_iter().filter_map(|(differs, part)| differs.then_some(part)).collect()
    }
}

/// Adds a definition that is not in the list yet.
fn remember(list: &mut Vec<Fingerprint>, fingerprint: &Fingerprint) {
    if !list.contains(fingerprint) {
        if list.len() >= MAX_VERSIONS {
            list.remove(0);
        }
        list.push(fingerprint.clone());
    }
}
