//! One connection to a server, from its initialization to the end of the process or the session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ServerPeerInfo;
use rmcp::service::{Peer, RunningService, ServiceError, serve_client};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpClientTransportConfig};

use super::MAX_INSTRUCTIONS_BYTES;
use super::error::{McpError, StderrTail};
use super::event_stream::WithEventStream;
use super::handler::Handler;
use super::http;
use super::limits::McpLimit;
use super::ordered_progress::OrderedProgress;
use super::pipe::Pipe;
use super::process::Process;
use super::progress::ProgressBook;
use super::sdk_error::{self, Reach};
use super::server::{HttpTransport, McpServer, McpTransport, StdioTransport};
use super::stderr::Tail;
use crate::sandbox::StartError;
use crate::secrets::Secrets;

/// The maximum duration of closing a session.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// The time to wait until the stream for the server's own messages is open.
const LISTEN_GRACE: Duration = Duration::from_secs(1);

pub(super) const GREETING: &str = "the greeting (initialize)";

type Service = RunningService<RoleClient, Handler>;

pub(super) struct Connection {
    server: Arc<str>,
    pub(super) peer: Peer<RoleClient>,
    pub(super) progress: ProgressBook,
    service: Mutex<Option<Service>>,
    process: tokio::sync::Mutex<Option<Process>>,
    process_id: Option<u32>,
    stderr: Option<Tail>,
    secrets: Secrets,
    lost: AtomicBool,
}

impl Connection {
    /// Starts the server if it is a child process, and initializes the connection.
    pub(super) async fn open(spec: &McpServer, handler: Handler) -> Result<Self, McpError> {
        let opened = match &spec.transport {
            McpTransport::Stdio(stdio) => Self::open_child(spec, stdio, handler).await,
            McpTransport::Http(http) => Self::open_http(spec, http, handler).await,
        }?;
        let instructions = opened.info().and_then(|info| info.instructions.as_ref().map(String::len));
        if instructions.is_some_and(|bytes| bytes > MAX_INSTRUCTIONS_BYTES) {
            return Err(McpError::TooLarge {
                server: spec.name.clone(),
                doing: GREETING.to_owned(),
                limit: McpLimit::InstructionsBytes,
                stderr: opened.stderr(),
            });
        }
        Ok(opened)
    }

    async fn open_child(
        spec: &McpServer,
        stdio: &StdioTransport,
        handler: Handler,
    ) -> Result<Self, McpError> {
        let (process, stdin, stdout) =
            Process::start(stdio, Tail::new(spec.secrets())).await.map_err(|error| {
                let (server, doing) =
                    (spec.name.clone(), format!("starting `{}`", stdio.command.to_string_lossy()));
                match error {
                    StartError::Spawn(source) => McpError::Io { server, doing, source: Arc::new(source) },
                    StartError::Sandbox(source) => McpError::Sandbox { server, source: Arc::new(source) },
                }
            })?;
        let progress = ProgressBook::default();
        let transport = Pipe::new(stdout, stdin, process.stderr().clone());
        let greeting = serve_client(handler, OrderedProgress::new(transport, progress.clone()));
        let error = match tokio::time::timeout(spec.connect_timeout, greeting).await {
            Ok(Ok(service)) => return Ok(Self::new(spec, service, progress, Some(process))),
            Ok(Err(error)) => error,
            // The child is ended in the background, so the caller does not wait for it.
            Err(_) => return Err(timeout(spec, process.stderr().text())),
        };
        let exit = process.exit().await;
        Err(sdk_error::of_greeting(spec, &error, exit, process.stderr().text()))
    }

    async fn open_http(spec: &McpServer, http: &HttpTransport, handler: Handler) -> Result<Self, McpError> {
        let client = http::client(&spec.name, http, spec.connect_timeout)?;
        let headers = http::headers(&spec.name, http)?;
        let config = http::config(&http.url, headers);
        #[cfg(feature = "mcp-oauth")]
        if let Some(login) = &http.oauth {
            let client = login.client(&spec.name, &http.url, client).await?;
            return Self::greet_http(spec, client, config, handler).await;
        }
        Self::greet_http(spec, client, config, handler).await
    }

    async fn greet_http<C: StreamableHttpClient + Sync>(
        spec: &McpServer,
        client: C,
        config: StreamableHttpClientTransportConfig,
        handler: Handler,
    ) -> Result<Self, McpError> {
        let (client, mut opened) = WithEventStream::new(client);
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let progress = ProgressBook::default();
        let greeting = serve_client(handler, OrderedProgress::new(transport, progress.clone()));
        match tokio::time::timeout(spec.connect_timeout, greeting).await {
            Ok(Ok(service)) => {
                // Servers without sessions have no such stream, so the wait may time out.
                drop(tokio::time::timeout(LISTEN_GRACE, opened.wait_for(|opened| *opened)).await);
                Ok(Self::new(spec, service, progress, None))
            }
            Ok(Err(error)) => Err(sdk_error::of_greeting(spec, &error, None, StderrTail::default())),
            Err(_) => Err(timeout(spec, StderrTail::default())),
        }
    }

    fn new(spec: &McpServer, service: Service, progress: ProgressBook, process: Option<Process>) -> Self {
        Self {
            server: spec.name.as_str().into(),
            peer: service.peer().clone(),
            progress,
            service: Mutex::new(Some(service)),
            process_id: process.as_ref().and_then(Process::id),
            stderr: process.as_ref().map(|process| process.stderr().clone()),
            process: tokio::sync::Mutex::new(process),
            secrets: spec.secrets(),
            lost: AtomicBool::new(false),
        }
    }

    /// Returns the information that the server sent about itself.
    pub(super) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    /// Returns the process id if the server is a child process.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.process_id
    }

    /// Returns whether the connection can no longer be used.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire) || self.peer.is_transport_closed()
    }

    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    pub(super) fn stderr(&self) -> StderrTail {
        self.stderr.as_ref().map(Tail::text).unwrap_or_default()
    }

    /// Converts the error of a request, and marks the connection as lost if necessary.
    pub(super) async fn failure(&self, doing: &str, error: ServiceError) -> (Reach, McpError) {
        let closed = matches!(error, ServiceError::TransportClosed);
        if closed {
            self.lose();
        }
        let exit = match &*self.process.lock().await {
            Some(process) if closed => process.exit().await,
            _ => None,
        };
        let (reach, error) =
            sdk_error::of_request(&self.server, doing, error, exit, self.stderr(), &self.secrets);
        if reach == Reach::NotSent {
            self.lose();
        }
        (reach, error)
    }

    pub(super) fn closed_error(&self, doing: &str) -> McpError {
        McpError::ConnectionClosed {
            server: self.server.to_string(),
            doing: doing.to_owned(),
            exit: None,
            stderr: self.stderr(),
        }
    }

    /// Closes the connection: ends the input first, then the process.
    pub(super) async fn close(&self) {
        self.lose();
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut service) = service {
            // An error means that the task has already ended.
            drop(service.close_with_timeout(CLOSE_GRACE).await);
        }
        if let Some(mut process) = self.process.lock().await.take() {
            process.stop().await;
        }
    }
}

fn timeout(spec: &McpServer, stderr: StderrTail) -> McpError {
    let (server, doing) = (spec.name.clone(), GREETING.to_owned());
    McpError::Timeout { server, doing, limit: spec.connect_timeout, stderr }
}
