//! The tool with which a model saves its conversation.

use std::path::{Path, PathBuf};

use agent_core::{AgentTool, BasicAgent, Effects, ToolContext, ToolError, ToolResult, WeakAgent};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::SaveContext;

/// The tool `save_session_context`, which writes the conversation of its agent to a file. The program chooses the path,
/// the model cannot.
#[derive(Debug, Clone)]
pub struct SaveContextTool {
    agent: WeakAgent,
    path: PathBuf,
}

impl SaveContextTool {
    /// Creates the tool for an agent and the path of the file.
    #[must_use]
    pub fn new(agent: &BasicAgent, path: impl AsRef<Path>) -> Self {
        Self { agent: agent.downgrade(), path: path.as_ref().to_owned() }
    }
}

#[async_trait]
impl AgentTool for SaveContextTool {
    fn name(&self) -> &'static str {
        "save_session_context"
    }

    fn description(&self) -> &'static str {
        "Save the conversation so far, so that it can be continued later."
    }

    fn parameters_schema(&self) -> Value {
        json!({ "type": "object", "properties": {}, "additionalProperties": false })
    }

    async fn execute(&self, _arguments: Value, _ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let agent = self.agent.upgrade().ok_or_else(|| ToolError::Failed("the agent is gone".to_owned()))?;
        agent.save_context(&self.path).map_err(|e| ToolError::Failed(e.to_string()))?;
        let count = agent.messages().len();
        Ok(ToolResult::text(format!("Saved {count} messages.")))
    }

    fn effects(&self, _arguments: &Value) -> Effects {
        Effects::Idempotent
    }
}
