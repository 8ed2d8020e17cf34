//! A client of one server, which reconnects when the connection is lost.

mod listing;
mod start;

use std::ffi::OsString;
use std::fmt;
#[cfg(feature = "mcp-oauth")]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use agent_core::trace::TraceContext;
use agent_core::{CancellationToken, Effects};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CustomRequest, GetMeta as _, ServerResult,
};
use serde_json::Value;
use tokio::sync::watch;

use super::MAX_RESULT_BLOCKS;
use super::connection::Connection;
use super::content::{McpToolCallResult, Unreadable};
use super::definitions::{Definitions, Wanted};
use super::error::McpError;
use super::handler::Handler;
use super::limits::McpLimit;
use super::progress::McpProgress;
use super::request::{self, Request};
use super::sdk_error::Reach;
use super::server::McpServer;
use super::tool::McpToolInfo;

/// The JSON-RPC code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;

/// A client of one MCP server. Clones share the connection; the server ends when the last clone is dropped or [`close`]
/// is called.
///
/// Calls run concurrently. A server that has ended is restarted by the next call, according to its
/// [`Restart`](super::Restart) policy.
///
/// [`close`]: Self::close
#[derive(Clone)]
pub struct McpClient {
    inner: Arc<Inner>,
}

struct Inner {
    spec: McpServer,
    handler: Handler,
    current: Mutex<Option<Arc<Connection>>>,
    /// Locked by the task that is starting the server.
    starts: tokio::sync::Mutex<start::Starts>,
    /// The number of consecutive starts after which the server answered no request.
    failures: AtomicU32,
    definitions: Definitions,
    /// Locked by the task that lists the tools again before a call.
    listing: tokio::sync::Mutex<()>,
    /// The number of logins so far.
    #[cfg(feature = "mcp-oauth")]
    logins: AtomicUsize,
}

/// A handle that does not keep the server alive.
#[derive(Clone)]
pub(super) struct WeakMcpClient(Weak<Inner>);

impl WeakMcpClient {
    pub(super) fn upgrade(&self) -> Option<McpClient> {
        self.0.upgrade().map(|inner| McpClient { inner })
    }
}

/// The information that a server sends about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpServerInfo {
    /// The server's own name.
    pub name: String,
    /// The server's own version.
    pub version: String,
    /// The negotiated version of the protocol.
    pub protocol_version: String,
    /// The server's instructions for the model. They are not added to the system prompt automatically.
    pub instructions: Option<String>,
}

/// The tools of a server.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct McpToolList {
    /// The tools, in the server's order.
    pub tools: Vec<McpToolInfo>,
    /// Descriptions of the listed tools that cannot be used, with the reason.
    pub skipped: Vec<String>,
}

impl McpToolList {
    /// Returns the list with the reason for which the rest of it is missing.
    pub(super) fn cut(mut self, why: &str) -> Self {
        self.skipped.push(format!("the rest of its list of tools is missing: {why}"));
        self
    }
}

/// The parameters of one call.
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Value,
    pub(super) effects: Effects,
    /// The definition that the caller knows. The call is sent only if it is still the server's or was approved.
    pub(super) wanted: Option<Wanted<'a>>,
    pub(super) cancel: &'a CancellationToken,
    /// The trace context to send.
    pub(super) trace: Option<&'a TraceContext>,
    pub(super) on_progress: &'a mut (dyn FnMut(McpProgress) + Send),
}

