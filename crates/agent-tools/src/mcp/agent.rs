//! Adds the tools of servers to an agent and updates them when a server reports changes.

use agent_core::compat::SeedVerbs as _;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use agent_core::{AgentTool, BasicAgent, WeakAgent};
use tokio::sync::watch;

use super::adapter::McpToolAdapter;
use super::client::WeakMcpClient;
use super::error::McpError;
use super::server::McpServer;
use super::servers::{McpServers, Running};
use super::tool::McpToolInfo;

/// Builder methods that add the tools of MCP servers to an agent.
///
/// The tools are appended to the agent's tools. When a server reports that its tools have changed, or has other tools
/// after a restart, the agent's next run uses the new ones; a run that has started keeps its tools. A server ends when
/// the last agent or client that uses it is dropped.
pub trait WithMcp: Sized {
    /// Starts a server program as a child process and adds its tools.
    ///
    /// # Errors
    /// Returns an error if the server cannot be started or initialized, or if its tools cannot be listed.
    fn with_mcp_server_stdio<A, K, V>(
        self,
        command: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
        env: impl IntoIterator<Item = (K, V)>,
    ) -> impl Future<Output = Result<Self, McpError>> + Send
    where
        A: Into<OsString>,
        K: Into<OsString>,
        V: Into<OsString>,
    {
        self.with_mcp_server(McpServer::of_command(command, args, env))
    }

    /// Adds the tools of a server over streamable HTTP.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached or initialized, or if its tools cannot be listed.
    fn with_mcp_server_http(
        self,
        url: impl Into<String>,
    ) -> impl Future<Output = Result<Self, McpError>> + Send {
        self.with_mcp_server(McpServer::of_url(url))
    }

    /// Starts or connects to one server and adds its tools, with the prefix and the limits of `server`.
    ///
    /// # Errors
    /// Returns an error if the server cannot be started, reached or initialized, or if its tools cannot be listed.
    fn with_mcp_server(self, server: McpServer) -> impl Future<Output = Result<Self, McpError>> + Send;

    /// Adds the tools of servers that were started before. Several agents can share the servers.
    #[must_use]
    fn with_mcp_servers(self, servers: &McpServers) -> Self;
}

impl WithMcp for BasicAgent {
    async fn with_mcp_server(self, server: McpServer) -> Result<Self, McpError> {
        attach(&self, Running::start(server).await?);
        Ok(self)
    }

    fn with_mcp_servers(self, servers: &McpServers) -> Self {
        for running in &servers.running {
            attach(&self, running.clone());
        }
        self
    }
}

fn attach(agent: &BasicAgent, running: Running) {
    let Running { client, tools, changes } = running;
    let mut put = Vec::new();
    agent.change_tools(|all| {
        let mut taken = all.iter().map(|tool| tool.name().to_owned()).collect();
        for adapter in McpToolAdapter::named(&client, tools.tools, &mut taken) {
            let adapter = Arc::new(adapter);
            put.push(Arc::downgrade(&adapter));
            all.push(adapter);
        }
    });
    let watch = Watch { agent: agent.downgrade(), client: client.downgrade(), put };
    // A server can only be started inside of a runtime, so there is one.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(watch.follow(changes)));
    }
}

/// Keeps an agent's tools of one server up to date. It keeps neither of them alive.
struct Watch {
    agent: WeakAgent,
    client: WeakMcpClient,
    put: Vec<Weak<McpToolAdapter>>,
}

impl Watch {
    /// Follows changes until the server's last handle or the agent is dropped, or the tools were removed from the agent.
    async fn follow(mut self, mut changes: watch::Receiver<u64>) {
        while changes.changed().await.is_ok() {
            if self.refresh().await.is_break() {
                return;
            }
        }
    }

    /// Lists the tools again and replaces those of the agent that changed. Breaks if there is nothing left to update.
    async fn refresh(&mut self) -> ControlFlow<()> {
        let Some(client) = self.client.upgrade() else { return ControlFlow::Break(()) };
        // If the list fails, the tools stay as they are; a server that reconnects triggers another refresh.
        let Ok(list) = client.list_tools().await else { return ControlFlow::Continue(()) };
        let Some(agent) = self.agent.upgrade() else { return ControlFlow::Break(()) };
        let make = |tools: &[Arc<dyn AgentTool>], list: Vec<McpToolInfo>| {
            let others = tools.iter().filter(|tool| !self.is_ours(tool));
            let mut taken: BTreeSet<String> = others.map(|tool| tool.name().to_owned()).collect();
            McpToolAdapter::named(&client, list, &mut taken)
        };
        let old: Vec<Arc<McpToolAdapter>> = self.put.iter().filter_map(Weak::upgrade).collect();
        let new = make(&agent.tools(), list.tools.clone());
        if old.len() == self.put.len()
            && old.len() == new.len()
            && old.iter().zip(&new).all(|(old, new)| old.is_same(new))
        {
            // New tools invalidate the provider's prompt cache, so an unchanged list is not replaced.
            return ControlFlow::Continue(());
        }
        let mut put = Vec::new();
        let mut flow = ControlFlow::Continue(());
        agent.change_tools(|all| {
            let first = all.iter().position(|tool| self.is_ours(tool));
            if first.is_none() && !self.put.is_empty() {
                flow = ControlFlow::Break(());
                return;
            }
            let new = make(all, list.tools);
            all.retain(|tool| !self.is_ours(tool));
            let at = first.unwrap_or(all.len());
            let new: Vec<Arc<McpToolAdapter>> = new.into_iter().map(Arc::new).collect();
            put.extend(new.iter().map(Arc::downgrade));
            all.splice(at..at, new.into_iter().map(|tool| tool as Arc<dyn AgentTool>));
        });
        self.put = put;
        flow
    }

    fn is_ours(&self, tool: &Arc<dyn AgentTool>) -> bool {
        self.put.iter().any(|ours| std::ptr::addr_eq(ours.as_ptr(), Arc::as_ptr(tool)))
    }
}
