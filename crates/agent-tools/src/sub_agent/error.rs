//! Why a child gave nothing.

use agent_core::{LoopError, ToolError};

/// Why there is no child, or no end of one.
#[derive(Debug, thiserror::Error)]
pub(super) enum SubAgentError {
    #[error("Missing required 'task' parameter")]
    NoTask,
    #[error("The 'task' parameter is blank; say what is to be done")]
    BlankTask,
    #[error("the sub-agent has no provider to call its model with; give it one by with_provider")]
    NoProvider,
    #[error("the sub-agent could not begin: {0}")]
    Begin(#[from] LoopError),
    #[error("aborted")]
    Aborted,
}

impl SubAgentError {
    /// Converts the error into the one that the loop receives.
    pub(crate) fn into_tool_error(self) -> ToolError {
        match self {
            SubAgentError::NoTask | SubAgentError::BlankTask => ToolError::InvalidArgs(self.to_string()),
            SubAgentError::Aborted => ToolError::Cancelled,
            other => ToolError::failed(other),
        }
    }
}
