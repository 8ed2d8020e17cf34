//! The seam to a model: a request, a stream of borrowed events, one end.
//!
//! A provider sends what arrives into a synchronous sink and returns once: `Ok` with how the reply ended, or an
//! error. There is no second terminal and nothing after it (B-115, B-117). The complete reply is the stream,
//! folded by [`ReplyLog`]; there is no other path (invariant 2).
//!
//! ```
//! use agent_core::{Completion, ReplyLog, StopReason, StreamEvent};
//! let mut log = ReplyLog::new();
//! log.push(&StreamEvent::TextDelta { index: 0, delta: "Hel" });
//! let early = log.snapshot();
//! log.push(&StreamEvent::TextDelta { index: 0, delta: "lo" });
//! assert_eq!(early.text(), "Hel"); // a snapshot never changes
//! assert_eq!(log.snapshot().text(), "Hello");
//! # let _ = Completion::new(StopReason::Stop);
//! ```

pub mod error;
mod event;
mod fold;
pub mod overflow;
mod owned;
mod request;
mod wire_hooks;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use error::{ErrorContext, ErrorKind, ErrorRecord, ProviderError};
pub use event::{Completion, EventSink, StreamEvent};
pub use fold::{MessageSnapshot, ReplyLog};
pub use owned::{OwnedStreamEvent, complete, stream_to};
pub use request::{ModelRequest, RequestHook};
pub use wire_hooks::{HIDDEN, OnRequest, OnResponse, Received, ReceivedPart, SentRequest, WireHooks};

use crate::model::ModelConfig;

/// Calls a model (REQ-020).
#[async_trait]
pub trait StreamProvider: Send + Sync {
    /// The provider's id (REQ-186).
    fn provider_id(&self) -> &str;

    /// Sends the request and passes what arrives to `sink`, as it arrives. Returns when the reply is complete.
    ///
    /// # Errors
    /// When there is no complete reply; what had arrived has been passed to `sink`. When `cancel` is cancelled,
    /// [`ProviderError::Cancelled`] at once.
    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError>;

    /// The id of the provider that would serve this model; a registry looks it up.
    fn provider_id_for(&self, model: &ModelConfig) -> String {
        let _ = model;
        self.provider_id().to_owned()
    }

    /// Whether a call with this model could be made: protocol known, key there, address readable. Sends nothing.
    ///
    /// # Errors
    /// What is missing and how to supply it.
    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        let _ = model;
        Ok(())
    }

    /// The body that this request would be sent with, before a `request_hook` sees it. Sends nothing. `None` where it
    /// cannot be said; then cache breaks are found by what a request holds and not by its bytes.
    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        let _ = request;
        None
    }
}

#[async_trait]
impl<P: StreamProvider + ?Sized> StreamProvider for Arc<P> {
    fn provider_id(&self) -> &str {
        (**self).provider_id()
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        (**self).stream(request, sink, cancel).await
    }

    fn provider_id_for(&self, model: &ModelConfig) -> String {
        (**self).provider_id_for(model)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        (**self).check(model)
    }

    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        (**self).body(request)
    }
}

impl fmt::Debug for dyn StreamProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamProvider").field(&self.provider_id()).finish()
    }
}
