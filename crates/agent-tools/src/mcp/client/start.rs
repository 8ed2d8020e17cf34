//! Starts a server: the first time, again after it ended, and with a login.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

#[cfg(feature = "mcp-oauth")]
use agent_core::CancellationToken;
use tokio::time::Instant;

use super::McpClient;
use crate::mcp::StderrTail;
use crate::mcp::connection::Connection;
use crate::mcp::error::McpError;
use crate::mcp::handler::Handler;
use crate::mcp::server::McpServer;
#[cfg(feature = "mcp-oauth")]
use crate::mcp::server::McpTransport;

/// The state of the most recent starts.
#[derive(Default)]
pub(super) struct Starts {
    /// The time and the error of the last failed start, for callers that waited for it.
    gave_up: Option<(Instant, McpError)>,
    pub(super) is_closed: bool,
}

/// Opens a connection. Logs in first if the server requires it and the caller has configured a login.
pub(super) async fn open(spec: &McpServer, handler: &Handler) -> Result<Connection, McpError> {
    let opened = Connection::open(spec, handler.clone()).await;
    #[cfg(feature = "mcp-oauth")]
    if let Err(McpError::Unauthorized { challenge, .. }) = &opened
        && let McpTransport::Http(http) = &spec.transport
        && let Some(login) = &http.oauth
    {
        login.log_in(&spec.name, &http.url, challenge.as_deref()).await?;
        return Connection::open(spec, handler.clone()).await;
    }
    opened
}

impl McpClient {
    fn live(&self) -> Option<Arc<Connection>> {
        self.current().filter(|connection| !connection.is_lost())
    }

    /// Returns the connection, or opens a new one if the last is lost. Concurrent callers wait for one start.
    pub(super) async fn connection(&self, doing: &str) -> Result<Arc<Connection>, McpError> {
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let asked = Instant::now();
        let mut starts = self.inner.starts.lock().await;
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        if let Some((when, error)) = &starts.gave_up
            && *when >= asked
        {
            return Err(error.clone());
        }
        let old = self.inner.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(old) = &old {
            old.close().await;
        }
        let policy = self.inner.spec.restart;
        let mut failure = match &old {
            Some(old) => old.closed_error(doing),
            None => McpError::ConnectionClosed {
                server: self.inner.spec.name.clone(),
                doing: doing.to_owned(),
                exit: None,
                stderr: StderrTail::default(),
            },
        };
        if starts.is_closed {
            return Err(failure);
        }
        for _ in 0..policy.attempts {
            let failures = self.inner.failures.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(policy.delay(failures)).await;
            match open(&self.inner.spec, &self.inner.handler).await {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    *self.inner.current.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(Arc::clone(&connection));
                    self.inner.handler.tools_may_differ();
                    return Ok(connection);
                }
                Err(error) => {
                    let may_pass =
                        matches!(error, McpError::ConnectionClosed { .. } | McpError::Transport { .. });
                    failure = error;
                    if !may_pass {
                        break;
                    }
                }
            }
        }
        starts.gave_up = Some((Instant::now(), failure.clone()));
        Err(failure)
    }

    /// Logs in where possible, unless another task has logged in since `login`. Returns whether to try again.
    #[cfg(feature = "mcp-oauth")]
    pub(super) async fn log_in(
        &self,
        login: usize,
        challenge: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<bool, McpError> {
        let spec = &self.inner.spec;
        let McpTransport::Http(http) = &spec.transport else { return Ok(false) };
        let Some(oauth) = &http.oauth else { return Ok(false) };
        let work = async {
            // The user gets one login page, however many calls wait.
            let _starts = self.inner.starts.lock().await;
            if self.inner.logins.load(Ordering::Acquire) == login {
                oauth.log_in(&spec.name, &http.url, challenge).await?;
                self.inner.logins.fetch_add(1, Ordering::AcqRel);
            }
            Ok(true)
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                Err(McpError::Cancelled { server: spec.name.clone(), doing: "the login".to_owned() })
            }
            done = work => done,
        }
    }
}
