//! Errors of MCP servers.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ToolError;
use serde_json::Value;

use super::limits::McpLimit;
use crate::sandbox::SandboxError;

/// The end of a child's output that is not part of the protocol: its standard error, and lines of its standard output
/// that are not messages. Secrets that the child received are removed. Empty for servers over HTTP.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StderrTail(Arc<str>);

impl StderrTail {
    pub(super) fn new(text: &str) -> Self {
        Self(text.trim_end().into())
    }

    /// Returns the text of the output.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the server wrote nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() { Ok(()) } else { write!(f, "\nThe end of what it wrote:\n{}", self.0) }
    }
}

/// A cause that several waiting calls can share.
pub type SharedError = Arc<dyn Error + Send + Sync>;

/// An error of an MCP server. `server` is its configured name, and `doing` the operation that failed.
///
/// Clones share the cause, because calls that wait for one restart fail with one error.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// A request could not be sent to the server, or its response could not be received.
    #[error("MCP transport error: server `{server}` could not be reached for {doing}: {source}{stderr}")]
    Transport {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
        /// The end of its standard error.
        stderr: StderrTail,
        /// The underlying transport error.
        source: SharedError,
    },
    /// The server broke the rules of the protocol.
    #[error("MCP protocol error: server `{server}` answered {doing} wrongly: {detail}{stderr}")]
    Protocol {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
        /// The rule that was broken.
        detail: String,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// The server sent more than a limit allows.
    #[error(
        "MCP limit: server `{server}` answered {doing} with more than {limit}, which is the limit{stderr}"
    )]
    TooLarge {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
        /// The limit that was exceeded.
        limit: McpLimit,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// The server changed the definition of the tool after it was first listed, and the change has not been approved. The
    /// call was not sent. The next call of the tool asks for the approval.
    #[error(
        "MCP tool changed: server `{server}` has changed its tool `{tool}` after it was first listed ({change}), so it was not called; call it again to have the change approved"
    )]
    ToolChanged {
        /// The name of the server.
        server: String,
        /// The server's name for the tool.
        tool: String,
        /// The parts of the definition that changed.
        change: String,
    },
    /// The server answered with an error.
    #[error("MCP error {code}: server `{server}` refused {doing}: {message}")]
    JsonRpc {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
        /// The JSON-RPC code, for example -32602 for invalid arguments.
        code: i64,
        /// The text that the server sent.
        message: String,
        /// The additional data of the error.
        data: Option<Box<Value>>,
    },
    /// A value could not be serialized to JSON or deserialized from it.
    #[error("MCP serialization error: {doing} with server `{server}`: {source}")]
    Serialization {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
        /// The underlying JSON error.
        source: Arc<serde_json::Error>,
    },
    /// An operation of the operating system failed, for example starting the process.
    #[error("MCP I/O error: {doing} for server `{server}`: {source}")]
    Io {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
        /// The underlying I/O error.
        source: Arc<std::io::Error>,
    },
    /// The configured sandbox is not available, so the server was not started.
    #[error("MCP sandbox: server `{server}` was not started: {source}")]
    Sandbox {
        /// The name of the server.
        server: String,
        /// The error of the sandbox.
        source: Arc<SandboxError>,
    },
    /// The server ended or closed the connection. A call may have taken effect before.
    #[error("MCP connection closed: server `{server}` was gone before it answered {doing}{}{stderr}", exit.as_deref().map(|e| format!(" ({e})")).unwrap_or_default())]
    ConnectionClosed {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
        /// How the process of the server ended, if it has one.
        exit: Option<String>,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// The server sent neither a response nor progress within the time limit.
    #[error("MCP timeout: server `{server}` did not answer {doing} within {limit:?}{stderr}")]
    Timeout {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
        /// The time limit that was exceeded.
        limit: Duration,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// The server requires authentication.
    #[error(
        "MCP authorization: server `{server}` refused {doing} without valid credentials; give a bearer token or a header"
    )]
    Unauthorized {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
        /// The `WWW-Authenticate` header of the response.
        challenge: Option<String>,
    },
    /// The OAuth login at the server failed.
    #[error("MCP login: server `{server}` cannot be logged in to: {source}")]
    Login {
        /// The name of the server.
        server: String,
        /// The underlying login error.
        source: SharedError,
    },
    /// The caller cancelled the call.
    #[error("MCP call cancelled: {doing} of server `{server}`")]
    Cancelled {
        /// The name of the server.
        server: String,
        /// The operation that failed.
        doing: String,
    },
    /// The call was made outside of a tokio runtime.
    #[error("MCP server `{server}`: no tokio runtime is running here; connect from inside one")]
    NoRuntime {
        /// The name of the server.
        server: String,
    },
}

impl McpError {
    /// Returns the configured name of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        match self {
            Self::Transport { server, .. }
            | Self::Protocol { server, .. }
            | Self::TooLarge { server, .. }
            | Self::ToolChanged { server, .. }
            | Self::JsonRpc { server, .. }
            | Self::Serialization { server, .. }
            | Self::Io { server, .. }
            | Self::Sandbox { server, .. }
            | Self::ConnectionClosed { server, .. }
            | Self::Timeout { server, .. }
            | Self::Unauthorized { server, .. }
            | Self::Login { server, .. }
            | Self::Cancelled { server, .. }
            | Self::NoRuntime { server } => server,
        }
    }

    /// Returns the end of the server's standard error, or an empty text if the error has none.
    #[must_use]
    pub fn stderr(&self) -> &str {
        match self {
            Self::Transport { stderr, .. }
            | Self::Protocol { stderr, .. }
            | Self::TooLarge { stderr, .. }
            | Self::ConnectionClosed { stderr, .. }
            | Self::Timeout { stderr, .. } => stderr.as_str(),
            _ => "",
        }
    }

    /// Converts the error into the one that the loop receives.
    pub(crate) fn into_tool_error(self) -> ToolError {
        match self {
            McpError::Cancelled { .. } => ToolError::Cancelled,
            error => ToolError::failed(error),
        }
    }
}
