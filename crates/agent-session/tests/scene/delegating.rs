//! A tool that starts a sub-agent.

use std::sync::Arc;

use agent_core::drive::Delegation;
use agent_core::run::ChildEnd;
use agent_core::testing::{ScriptedProvider, ScriptedTool};
use agent_core::tool::ChildRun;
use agent_core::{AgentLoopConfig, AgentMessage, AgentTool, ModelConfig, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::{Value, json};

/// A tool that delegates each call to a sub-agent, which answers with a text or asks first.
#[derive(Clone)]
pub(crate) struct Delegating(pub(crate) ScriptedProvider, pub(crate) Option<ScriptedTool>);

#[async_trait]
impl AgentTool for Delegating {
    fn name(&self) -> &str {
        "delegate"
    }

    fn description(&self) -> &str {
        "Delegates."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn delegate(&self, _: &Value) -> Option<ChildRun> {
        let run = ChildRun::new(vec![AgentMessage::user("task")], self.clone());
        Some(match &self.1 {
            Some(tool) => run.with_tools(agent_core::tool::Tools::from(vec![
                Arc::new(tool.clone()) as Arc<dyn AgentTool>
            ])),
            None => run,
        })
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        unreachable!("the driver runs the child")
    }
}

#[async_trait]
impl Delegation for Delegating {
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
        let provider = Arc::new(self.0.clone());
        let mut config = AgentLoopConfig::new(provider, ModelConfig::default(), ctx.environment.clone());
        config.services.journal = ctx.journal().cloned();
        Ok(config)
    }

    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text("delegated").with_child_loop(end.loop_id.clone()))
    }
}
