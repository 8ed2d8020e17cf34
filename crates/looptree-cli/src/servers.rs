//! The MCP servers whose tools an agent uses: which are configured, their start, their state and their end.

mod configured;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use looptree::prelude::*;
use looptree::tools::mcp::{
    McpClient, McpError, McpServer, McpServers, McpTransport, StartPolicy, tool_name,
};

use crate::exit::InterruptedError;
use crate::programs::writable;
use crate::screen::Screen;
use crate::served::told_to_end;
use crate::settings::Settings;
use crate::text::{cut, one_line};

/// The columns of the last line of a server that a message repeats.
const LAST_LINE: usize = 100;
pub(crate) use configured::Configured;
use configured::Prepared;

/// The time after which a line says that servers are starting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where an agent gets its MCP servers from.
pub(crate) enum Connect {
    /// Those of the settings are started for this agent, and with them those of an editor.
    Own(EditorServers),
    /// Servers that agents share.
    Shared(Servers),
}

/// The state of a configured server.
#[derive(Debug, Clone)]
enum State {
    Running(McpClient),
    Disabled,
    Failed(String),
}

/// The servers of an agent. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Servers {
    started: Option<McpServers>,
    states: Arc<Vec<(String, State)>>,
    /// Descriptions of listed tools that cannot be used.
    skipped: Arc<Vec<String>>,
}

/// The servers that an editor passes for a session.
#[derive(Debug, Default)]
pub(crate) struct EditorServers {
    pub(crate) servers: Vec<McpServer>,
    /// The names of those that cannot be used, with the reasons.
    pub(crate) left_out: Vec<(String, String)>,
}

impl Servers {
    /// Starts the servers of the settings and of an editor. An editor's server replaces the one of the same name.
    pub(crate) async fn start(
        settings: &Settings,
        root: &Path,
        editor: EditorServers,
        screen: &Screen,
    ) -> Result<Self> {
        let mut configured = Configured::of(settings)?;
        editor.servers.iter().for_each(|server| configured.remove(server.name()));
        let Prepared { mut servers, disabled, mut problems } = configured.prepared(root);
        problems.extend(editor.left_out);
        servers.extend(editor.servers);
        let writable = writable(settings, root);
        let servers = servers.into_iter();
        let servers = servers.map(|server| writable.iter().fold(server, McpServer::with_writable_folder));
        let servers: Vec<_> = servers.collect();
        let mut states: Vec<(String, State)> =
            problems.into_iter().map(|(name, problem)| (name, State::Failed(problem))).collect();
        states.extend(disabled.into_iter().map(|name| (name, State::Disabled)));
        if servers.is_empty() {
            return Ok(Self { started: None, states: Arc::new(states), skipped: Arc::default() });
        }
        let names: Vec<_> = servers.iter().map(|server| server.name().to_owned()).collect();
        let waiting = async {
            tokio::time::sleep(PATIENCE).await;
            screen.line(format!("starting MCP servers: {} …", names.join(", ")));
            std::future::pending::<Infallible>().await
        };
        let started = tokio::select! {
            started = McpServers::start(servers, StartPolicy::Report) => started?,
            never = waiting => match never {},
            () = told_to_end() => return Err(InterruptedError.into()),
        };
        let mut skipped = Vec::new();
        let mut clients = started.clients();
        for report in started.reports() {
            let state = match &report.outcome {
                Err(error) => State::Failed(reason(error)),
                Ok(report_of_start) => {
                    let of_server = report_of_start.skipped.iter();
                    skipped.extend(of_server.map(|tool| format!("MCP server {}: {tool}", report.server)));
                    // There is one client for each server that runs, in the order of the reports.
                    let Some(client) = clients.next() else { continue };
                    State::Running(client.clone())
                }
            };
            states.push((report.server.clone(), state));
        }
        states.sort_by(|a, b| a.0.cmp(&b.0));
        drop(clients);
        Ok(Self { started: Some(started), states: Arc::new(states), skipped: Arc::new(skipped) })
    }

    /// Adds the tools of the servers to an agent.
    pub(crate) fn attach(&self, agent: BasicAgent) -> BasicAgent {
        match &self.started {
            Some(started) => agent.with_mcp_servers(started),
            None => agent,
        }
    }

    /// Returns whether no server runs.
    pub(crate) fn are_none(&self) -> bool {
        self.running().next().is_none()
    }