impl McpClient {
    /// Connects to a server.
    ///
    /// # Errors
    /// Returns an error if the server cannot be started, reached or initialized within its connect time limit. There is
    /// one attempt.
    pub async fn connect(server: McpServer) -> Result<Self, McpError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(McpError::NoRuntime { server: server.name });
        }
        let handler = Handler {
            server: server.name.as_str().into(),
            elicitation: server.elicitation.clone(),
            changes: watch::Sender::new(0),
            questions: Arc::default(),
        };
        let connection = start::open(&server, &handler).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                spec: server,
                handler,
                current: Mutex::new(Some(Arc::new(connection))),
                starts: tokio::sync::Mutex::default(),
                failures: AtomicU32::new(0),
                definitions: Definitions::default(),
                listing: tokio::sync::Mutex::default(),
                #[cfg(feature = "mcp-oauth")]
                logins: AtomicUsize::new(0),
            }),
        })
    }

    /// Starts a server program and initializes the connection. Errors name the server by its program.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_stdio<A, K, V>(
        command: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
        env: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, McpError>
    where
        A: Into<OsString>,
        K: Into<OsString>,
        V: Into<OsString>,
    {
        Self::connect(McpServer::of_command(command, args, env)).await
    }

    /// Connects to a server over streamable HTTP. Errors name the server by its address without the query.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_http(url: impl Into<String>) -> Result<Self, McpError> {
        Self::connect(McpServer::of_url(url)).await
    }

    pub(super) fn downgrade(&self) -> WeakMcpClient {
        WeakMcpClient(Arc::downgrade(&self.inner))
    }

    pub(super) fn definitions(&self) -> &Definitions {
        &self.inner.definitions
    }

    /// Returns the configured name of the server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.spec.name
    }

    /// Returns the configuration of the server.
    #[must_use]
    pub fn server(&self) -> &McpServer {
        &self.inner.spec
    }

    /// Returns the information that the server sent about itself when it was last initialized.
    #[must_use]
    pub fn server_info(&self) -> Option<McpServerInfo> {
        let info = self.current()?.info()?;
        let known = info.server_info.as_ref();
        Some(McpServerInfo {
            name: known.map(|known| known.name.clone()).unwrap_or_default(),
            version: known.map(|known| known.version.clone()).unwrap_or_default(),
            protocol_version: info.protocol_version.to_string(),
            instructions: info.instructions.clone(),
        })
    }

    /// Returns the process id of the server if it is a running child process.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.current().filter(|connection| !connection.is_lost())?.process_id()
    }

    /// Returns a counter that increases when the tools may have changed: the server reported a change or was restarted.
    #[must_use]
    pub fn tool_changes(&self) -> watch::Receiver<u64> {
        self.inner.handler.changes.subscribe()
    }

    /// Calls a tool by the server's name for it. The call is not repeated if the connection is lost during it.
    ///
    /// # Errors
    /// Returns an error if the request fails. A failure that the tool reports is not an error; see
    /// [`is_error`](McpToolCallResult::is_error).
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<McpToolCallResult, McpError> {
        let never = CancellationToken::new();
        let effects = Effects::Once;
        let on_progress = &mut |_| ();
        self.call(Call { name, arguments, effects, wanted: None, cancel: &never, trace: None, on_progress })
            .await
    }

    pub(super) async fn call(&self, call: Call<'_>) -> Result<McpToolCallResult, McpError> {
        let doing = format!("tools/call of `{}`", call.name);
        let arguments = match call.arguments {
            Value::Object(arguments) => arguments,
            Value::Null => serde_json::Map::new(),
            _ => {
                let error =
                    <serde_json::Error as serde::de::Error>::custom("the arguments are not an object");
                return Err(self.serialization(&doing, error));
            }
        };
        let params = CallToolRequestParams::new(call.name.to_owned()).with_arguments(arguments);
        let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let Call { effects, wanted, cancel, trace, on_progress, .. } = call;
        if let Some(trace) = trace {
            let meta = request.get_meta_mut();
            meta.set_traceparent(trace.traceparent());
            if let Some(state) = trace.tracestate() {
                meta.set_tracestate(state);
            }
        }
        let result = self.request(&doing, &request, effects, wanted, cancel, on_progress).await?;
        // Checked before the result is converted, which takes several times its memory.
        if let ServerResult::CallToolResult(result) = &result
            && result.content.len() > MAX_RESULT_BLOCKS
        {
            return Err(self.too_large(&doing, McpLimit::ResultBlocks));
        }
        let value = self.value_of(&doing, &result)?;
        McpToolCallResult::read(value).map_err(|why| match why {
            Unreadable::Broken(why) => self.broken(&doing, why),
            Unreadable::TooLarge(limit) => self.too_large(&doing, limit),
        })
    }

    /// Sends any request and returns the result unchanged. The request is not repeated if the connection is lost during
    /// it.
    ///
    /// # Errors
    /// Returns [`McpError::JsonRpc`] if the server responds with an error, and another error if the request fails
    /// otherwise.
    pub async fn send_request(&self, method: &str, params: Option<Value>) -> Result<Value, McpError> {
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, params));
        let never = CancellationToken::new();
        let result = self.request(method, &request, Effects::Once, None, &never, &mut |_| ()).await?;
        self.value_of(method, &result)
    }

    /// Closes the connection. A child process gets the end of its input, then SIGTERM, and finally its whole process
    /// group is killed. Later calls fail.
    pub async fn close(&self) {
        let mut starts = self.inner.starts.lock().await;
        starts.is_closed = true;
        let connection = self.inner.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// Sends a request over a live connection. Repeats it after a failure only if the repetition cannot have another
    /// effect.
    async fn request(
        &self,
        doing: &str,
        call: &ClientRequest,
        effects: Effects,
        wanted: Option<Wanted<'_>>,
        cancel: &CancellationToken,
        on_progress: &mut (dyn FnMut(McpProgress) + Send),
    ) -> Result<ServerResult, McpError> {
        let spec = &self.inner.spec;
        let mut again = 0;
        #[cfg(feature = "mcp-oauth")]
        let mut logins = 0;
        loop {
            #[cfg(feature = "mcp-oauth")]
            let login = self.inner.logins.load(Ordering::Acquire);
            let connection = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    return Err(McpError::Cancelled { server: spec.name.clone(), doing: doing.to_owned() });
                }
                connection = self.connection(doing) => connection?,
            };
            // After a restart the server may have other tools, so this is checked for every connection.
            if let Some(wanted) = wanted {
                self.admit(wanted, cancel).await?;
            }
            let request = Request {
                server: &spec.name,
                doing,
                call: call.clone(),
                idle: spec.call_timeout,
                most: spec.max_call_time,
                questions: &self.inner.handler.questions,
                cancel,
            };
            let (reach, error) = match request::send(&connection, request, on_progress).await {
                Ok(result) => {
                    self.inner.failures.store(0, Ordering::Relaxed);
                    return Ok(result);
                }
                Err(failed) => failed,
            };
            #[cfg(feature = "mcp-oauth")]
            if let McpError::Unauthorized { challenge, .. } = &error
                && logins < super::oauth::MAX_LOGINS
                && self.log_in(login, challenge.as_deref(), cancel).await?
            {
                logins += 1;
                connection.lose();
                continue;
            }
            let is_harmless = match reach {
                Reach::NotSent => true,
                Reach::Unknown => matches!(effects, Effects::ReadOnly | Effects::Idempotent),
                Reach::Settled => {
                    if matches!(error, McpError::JsonRpc { .. }) {
                        self.inner.failures.store(0, Ordering::Relaxed);
                    }
                    false
                }
            };
            if !is_harmless || again >= spec.restart.attempts {
                return Err(error);
            }
            again += 1;
        }
    }

    fn current(&self) -> Option<Arc<Connection>> {
        self.inner.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn value_of(&self, doing: &str, result: &ServerResult) -> Result<Value, McpError> {
        serde_json::to_value(result).map_err(|error| self.serialization(doing, error))
    }

    fn serialization(&self, doing: &str, error: serde_json::Error) -> McpError {
        let (server, source) = (self.inner.spec.name.clone(), Arc::new(error));
        McpError::Serialization { server, doing: doing.to_owned(), source }
    }

    fn too_large(&self, doing: &str, limit: McpLimit) -> McpError {
        McpError::TooLarge {
            server: self.inner.spec.name.clone(),
            doing: doing.to_owned(),
            limit,
            stderr: super::StderrTail::default(),
        }
    }

    fn broken(&self, doing: &str, detail: &str) -> McpError {
        McpError::Protocol {
            server: self.inner.spec.name.clone(),
            doing: doing.to_owned(),
            detail: detail.to_owned(),
            stderr: super::StderrTail::default(),
        }
    }
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient").field("server", &self.inner.spec).finish_non_exhaustive()
    }
}
