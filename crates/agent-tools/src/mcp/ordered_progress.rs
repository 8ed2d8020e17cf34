//! A transport that removes progress notifications from the stream, in the order in which they arrive, and adds the members that
//! a greeting lacks.
//!
//! The SDK handles each notification in a separate task, which may run after the response and in any order. It does not
//! recognize a greeting without capabilities or without the name of the server.

use std::future::Future;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, CustomResult, InitializeResult, JsonRpcMessage, ServerJsonRpcMessage,
    ServerNotification, ServerResult,
};
use rmcp::transport::Transport;
use serde_json::{Value, json};

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
            let mut message = self.inner.receive().await?;
            if let JsonRpcMessage::Response(response) = &mut message
                && let ServerResult::CustomResult(CustomResult(value)) = &response.result
                && let Some(greeting) = greeting(value)
            {
                response.result = ServerResult::InitializeResult(greeting);
            }
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

/// Returns a greeting with the members that it lacks; `None` if the result is something else.
fn greeting(result: &Value) -> Option<InitializeResult> {
    let given = result.as_object()?;
    let has = |member: &str| given.get(member).is_some_and(|value| !value.is_null());
    if !has("protocolVersion") {
        return None;
    }
    let mut all = given.clone();
    if !has("capabilities") {
        // A server that does not declare them may have tools all the same.
        all.insert("capabilities".to_owned(), json!({ "tools": {} }));
    }
    let mut about = given.get("serverInfo").and_then(Value::as_object).cloned().unwrap_or_default();
    for member in ["name", "version"] {
        about.entry(member).or_insert_with(|| json!("unknown"));
    }
    all.insert("serverInfo".to_owned(), Value::Object(about));
    serde_json::from_value(Value::Object(all)).ok()
}
