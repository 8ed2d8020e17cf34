//! A tool that delegates its calls to a sub-agent.

use std::sync::Arc;

use agent_core::drive::Delegation;
use agent_core::run::ChildEnd;
use agent_core::testing::ScriptedTool;
use agent_core::tool::{ChildRun, Tools};
use agent_core::{
    AgentLoopConfig, AgentMessage, AgentTool, Effects, ModelConfig, ToolContext, ToolError, ToolResult,
};
use async_trait::async_trait;
use serde_json::{Value, json};

/// The sub-agent has a tool that must run once.
#[derive(Clone)]
pub(crate) struct Helper(ScriptedTool);

impl Helper {
    pub(crate) fn new() -> Self {
        Self(ScriptedTool::saying("send", "sent").with_effects(Effects::Once))
    }
}

#[async_trait]
impl AgentTool for Helper {
    fn name(&self) -> &str {
        "helper"
    }

    fn description(&self) -> &str {
        "Helps."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn delegate(&self, _: &Value) -> Option<ChildRun> {
        let tool: Arc<dyn AgentTool> = Arc::new(self.0.clone());
        let child = ChildRun::new(vec![AgentMessage::user("Help.")], self.clone());
        Some(child.with_tools(Tools::from(vec![tool])))
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        Err(ToolError::Failed("the driver runs the sub-agent".to_owned()))
    }
}

#[async_trait]
impl Delegation for Helper {
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
        let provider = ctx.provider().ok_or_else(|| ToolError::Failed("no provider".to_owned()))?;
        let model = ModelConfig::default();
        let mut config = AgentLoopConfig::new(Arc::clone(provider), model, Arc::clone(&ctx.environment));
        config.services.journal = ctx.journal().cloned();
        Ok(config)
    }

    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text(format!("{} turns", end.turns)).with_usage(end.usage))
    }
}
