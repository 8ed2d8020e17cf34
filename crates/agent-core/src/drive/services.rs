//! The services that a run offers to its tools: its model provider, its journal and its budget.

use std::sync::Arc;

use super::config::AgentLoopConfig;
use crate::budget::Budget;
use crate::journal::Journal;
use crate::limits::ExecutionLimits;
use crate::provider::StreamProvider;
use crate::tool::{FileAccess, ToolContext, ToolServices, Tools};

/// The services of the run that executes a tool call.
///
/// Tools read them through [`ToolContext::provider`], [`ToolContext::journal`] and [`ToolContext::budget`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RunServices {
    /// The provider of the run, for tools that call a model.
    pub provider: Option<Arc<dyn StreamProvider>>,
    /// The journal of the run, for tools that run a loop: the nested loop is recorded in the same journal.
    pub journal: Option<Arc<dyn Journal>>,
    /// The budget account of this call, a child of the run's account.
    pub budget: Option<Budget>,
    /// The configuration of the run.
    pub(crate) config: Option<Arc<AgentLoopConfig>>,
    /// The tools of the run.
    pub(crate) tools: Tools,
}

impl ToolServices for RunServices {}

impl ToolContext {
    /// Returns the provider of the run, for tools that call a model. `None` outside of a run.
    #[must_use]
    pub fn provider(&self) -> Option<&Arc<dyn StreamProvider>> {
        self.services::<RunServices>()?.provider.as_ref()
    }

    /// Returns the journal of the run, for tools that run a loop of their own. `None` if the run is not journaled.
    #[must_use]
    pub fn journal(&self) -> Option<&Arc<dyn Journal>> {
        self.services::<RunServices>()?.journal.as_ref()
    }

    /// Returns the budget account of this call, a child of the run's account. `None` if the run has no budget.
    ///
    /// A tool that calls a model does so through [`Budget::meter`]; a tool that runs a loop gives the account to that
    /// loop.
    #[must_use]
    pub fn budget(&self) -> Option<&Budget> {
        self.services::<RunServices>()?.budget.as_ref()
    }

    /// Returns the limits of the run that makes the call. `None` outside of a run, and for a run without limits.
    #[must_use]
    pub fn limits(&self) -> Option<ExecutionLimits> {
        self.services::<RunServices>()?.config.as_ref()?.policy.limits
    }

    /// Returns the reason for which a policy of the run denies this access to the file at `path`, or `None` if none does.
    ///
    /// A file tool calls it with the path that it opens, and a search for each file that it finds. `path` is resolved and
    /// relative to the root of the tool's files, with `/` as the separator. A policy denies it if a rule about the argument
    /// `path` denies a call of this tool, or, for reading, a call of `read_file`. A rule that asks about it denies it, too,
    /// unless the question was about this call. Hooks that are not a [`ToolPolicy`](crate::ToolPolicy) are not called.
    #[must_use]
    pub fn denies_file(&self, path: &str, access: FileAccess) -> Option<String> {
        let config = self.services::<RunServices>()?.config.as_ref()?;
        config.hooks.tool.policies.iter().find_map(|policy| policy.denies_file(&self.tool_name, path, access))
    }

    /// Replaces the provider that [`provider`](Self::provider) returns. The other services stay as they are.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn StreamProvider>) -> Self {
        let services = self.services::<RunServices>().cloned().unwrap_or_default();
        self.services = Some(Arc::new(RunServices { provider: Some(provider), ..services }));
        self
    }
}