    /// Returns the names of the servers that run.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.running().map(McpClient::name).collect()
    }

    fn running(&self) -> impl Iterator<Item = &McpClient> {
        self.states.iter().filter_map(|(_, state)| match state {
            State::Running(client) => Some(client),
            _ => None,
        })
    }

    /// Returns a line for each server that cannot be used.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failed = self.states.iter().filter_map(|(name, state)| match state {
            State::Failed(reason) => Some(unusable(name, reason)),
            _ => None,
        });
        failed.collect()
    }

    /// Returns lines about the servers that run: their names with the number of their tools, and what was left out of them.
    pub(crate) fn notes(&self, tools: &[String]) -> Vec<String> {
        let running: Vec<_> = self
            .running()
            .map(|client| format!("{} ({})", client.name(), counted(self.tools_of(client, tools).count())))
            .collect();
        let mut notes = Vec::new();
        if !running.is_empty() {
            notes.push(format!("MCP servers: {}", running.join(", ")));
        }
        notes.extend(self.skipped.iter().cloned());
        notes
    }

    /// Returns a line for each configured server with its state.
    pub(crate) fn states(&self, tools: &[String]) -> Vec<String> {
        let lines = self.states.iter().map(|(name, state)| match state {
            State::Running(client) if has_ended(client) => {
                format!("{name}: ended; the next call of one of its tools starts it again")
            }
            State::Running(client) => {
                format!("{name}: connected, {}", counted(self.tools_of(client, tools).count()))
            }
            State::Disabled => format!("{name}: disabled in the configuration"),
            State::Failed(reason) => format!("{name}: failed: {reason}"),
        });
        lines.collect()
    }

    /// Returns the names of the servers that run, each with its tools.
    pub(crate) fn with_tools<'a>(
        &'a self,
        tools: &'a [String],
    ) -> impl Iterator<Item = (&'a str, Vec<&'a str>)> {
        self.running().map(|client| (client.name(), self.tools_of(client, tools).collect()))
    }

    /// Returns those of the tools that belong to a server: their names begin with its name. Of several such servers, the one with
    /// the longest name has the tool.
    fn tools_of<'a>(&'a self, client: &'a McpClient, tools: &'a [String]) -> impl Iterator<Item = &'a str> {
        let owner = |tool: &str| {
            let owners = self.running().filter(|client| tool.starts_with(&prefix(client.name())));
            owners.max_by_key(|client| client.name().len()).map(McpClient::name)
        };
        tools.iter().map(String::as_str).filter(move |tool| owner(tool) == Some(client.name()))
    }

    /// Ends the servers and waits until their processes are gone.
    pub(crate) async fn close(&self) {
        if let Some(started) = &self.started {
            started.close().await;
        }
    }
}

/// Returns the line about a server that cannot be used.
fn unusable(name: &str, reason: &str) -> String {
    format!("the MCP server {name} cannot be used: {reason}")
}

/// Returns the beginning of the names of a server's tools.
fn prefix(server: &str) -> String {
    format!("{}__", tool_name(None, server, &std::collections::BTreeSet::new()))
}

fn counted(tools: usize) -> String {
    format!("{tools} {}", if tools == 1 { "tool" } else { "tools" })
}

/// Returns whether the process of a server has ended.
fn has_ended(client: &McpClient) -> bool {
    matches!(client.server().transport(), McpTransport::Stdio(_)) && client.process_id().is_none()
}

/// Returns why a server did not start, as one line that does not repeat its name.
fn reason(error: &McpError) -> String {
    let last_line = || {
        let line = error.stderr().lines().rev().find(|line| !line.trim().is_empty());
        line.map(|line| format!("; the last line that it wrote: {}", cut(&one_line(line), LAST_LINE)))
            .unwrap_or_default()
    };
    match error {
        McpError::Io { doing, source, .. } => match doing.strip_prefix("starting ") {
            Some(program) if source.kind() == ErrorKind::NotFound => {
                format!("the program {program} was not found")
            }
            _ if source.kind() == ErrorKind::PermissionDenied => one_line(&source.to_string()),
            _ => format!("{doing}: {source}"),
        },
        McpError::Sandbox { source, .. } => one_line(&source.to_string()),
        McpError::ConnectionClosed { exit: Some(exit), .. } => {
            format!("{exit} before it answered{}", last_line())
        }
        McpError::Timeout { limit, .. } => {
            format!(
                "it did not answer within {} s; startup_timeout in its entry sets more milliseconds{}",
                limit.as_secs(),
                last_line()
            )
        }
        error => {
            let text = error.to_string();
            format!("{}{}", one_line(text.lines().next().unwrap_or_default()), last_line())
        }
    }
}
