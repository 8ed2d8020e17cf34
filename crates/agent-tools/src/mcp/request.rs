//! Sends one request over one connection, with its time limits and its cancellation.

use std::time::Duration;

use agent_core::CancellationToken;
use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};

use super::connection::Connection;
use super::error::McpError;
use super::handler::QuestionCount;
use super::progress::McpProgress;
use super::sdk_error::Reach;

/// The time that a server has to read a cancellation.
const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// The request and its time limit.
pub(super) struct Request<'a> {
    pub(super) server: &'a str,
    pub(super) doing: &'a str,
    pub(super) call: ClientRequest,
    /// The maximum time without a response or progress.
    pub(super) idle: Duration,
    /// The maximum total time.
    pub(super) most: Duration,
    pub(super) questions: &'a QuestionCount,
    pub(super) cancel: &'a CancellationToken,
}

/// Sends a request and waits for its response.
pub(super) async fn send(
    connection: &Connection,
    request: Request<'_>,
    on_progress: &mut (dyn FnMut(McpProgress) + Send),
) -> Result<ServerResult, (Reach, McpError)> {
    let Request { server, doing, call, idle, most, questions, cancel } = request;
    let cancelled = || McpError::Cancelled { server: server.to_owned(), doing: doing.to_owned() };
    let timeout = |limit| McpError::Timeout {
        server: server.to_owned(),
        doing: doing.to_owned(),
        limit,
        stderr: connection.stderr(),
    };
    let sending = connection.peer.send_cancellable_request(call, PeerRequestOptions::no_options());
    let mut handle = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err((Reach::Settled, cancelled())),
        sent = sending => sent.map_err(|_| {
            connection.lose();
            (Reach::NotSent, connection.closed_error(doing))
        })?,
        // A server that does not read its input blocks the sender.
        () = tokio::time::sleep(idle) => return Err((Reach::Settled, timeout(idle))),
    };
    let mut open = OpenRequest { peer: &connection.peer, id: Some(handle.id.clone()) };
    let mut notes = connection.progress.open(&handle.progress_token);
    let mut silence = std::pin::pin!(tokio::time::sleep(idle));
    let mut total = std::pin::pin!(tokio::time::sleep(most));
    let mut asked = questions.now();
    let limit = loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                open.cancel("the caller gave up").await;
                return Err((Reach::Settled, cancelled()));
            }
            answer = &mut handle.rx => {
                open.id = None;
                while let Some(note) = notes.take() {
                    on_progress(note);
                }
                return match answer.unwrap_or(Err(ServiceError::TransportClosed)) {
                    Ok(result) => Ok(result),
                    Err(error) => Err(connection.failure(doing, error).await),
                };
            }
            () = &mut total => {
                if questions.since(&mut asked) == 0 {
                    break most;
                }
                total.as_mut().reset(tokio::time::Instant::now() + idle);
            }
            note = notes.next() => {
                on_progress(note);
                silence.as_mut().reset(tokio::time::Instant::now() + idle);
            }
            () = &mut silence => {
                // The time in which the user answers a question does not count.
                if questions.since(&mut asked) == 0 {
                    break idle;
                }
                silence.as_mut().reset(tokio::time::Instant::now() + idle);
            }
        }
    };
    open.cancel("it took too long").await;
    Err((Reach::Settled, timeout(limit)))
}

/// A request without an answer. Dropping it sends a cancellation to the server.
struct OpenRequest<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl OpenRequest<'_> {
    async fn cancel(&mut self, reason: &str) {
        if let Some(id) = self.id.take() {
            tell(self.peer, id, reason).await;
        }
    }
}

async fn tell(peer: &Peer<RoleClient>, id: RequestId, reason: &str) {
    let params = CancelledNotificationParam::new(Some(id), Some(reason.to_owned()));
    let notification = CancelledNotification::new(params);
    // The caller does not wait for a server that does not read the cancellation.
    drop(tokio::time::timeout(CANCEL_GRACE, peer.send_notification(notification.into())).await);
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let peer = self.peer.clone();
            drop(runtime.spawn(async move { tell(&peer, id, "the caller is gone").await }));
        }
    }
}
