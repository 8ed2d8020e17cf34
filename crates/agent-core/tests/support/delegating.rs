//! A tool whose calls are delegated.

use std::sync::Arc;

use agent_core::drive::Delegation;
use agent_core::run::ChildEnd;
use agent_core::testing::{ScriptedProvider, ScriptedTool};
use agent_core::tool::{ChildRun, Tools};
use agent_core::{
    AgentLoopConfig, AgentMessage, AgentTool, Message, ModelConfig, ToolContext, ToolError, ToolResult,
};
use async_trait::async_trait;
use serde_json::{Value, json};

/// A tool that gives each call to a helper with one tool.
#[derive(Clone)]
pub(crate) struct Helper {
    pub(crate) model: ScriptedProvider,
    pub(crate) tool: ScriptedTool,
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
        let tool: Arc<dyn AgentTool> = Arc::new(self.tool.clone());
        Some(
            ChildRun::new(vec![AgentMessage::user("task")], self.clone()).with_tools(Tools::from(vec![tool])),
        )
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        unreachable!("the driver runs the child")
    }
}

#[async_trait]
impl Delegation for Helper {
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
        let model = Arc::new(self.model.clone());
        Ok(AgentLoopConfig::new(model, ModelConfig::default(), ctx.environment.clone()))
    }

    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError> {
        let texts: Vec<String> = end.history.llm_messages().map(Message::text).collect();
        Ok(ToolResult::text(texts.join(" | ")))
    }
}
