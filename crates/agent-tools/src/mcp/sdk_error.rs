//! Converts the errors of the SDK, and determines whether the server may have received the request.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError,
};

use super::MAX_RESULT_TEXT_BYTES;
use super::connection::GREETING;
use super::error::{McpError, StderrTail};
use super::limits::{McpLimit, json_bytes};
use super::pipe::BROKEN_ANSWER;
use super::result::TRUNCATED;
use super::server::McpServer;
use crate::secrets::Secrets;
use crate::text;

/// Whether the server may have received a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// It was not sent, so it can be sent again.
    NotSent,
    /// The connection was lost, so the server may have received it. Only a request without further effects can be sent
    /// again.
    Unknown,
    /// The server has responded, or the caller cancelled the request.
    Settled,
}

/// Replaces an error whose text may contain secrets.
#[derive(Debug)]
pub(super) struct Redacted(pub(super) String);

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Redacted {}

/// Returns a text of the server for an error: without secrets, and not longer than the text of a result.
fn told(secrets: &Secrets, text: &str) -> String {
    // Texts are redacted before they are cut, because a part of a secret would not be found.
    let mut told = secrets.redact(text);
    if told.len() > MAX_RESULT_TEXT_BYTES {
        told.truncate(text::head(&told, MAX_RESULT_TEXT_BYTES).len());
        told.push_str(TRUNCATED);
    }
    told
}

pub(super) fn of_greeting(
    spec: &McpServer,
    error: &ClientInitializeError,
    exit: Option<String>,
    stderr: StderrTail,
) -> McpError {
    let server = spec.name.clone();
    let doing = GREETING.to_owned();
    let secrets = spec.secrets();
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::Cancelled => {
            McpError::ConnectionClosed { server, doing, exit, stderr }
        }
        ClientInitializeError::TransportError { error, .. } => {
            // Writing to a child that has ended fails; its end is the more useful error.
            if exit.is_some() {
                McpError::ConnectionClosed { server, doing, exit, stderr }
            } else {
                transport(&server, &doing, error, stderr, &secrets).1
            }
        }
        ClientInitializeError::JsonRpcError(error) => refused(&server, &doing, error, stderr, &secrets),
        other => McpError::Protocol { server, doing, detail: told(&secrets, &other.to_string()), stderr },
    }
}

pub(super) fn of_request(
    server: &str,
    doing: &str,
    error: ServiceError,
    exit: Option<String>,
    stderr: StderrTail,
    secrets: &Secrets,
) -> (Reach, McpError) {
    match error {
        ServiceError::McpError(error) => (Reach::Settled, refused(server, doing, &error, stderr, secrets)),
        ServiceError::TransportSend(error) => transport(server, doing, &error, stderr, secrets),
        ServiceError::TransportClosed => {
            let (server, doing) = (server.to_owned(), doing.to_owned());
            (Reach::Unknown, McpError::ConnectionClosed { server, doing, exit, stderr })
        }
        other => {
            let detail = told(secrets, &other.to_string());
            let (server, doing) = (server.to_owned(), doing.to_owned());
            (Reach::Settled, McpError::Protocol { server, doing, detail, stderr })
        }
    }
}

fn refused(server: &str, doing: &str, error: &ErrorData, stderr: StderrTail, secrets: &Secrets) -> McpError {
    if error.code == BROKEN_ANSWER {
        let (server, doing) = (server.to_owned(), doing.to_owned());
        return McpError::Protocol { server, doing, detail: told(secrets, &error.message), stderr };
    }
    if let Some(limit) = McpLimit::of_code(error.code) {
        let (server, doing) = (server.to_owned(), doing.to_owned());
        return McpError::TooLarge { server, doing, limit, stderr };
    }
    McpError::JsonRpc {
        server: server.to_owned(),
        doing: doing.to_owned(),
        code: error.code.0.into(),
        message: told(secrets, &error.message),
        data: error
            .data
            .as_ref()
            .filter(|data| json_bytes(data) <= MAX_RESULT_TEXT_BYTES)
            .cloned()
            .map(Box::new),
    }
}

fn transport(
    server: &str,
    doing: &str,
    error: &DynamicTransportError,
    stderr: StderrTail,
    secrets: &Secrets,
) -> (Reach, McpError) {
    let (server, doing) = (server.to_owned(), doing.to_owned());
    let mut reach = Reach::Unknown;
    let mut texts: Vec<String> = Vec::new();
    let mut cause: Option<&(dyn Error + 'static)> = Some(error.error.as_ref());
    while let Some(current) = cause {
        if let Some(required) = current.downcast_ref::<AuthRequiredError>() {
            let challenge = Some(told(secrets, &required.www_authenticate_header));
            return (Reach::Settled, McpError::Unauthorized { server, doing, challenge });
        }
        if let Some(scope) = current.downcast_ref::<InsufficientScopeError>() {
            let challenge = Some(told(secrets, &scope.www_authenticate_header));
            return (Reach::Settled, McpError::Unauthorized { server, doing, challenge });
        }
        match current.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::ResponseBodyTooLarge { .. }) => {
                let limit = McpLimit::MessageBytes;
                return (Reach::Settled, McpError::TooLarge { server, doing, limit, stderr });
            }
            // The server rejects the request because it does not know the session.
            Some(StreamableHttpError::SessionExpired) => reach = Reach::NotSent,
            _ => {}
        }
        if current.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) {
            reach = Reach::NotSent;
        }
        // The pipe of a child that has ended may contain an incomplete line, which no server executes.
        if current.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
            reach = Reach::NotSent;
        }
        let text = current.to_string();
        // Many errors repeat the text of their cause.
        if !texts.last().is_some_and(|last| last.contains(&text)) {
            texts.push(text);
        }
        cause = current.source();
    }
    let source = Arc::new(Redacted(told(secrets, &texts.join(": "))));
    (reach, McpError::Transport { server, doing, stderr, source })
}
