//! The restrictions that a child loop inherits from the run that starts it.

use super::config::{AgentLoopConfig, Services};
use super::services::RunServices;
use crate::tool::{Confinement, ToolContext, Tools};

/// Whether a child loop inherits the tool gates and the sandbox of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Inheritance {
    /// The policies and `before_tool` hooks of the caller decide about the calls of the child, before its own, and the
    /// tools of the child are confined as those of the caller. This is the default.
    #[default]
    Restricted,
    /// The child has only its own hooks and its tools as they are.
    Independent,
}

impl AgentLoopConfig {
    /// Adds the restrictions of the run that makes the call `ctx` to this configuration of a loop that the call starts: the
    /// policies and `before_tool` hooks run before those of the loop, and the budget, the time limit of a call and the
    /// maximum number of concurrent calls apply unless the loop has its own. The sandboxes of the run's tools, and those that it inherited,
    /// apply to further child loops. Has no effect outside of a run.
    ///
    /// The driver calls it for every [delegated](crate::AgentTool::delegate) call. Call it in a tool that runs a loop by
    /// itself.
    pub fn inherit(&mut self, ctx: &ToolContext) {
        let Some(services) = ctx.services::<RunServices>() else { return };
        let by = services.confinements();
        if !by.is_empty() {
            self.hooks.tool.confinements.splice(0..0, by);
        }
        if self.services.budget.is_none() {
            self.services.budget = services.budget.clone();
        }
        let Some(caller) = services.config.as_ref() else { return };
        self.services.inherit_telemetry(&caller.services);
        let above = &caller.hooks.tool;
        if !above.before.is_empty() {
            let own = &mut self.hooks.tool;
            own.before.splice(0..0, above.before.iter().cloned());
            own.policies.splice(0..0, above.policies.iter().cloned());
        }
        let policy = &caller.policy;
        if self.policy.tool_timeout.is_none() && policy.tool_timeout.is_some() {
            self.policy.tool_timeout = policy.tool_timeout;
        }
        if self.policy.max_concurrent_tools.is_none() && policy.max_concurrent_tools.is_some() {
            self.policy.max_concurrent_tools = policy.max_concurrent_tools;
        }
    }
}

impl Services {
    /// Takes the connection to the tracing system from `caller`, unless there is one.
    pub(super) fn inherit_telemetry(&mut self, caller: &Self) {
        if self.telemetry.is_none() {
            self.telemetry.clone_from(&caller.telemetry);
        }
    }
}

impl RunServices {
    /// Returns what confines the tools of the run and those of its callers.
    fn confinements(&self) -> Vec<Confinement> {
        let inherited = self.config.iter().flat_map(|config| &config.hooks.tool.confinements).cloned();
        inherited.chain(self.tools.tools().iter().filter_map(|tool| tool.confinement())).collect()
    }
}

impl Tools {
    /// Returns these tools under the restrictions of the tools of the run that makes the call `ctx`, such as their sandbox,
    /// and of those that this run inherited. Returns them unchanged if there are none.
    #[must_use]
    pub fn confined_by(self, ctx: &ToolContext) -> Self {
        let Some(services) = ctx.services::<RunServices>() else { return self };
        let by = services.confinements();
        let changed: Vec<_> = self.tools().iter().map(|tool| tool.confined(&by)).collect();
        if by.is_empty() || changed.iter().all(Option::is_none) {
            return self;
        }
        let tools =
            self.tools().iter().zip(changed).map(|(tool, confined)| confined.unwrap_or_else(|| tool.clone()));
        tools.collect()
    }
}
