//! The agents of a service: a factory makes one for each conversation.
//!
//! ```
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_serve::{AgentFactory, ConversationRef};
//!
//! fn is_factory(_: &dyn AgentFactory) {}
//! is_factory(&|_: &ConversationRef| BasicAgent::new(ModelConfig::default()));
//! ```

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use agent_core::{BasicAgent, SessionId};
use async_trait::async_trait;

/// An error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The conversation that an agent is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversationRef {
    /// The id of the conversation, which is that of its session.
    pub id: SessionId,
    /// The name of the key that made the conversation; `local` if the service has no keys.
    pub key: Arc<str>,
    /// The name of the agent.
    pub agent: Arc<str>,
}

/// Makes the agent of a conversation: for a new one, and each time one is loaded from the store again.
///
/// The agent needs a model, a provider, and the tools, hooks and routes with which open runs of its conversations started. The
/// service gives it the session, the journal and the budget. A closure `Fn(&ConversationRef) -> BasicAgent` is a factory, too.
#[async_trait]
pub trait AgentFactory: Send + Sync {
    /// Makes an agent without a conversation.
    ///
    /// # Errors
    /// Any error. The request is answered with 503, and the error is logged and not shown to the client.
    async fn make(&self, conversation: &ConversationRef) -> Result<ServedAgent, BoxError>;
}

#[async_trait]
impl<F> AgentFactory for F
where
    F: Fn(&ConversationRef) -> BasicAgent + Send + Sync,
{
    async fn make(&self, conversation: &ConversationRef) -> Result<ServedAgent, BoxError> {
        Ok(self(conversation).into())
    }
}

/// An agent with what belongs to it.
#[must_use]
pub struct ServedAgent {
    pub(crate) agent: BasicAgent,
    #[cfg(feature = "files")]
    pub(crate) workspace: Option<agent_tools::Workspace>,
    pub(crate) companion: Option<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for ServedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedAgent").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl From<BasicAgent> for ServedAgent {
    fn from(agent: BasicAgent) -> Self {
        Self {
            agent,
            #[cfg(feature = "files")]
            workspace: None,
            companion: None,
        }
    }
}

impl ServedAgent {
    /// Sets the folder whose files the client can list, read and write. Default: none, and the routes of files answer with 404.
    #[cfg(feature = "files")]
    #[cfg_attr(docsrs, doc(cfg(feature = "files")))]
    pub fn with_workspace(mut self, workspace: agent_tools::Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Keeps a value until the conversation is released, for example the MCP servers of the agent's tools.
    pub fn with_companion(mut self, value: impl Any + Send + Sync) -> Self {
        self.companion = Some(Box::new(value));
        self
    }
}
