//! The tools of a run, or of many: described once, and encoded once for each model that is told of them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::Value;

use super::{AgentTool, ToolConcurrency, ToolDefinition, ToolDefinitions};
use crate::identity::ToolName;

/// Tools, in the order in which a model is told of them. A clone shares them.
///
/// A program with many agents makes one and gives each of them a clone: names, descriptions and schemas are asked for
/// once, and their encoded form is kept for all.
///
/// ```
/// use std::sync::Arc;
/// use agent_core::{Tools, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Zone {
///     name: String,
/// }
///
/// let clock = tool_fn("clock", "Tells the time.", |zone: Zone, _| async move { Ok(format!("noon in {}", zone.name)) });
/// let kit = Tools::from(vec![Arc::new(clock) as _]);
/// assert_eq!(kit.definitions().definitions()[0].name, "clock");
/// assert_eq!(kit.clone().len(), 1);
/// ```
#[derive(Clone)]
pub struct Tools {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    tools: Vec<Arc<dyn AgentTool>>,
    /// Made when a run first asks: a tool may be slow to describe itself, and one that is never run need not.
    ready: OnceLock<Ready>,
}

struct Ready {
    by_name: BTreeMap<String, Arc<dyn AgentTool>>,
    set: ToolDefinitions,
    sequential: BTreeSet<ToolName>,
    duplicate: Option<String>,
}

impl Tools {
    /// How many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.tools.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.tools.is_empty()
    }

    /// The tools, as they were given.
    #[must_use]
    pub fn tools(&self) -> &[Arc<dyn AgentTool>] {
        &self.inner.tools
    }

    /// The same tools and one more. Of two with one name the later wins.
    #[must_use]
    pub fn with(&self, tool: Arc<dyn AgentTool>) -> Self {
        let mut tools = self.inner.tools.clone();
        tools.push(tool);
        Self::from(tools)
    }

    /// These tools, and `tools` after them.
    #[must_use]
    pub fn with_all(&self, tools: impl Into<Self>) -> Self {
        let added = tools.into();
        if self.is_empty() {
            return added;
        }
        let mut tools = self.inner.tools.clone();
        tools.extend(added.tools().iter().cloned());
        Self::from(tools)
    }

    /// The name that more than one tool has.
    #[must_use]
    pub fn duplicate_name(&self) -> Option<&str> {
        self.ready().duplicate.as_deref()
    }

    /// What a model is told.
    #[must_use]
    pub fn definitions(&self) -> &ToolDefinitions {
        &self.ready().set
    }

    /// The tool of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn AgentTool>> {
        self.ready().by_name.get(name)
    }

    /// The schema that a model was told of this tool.
    pub(crate) fn schema(&self, name: &str) -> Option<&Value> {
        self.definitions().definitions().iter().find(|d| d.name == name).map(|d| &d.parameters)
    }

    /// The tools beside which no other may run.
    pub(crate) fn sequential(&self) -> &BTreeSet<ToolName> {
        &self.ready().sequential
    }

    fn ready(&self) -> &Ready {
        self.inner.ready.get_or_init(|| Ready::new(&self.inner.tools))
    }
}

impl Ready {
    fn new(tools: &[Arc<dyn AgentTool>]) -> Self {
        let by_name = tools.iter().map(|t| (t.name().to_owned(), Arc::clone(t))).collect();
        let mut duplicate = None;
        let mut told = BTreeSet::new();
        let mut definitions: Vec<ToolDefinition> = Vec::with_capacity(tools.len());
        for tool in tools.iter().rev() {
            if !told.insert(tool.name()) {
                duplicate = Some(tool.name().to_owned());
            } else {
                let schema = tool.parameters_schema();
                definitions.push(ToolDefinition::new(tool.name(), tool.description(), schema));
            }
        }
        definitions.reverse();
        let sequential = tools.iter().filter(|t| t.concurrency() == ToolConcurrency::Sequential);
        let sequential = sequential.map(|t| t.name().into()).collect();
        Self { by_name, set: definitions.into(), sequential, duplicate }
    }
}

impl Default for Tools {
    /// No tools. One for the process: every agent begins with it.
    fn default() -> Self {
        static NONE: LazyLock<Arc<Inner>> = LazyLock::new(Arc::default);
        Self { inner: Arc::clone(&NONE) }
    }
}

impl From<Vec<Arc<dyn AgentTool>>> for Tools {
    fn from(tools: Vec<Arc<dyn AgentTool>>) -> Self {
        Self { inner: Arc::new(Inner { tools, ready: OnceLock::new() }) }
    }
}

impl FromIterator<Arc<dyn AgentTool>> for Tools {
    fn from_iter<I: IntoIterator<Item = Arc<dyn AgentTool>>>(tools: I) -> Self {
        Self::from(tools.into_iter().collect::<Vec<_>>())
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.inner.tools.iter().map(|t| t.name())).finish()
    }
}
