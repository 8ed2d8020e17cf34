//! The options of MCP servers to which the vendor connects.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::list;
use crate::model::Secret;
use crate::model::config::without_credentials;

/// An MCP server to which the vendor connects.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Mcp {
    /// A name of the server, unique in the request.
    pub label: String,
    /// The address of the server.
    pub url: String,
    /// The access token that the vendor sends to the server. It is not part of the serialized form.
    #[serde(skip)]
    pub authorization: Option<Secret>,
    /// The names of the tools that the model may call. Empty allows all. Anthropic and OpenAI have it.
    #[serde(default)]
    pub allowed_tools: Vec<String>,
    /// Whether calls wait for an approval. Only OpenAI has it.
    #[serde(default)]
    pub approval: McpApproval,
}

/// Whether a call of an MCP tool waits for an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum McpApproval {
    /// The vendor calls the tools at once. This is the default.
    #[default]
    Never,
    /// The vendor asks before each call. The run cannot answer such a request, so the vendor makes no call.
    Always,
}

impl Mcp {
    /// Creates a server with a name that is unique in the request, and its address.
    #[must_use]
    pub fn new(label: impl Into<String>, url: impl Into<String>) -> Self {
        Self { label: label.into(), url: url.into(), ..Self::default() }
    }

    /// Sets the access token that the vendor sends to the server.
    #[must_use]
    pub fn with_authorization(mut self, token: impl Into<Secret>) -> Self {
        self.authorization = Some(token.into());
        self
    }

    /// Sets the only tools that the model may call.
    #[must_use]
    pub fn with_allowed_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.allowed_tools = list(names);
        self
    }

    /// Sets whether calls wait for an approval.
    #[must_use]
    pub fn with_approval(mut self, approval: McpApproval) -> Self {
        self.approval = approval;
        self
    }
}

/// Hides the token, and the parts of the address that may contain a credential.
impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp")
            .field("label", &self.label)
            .field("url", &without_credentials(&self.url))
            .field("authorization", &self.authorization)
            .field("allowed_tools", &self.allowed_tools)
            .field("approval", &self.approval)
            .finish()
    }
}
