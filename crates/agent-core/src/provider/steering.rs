//! Steering messages that arrive while a reply does, for providers that can send them into the reply.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::history::MessageRef;

/// Where steering messages come from.
pub(crate) trait SteeringSource: Send + Sync {
    /// Returns a receiver of the next message. An earlier receiver gets nothing more.
    fn listen(&self) -> oneshot::Receiver<MessageRef>;
}

/// Tells a provider that the user steers while a reply arrives, see [`ModelRequest::steering`](super::ModelRequest::steering).
///
/// The message also waits in the queue of the run and enters the conversation behind the reply, so a provider that ignores
/// it or cannot send it loses nothing. A provider that sends it makes the reply end early; the next request then has the
/// message as its new end.
#[derive(Clone)]
pub struct SteeringFeed(Arc<dyn SteeringSource>);

impl SteeringFeed {
    pub(crate) fn new(source: Arc<dyn SteeringSource>) -> Self {
        Self(source)
    }

    /// Waits for the first message that is queued after this future was polled. Never completes if there is none. Messages
    /// of other queues and results of deferred calls are not reported.
    pub async fn first(&self) -> MessageRef {
        match self.0.listen().await {
            Ok(message) => message,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Shows no message.
impl fmt::Debug for SteeringFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SteeringFeed")
    }
}
