//! Tools of MCP servers (Model Context Protocol), which run as child processes or are reached over streamable HTTP.
//!
//! [`McpServer`] describes a server, [`McpClient`] connects to it, [`McpToolAdapter`] wraps each of its tools as a tool,
//! and [`WithMcp`] adds them to an agent. The official SDK, rmcp, implements the protocol. This module adds time
//! limits, restarts, the cleanup of processes, rules for repeated calls, tool names and size limits.
//!
//! ```no_run
//! use agent_core::BasicAgent;
//! use agent_tools::mcp::{McpServer, WithMcp as _};
//!
//! # async fn example(agent: BasicAgent) -> Result<(), agent_tools::mcp::McpError> {
//! let files = McpServer::stdio("files", "mcp-server-filesystem").with_arg("/srv/data").with_prefix("fs");
//! let agent = agent.with_mcp_server(files).await?;
//! # Ok(())
//! # }
//! ```

mod adapter;
mod agent;
mod arguments;
mod client;
mod config;
mod connection;
mod content;
mod definitions;
mod elicitation;
mod error;
mod event_stream;
mod handler;
mod http;
mod limits;
#[cfg(feature = "mcp-oauth")]
pub mod oauth;
mod ordered_progress;
mod pipe;
mod process;
mod progress;
mod questions;
mod request;
mod restart;
mod result;
mod sdk_error;
mod server;
mod servers;
mod start_folder;
mod stderr;
mod tool;

use std::time::Duration;

pub use adapter::McpToolAdapter;
pub use agent::WithMcp;
pub use client::{McpClient, McpServerInfo, McpToolList};
pub use config::{McpConfig, McpConfigError};
pub use content::{McpContent, McpResource, McpResourceBody, McpToolCallResult};
pub use elicitation::{Elicitation, ElicitationAnswer, ElicitationForm, ElicitationHandler, accept_defaults};
pub use error::{McpError, SharedError, StderrTail};
pub use limits::McpLimit;
pub use progress::McpProgress;
pub use questions::{ElicitationId, MAX_OPEN_QUESTIONS, OpenElicitation, QuestionError, Questions};
pub use restart::Restart;
pub use server::{AnnotationTrust, HttpTransport, McpServer, McpTransport, StdioTransport};
pub use servers::{McpServerReport, McpServers, McpStarted, StartPolicy};
pub use tool::{McpAnnotations, McpToolInfo};

pub use crate::names::tool_name;

/// The default maximum duration of starting and initializing a server.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum time of a request without a response or progress.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The maximum total duration of a request, regardless of progress.
pub const MAX_CALL_TIME: Duration = Duration::from_secs(30 * 60);

/// The maximum size of a message of a server: 16 MiB. A longer response fails its request with [`McpError::TooLarge`].
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The maximum number of JSON values in a message of a server: 200,000. A response with more fails its request with
/// [`McpError::TooLarge`] before it is parsed; over HTTP, a response that is not an event stream is only limited in its
/// bytes and its content blocks.
pub const MAX_MESSAGE_VALUES: usize = 200_000;

/// The maximum number of content blocks in a result: 1,024. A call whose result has more fails with
/// [`McpError::TooLarge`].
pub const MAX_RESULT_BLOCKS: usize = 1024;

/// The maximum size of an image in a result that the model receives: 5 MiB. A note replaces a larger one.
pub const MAX_IMAGE_BYTES: usize = crate::pictures::MAX_BYTES;

/// The maximum size of the text of a result, and of the text of an error of the server: 256 KiB.
pub const MAX_RESULT_TEXT_BYTES: usize = 256 * 1024;

/// The number of bytes retained from the end of a child's standard error: 4 KiB.
pub const STDERR_TAIL_BYTES: usize = 4 * 1024;

/// The maximum size of the server's instructions: 64 KiB. Connecting to a server with longer ones fails with
/// [`McpError::TooLarge`].
pub const MAX_INSTRUCTIONS_BYTES: usize = 64 * 1024;

/// The maximum size of all pages of a list of tools as JSON: 4 MiB. Listing fails above it with
/// [`McpError::TooLarge`].
pub const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// The maximum size of one tool's entry in a list as JSON, with its description and its schemas: 256 KiB. A larger tool
/// is skipped; see [`McpToolList::skipped`].
pub const MAX_TOOL_BYTES: usize = 256 * 1024;

/// The maximum number of tools of one server. Listing fails above it with [`McpError::TooLarge`].
pub const MAX_TOOLS: usize = 4096;

/// The maximum number of pages when the tools of one server are listed.
pub const MAX_TOOL_PAGES: usize = 256;
