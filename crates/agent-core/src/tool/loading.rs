//! When the model receives the definition of a tool, and how it finds the others.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AgentTool, ChildRun, Confinement, Effects, ToolCallers, ToolConcurrency, ToolContext, ToolError,
    ToolResult, Tools,
};

/// When the model receives the definition of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolLoading {
    /// With every request. This is the default.
    #[default]
    Always,
    /// After the model has searched for it; see [`Tools::deferred`].
    Deferred,
}

impl ToolLoading {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
    pub(super) fn is_always(&self) -> bool {
        *self == Self::Always
    }
}

/// How a model finds deferred tools, which depends on the provider; see
/// [`StreamProvider::tool_search`](crate::StreamProvider::tool_search).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolSearchForm {
    /// The model calls the agent's tool `tool_search`, and later requests list the found tools at the end. This is the
    /// default and needs nothing from the vendor.
    #[default]
    Listed,
    /// The model calls the agent's tool `tool_search`, and the vendor loads the definitions from its result. The list of
    /// tools does not change.
    FromResults,
    /// The vendor searches. A request contains all definitions, and the vendor shows the model those that it finds.
    Vendor,
}

/// Which of the tools that are marked as [deferred](Tools::deferred) are deferred in a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeferTools {
    /// All marked tools are deferred. This is the default.
    #[default]
    Marked,
    /// The marked tools are deferred if their definitions together have more than this number of estimated tokens.
    Above {
        /// The number of tokens up to which all definitions are sent.
        tokens: u64,
    },
    /// No tool is deferred.
    Never,
}

impl DeferTools {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Tools {
    /// Returns these tools, marked as deferred: the model receives the definition of a tool after it has searched for it.
    ///
    /// Use it for large sets, such as those of MCP servers. An agent with a deferred tool has the tool `tool_search`, or the
    /// vendor's own search. The policy of the loop can limit the effect; see [`DeferTools`].
    #[must_use]
    pub fn deferred(&self) -> Self {
        self.deferred_except::<&str>([])
    }

    /// Returns these tools, marked as [deferred](Self::deferred) except those with the given names.
    #[must_use]
    pub fn deferred_except<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<N> = names.into_iter().collect();
        let stays = |tool: &Arc<dyn AgentTool>| {
            tool.loading() == ToolLoading::Deferred || names.iter().any(|name| name.as_ref() == tool.name())
        };
        let mark = |tool: &Arc<dyn AgentTool>| {
            if stays(tool) { Arc::clone(tool) } else { Arc::new(DeferredTool(Arc::clone(tool))) }
        };
        self.tools().iter().map(mark).collect()
    }
}

/// A tool that is marked as deferred.
struct DeferredTool(Arc<dyn AgentTool>);

#[async_trait]
impl AgentTool for DeferredTool {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn label(&self) -> &str {
        self.0.label()
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    fn parameters_schema(&self) -> Value {
        self.0.parameters_schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        self.0.execute(arguments, ctx).await
    }

    fn effects(&self, arguments: &Value) -> Effects {
        self.0.effects(arguments)
    }

    fn question(&self, arguments: &Value) -> Option<String> {
        self.0.question(arguments)
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.0.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.0.resolved_arguments(arguments)
    }

    fn confinement(&self) -> Option<Confinement> {
        self.0.confinement()
    }

    fn confined(&self, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
        self.0.confined(by).map(|tool| Arc::new(Self(tool)) as Arc<dyn AgentTool>)
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.timeout()
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.0.concurrency()
    }

    fn loading(&self) -> ToolLoading {
        ToolLoading::Deferred
    }

    fn callers(&self) -> ToolCallers {
        self.0.callers()
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        self.0.prepare_arguments(arguments)
    }

    fn delegate(&self, arguments: &Value) -> Option<ChildRun> {
        self.0.delegate(arguments)
    }
}
