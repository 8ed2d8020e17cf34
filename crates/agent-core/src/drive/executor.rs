//! The tools of a run, ready to be called.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::tool::{AgentTool, ToolDefinition, ToolSet};

/// How long an aborted tool may take to end before it is left behind (D2).
pub const GRACE: Duration = Duration::from_millis(500);

/// A run's tools by name, and what the model is told of them.
#[derive(Clone, Default)]
pub(crate) struct Tools {
    by_name: Arc<BTreeMap<String, Arc<dyn AgentTool>>>,
    pub(crate) set: ToolSet,
}

impl Tools {
    /// The tools; of two with one name the later wins.
    pub(crate) fn new(tools: &[Arc<dyn AgentTool>]) -> Self {
        let by_name: BTreeMap<String, Arc<dyn AgentTool>> =
            tools.iter().map(|t| (t.name().to_owned(), Arc::clone(t))).collect();
        let mut told = std::collections::BTreeSet::new();
        let mut definitions: Vec<ToolDefinition> = Vec::with_capacity(tools.len());
        for tool in tools.iter().rev() {
            if told.insert(tool.name()) {
                definitions.push(ToolDefinition::new(
                    tool.name(),
                    tool.description(),
                    tool.parameters_schema(),
                ));
            }
        }
        definitions.reverse();
        Self { by_name: Arc::new(by_name), set: definitions.into() }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn AgentTool>> {
        self.by_name.get(name)
    }

    /// The schema that the model was told.
    pub(crate) fn schema(&self, name: &str) -> Option<&serde_json::Value> {
        self.set.definitions().iter().find(|d| d.name == name).map(|d| &d.parameters)
    }
}
