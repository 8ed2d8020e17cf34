//! A transport that removes progress notifications from the stream, in the order in which they arrive.
//!
//! The SDK handles each notification in a separate task, which may run after the response and in any order.

use std::future::Future;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage, ServerNotification};
use rmcp::transport::Transport;

use super::progress::ProgressBook;

#[derive(Debug)]
pub(super) struct OrderedProgress<T> {
    inner: T,
    progress: ProgressBook,
}

impl<T> OrderedProgress<T> {
    pub(super) fn new(inner: T, progress: ProgressBook) -> Self {
        Self { inner, progress }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for OrderedProgress<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.inner.receive().await?;
            match &message {
                JsonRpcMessage::Notification(notification) => match &notification.notification {
                    ServerNotification::ProgressNotification(progress) => {
                        self.progress.note(&progress.params)
                    }
                    _ => return Some(message),
                },
                _ => return Some(message),
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
