//! Starts several servers concurrently.

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::{McpClient, McpToolList};
use super::error::McpError;
use super::server::McpServer;

/// What happens if one of several servers does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StartPolicy {
    /// The error is reported, and the other servers are used. This is the default.
    #[default]
    Report,
    /// All servers are ended, and starting fails.
    Fail,
}

/// Servers that were started together. Clones share them.
#[derive(Debug, Clone)]
pub struct McpServers {
    pub(super) running: Vec<Running>,
    reports: Vec<McpServerReport>,
}

/// A running server with the tools that it had at the start.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) client: McpClient,
    pub(super) tools: McpToolList,
    /// Subscribed before the tools were listed, so that no change is missed.
    pub(super) changes: watch::Receiver<u64>,
}

/// The outcome of starting a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct McpServerReport {
    /// The name of the server.
    pub server: String,
    /// The number of tools, or the error if the server did not start.
    pub outcome: Result<McpStarted, McpError>,
}

/// The state of a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpStarted {
    /// The number of tools.
    pub tools: usize,
    /// Descriptions of the listed tools that cannot be used, with the reason.
    pub skipped: Vec<String>,
}

impl Running {
    pub(super) async fn start(server: McpServer) -> Result<Self, McpError> {
        let client = McpClient::connect(server).await?;
        let changes = client.tool_changes();
        let tools = client.list_tools().await?;
        Ok(Self { client, tools, changes })
    }
}

impl McpServers {
    /// Starts the servers concurrently and lists their tools. This takes as long as the slowest server.
    ///
    /// # Errors
    /// With [`StartPolicy::Fail`], returns the first failure in the order of `servers`, after ending the others. With
    /// [`StartPolicy::Report`], returns only [`McpError::NoRuntime`].
    pub async fn start(
        servers: impl IntoIterator<Item = McpServer>,
        policy: StartPolicy,
    ) -> Result<Self, McpError> {
        let servers: Vec<McpServer> = servers.into_iter().collect();
        if let Some(first) = servers.first()
            && tokio::runtime::Handle::try_current().is_err()
        {
            return Err(McpError::NoRuntime { server: first.name.clone() });
        }
        let mut starting = JoinSet::new();
        for (place, server) in servers.into_iter().enumerate() {
            let name = server.name.clone();
            starting.spawn(async move { (place, name, Running::start(server).await) });
        }
        let mut started = Vec::new();
        while let Some(done) = starting.join_next().await {
            // A task that panicked or was cancelled with the runtime has no server.
            started.extend(done.ok());
        }
        started.sort_by_key(|(place, ..)| *place);
        let mut all = Self { running: Vec::new(), reports: Vec::new() };
        let mut failure = None;
        for (_, server, outcome) in started {
            let outcome = outcome.map(|running| {
                let (tools, skipped) = (running.tools.tools.len(), running.tools.skipped.clone());
                all.running.push(running);
                McpStarted { tools, skipped }
            });
            if let Err(error) = &outcome {
                failure.get_or_insert_with(|| error.clone());
            }
            all.reports.push(McpServerReport { server, outcome });
        }
        match failure {
            Some(error) if policy == StartPolicy::Fail => {
                all.close().await;
                Err(error)
            }
            _ => Ok(all),
        }
    }

    /// Returns the outcome of each server, in the order in which they were given.
    #[must_use]
    pub fn reports(&self) -> &[McpServerReport] {
        &self.reports
    }

    /// Returns the errors of the servers that did not start.
    pub fn failures(&self) -> impl Iterator<Item = &McpError> {
        self.reports.iter().filter_map(|report| report.outcome.as_ref().err())
    }

    /// Returns the clients of the running servers.
    pub fn clients(&self) -> impl Iterator<Item = &McpClient> {
        self.running.iter().map(|running| &running.client)
    }

    /// Closes all servers concurrently.
    pub async fn close(&self) {
        let mut closing = JoinSet::new();
        for running in &self.running {
            let client = running.client.clone();
            closing.spawn(async move { client.close().await });
        }
        closing.join_all().await;
    }
}
