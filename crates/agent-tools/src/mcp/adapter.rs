//! Wraps a tool of a server as a tool of an agent.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use agent_core::{AgentTool, Effects, ToolContext, ToolError, ToolLoading, ToolResult};
use async_trait::async_trait;
use serde_json::Value;

use super::arguments::Arguments;
use super::client::{Call, McpClient};
use super::definitions::{Fingerprint, Wanted};
use super::error::McpError;
use super::result::tool_result;
use super::server::AnnotationTrust;
use super::tool::McpToolInfo;
use crate::names::tool_name;

/// The description of a tool without a description from its server.
const NO_DESCRIPTION: &str = "MCP tool (no description)";

/// A tool of an MCP server that an agent can call. The server keeps running as long as the tool exists.
#[derive(Clone)]
pub struct McpToolAdapter {
    client: McpClient,
    info: Arc<McpToolInfo>,
    name: Arc<str>,
    arguments: Arc<Arguments>,
    fingerprint: Arc<Fingerprint>,
}

impl McpToolAdapter {
    /// Wraps a tool of this server. The model calls it by `name`, which may differ from the server's name for it.
    ///
    /// The first definition that is wrapped under a name is the one that policies refer to. If the server later lists a
    /// different definition, the calls of the tool need an approval.
    #[must_use]
    pub fn new(client: McpClient, info: McpToolInfo, name: impl Into<Arc<str>>) -> Self {
        let arguments = Arc::new(Arguments::new(&info.input_schema));
        let name = name.into();
        let fingerprint = Arc::new(client.definitions().fingerprint(&info));
        client.definitions().first(&name, &fingerprint);
        Self { client, info: Arc::new(info), name, arguments, fingerprint }
    }

    /// Lists the tools of this server and wraps each one. The names have the prefix of the
    /// [`McpServer`](super::McpServer).
    ///
    /// # Errors
    /// Returns the error of [`McpClient::list_tools`].
    pub async fn from_client(client: &McpClient) -> Result<Vec<Self>, McpError> {
        let list = client.list_tools().await?;
        Ok(Self::named(client, list.tools, &mut BTreeSet::new()))
    }

    /// Wraps the tools that the server's configuration selects, with names that are not in `taken`, and adds the names
    /// to it.
    pub(super) fn named(
        client: &McpClient,
        tools: Vec<McpToolInfo>,
        taken: &mut BTreeSet<String>,
    ) -> Vec<Self> {
        let server = client.server();
        let is_wanted =
            |tool: &McpToolInfo| server.only.as_ref().is_none_or(|only| only.contains(&tool.name));
        let wanted = tools.into_iter().filter(is_wanted);
        wanted
            .map(|tool| {
                let name = tool_name(server.prefix.as_deref(), &tool.name, taken);
                taken.insert(name.clone());
                Self::new(client.clone(), tool, name)
            })
            .collect()
    }

    /// Returns the client of the server.
    #[must_use]
    pub fn client(&self) -> &McpClient {
        &self.client
    }

    /// Returns the server's description of the tool, with the server's names for the tool and its arguments.
    #[must_use]
    pub fn info(&self) -> &McpToolInfo {
        &self.info
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted { name: &self.name, info: &self.info, fingerprint: &self.fingerprint }
    }

    /// Returns whether the definitions for the model are equal.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.info == other.info
    }
}

#[async_trait]
impl AgentTool for McpToolAdapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self) -> &str {
        self.info.title.as_deref().unwrap_or(&self.info.name)
    }

    fn description(&self) -> &str {
        self.info.description.as_deref().unwrap_or(NO_DESCRIPTION)
    }

    fn parameters_schema(&self) -> Value {
        self.arguments.schema(&self.info.input_schema).clone()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let effects = self.effects(&arguments);
        let updates = ctx.clone();
        let mut on_progress = move |progress: super::McpProgress| updates.on_progress(progress.to_string());
        let call = Call {
            name: &self.info.name,
            arguments: self.arguments.for_server(arguments),
            effects,
            wanted: Some(self.wanted()),
            cancel: &ctx.cancel,
            trace: ctx.trace.as_deref(),
            on_progress: &mut on_progress,
        };
        let result = self.client.call(call).await.map_err(McpError::into_tool_error)?;
        Ok(tool_result(result, self.client.server().store.as_ref()).await)
    }

    fn effects(&self, _: &Value) -> Effects {
        match self.client.server().annotations {
            AnnotationTrust::Believed => self.info.annotations.effects(),
            AnnotationTrust::Ignored => Effects::Once,
        }
    }

    fn loading(&self) -> ToolLoading {
        self.client.server().loading
    }

    fn question(&self, _: &Value) -> Option<String> {
        self.client.definitions().question(self.client.name(), self.wanted())
    }
}

impl fmt::Debug for McpToolAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpToolAdapter")
            .field("name", &self.name)
            .field("server", &self.client.name())
            .field("tool", &self.info.name)
            .finish()
    }
}
