//! The provider interface: a request, the events of the reply, and its end.
//!
//! A provider passes events to a synchronous sink and returns once: `Ok` with the end of the reply, or an error. No
//! event follows the end. [`ReplyLog`] folds the stream into the complete reply.
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
pub(crate) mod instructions;
mod options;
mod owned;
mod reply_limit;
mod request;
mod server_call;
mod steering;
mod wire_hooks;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use error::{ErrorContext, ErrorKind, ErrorRecord, ProviderError};
pub use event::{CacheMiss, Completion, EventSink, StreamEvent};
pub use fold::{MessageSnapshot, ReplyLog};
pub use instructions::{Instructions, RecordedTool};
pub use options::{RequestHook, RequestOptions};
pub use owned::{OwnedStreamEvent, complete, prewarm, stream_to};
pub use reply_limit::{MAX_REPLY_BLOCKS, MAX_REPLY_BYTES, MAX_REPLY_CALLS, ReplyLimit};
pub use request::ModelRequest;
pub use server_call::{ServerToolCall, ServerToolState};
pub use steering::SteeringFeed;
pub use wire_hooks::{HIDDEN, OnRequest, OnResponse, Received, ReceivedPart, SentRequest, WireHooks};

pub use crate::message::overflow;
pub(crate) use steering::SteeringSource;

use crate::model::ModelConfig;
use crate::tool::ToolSearchForm;

/// Calls a model and streams its reply. Implement it to add a provider.
#[async_trait]
pub trait StreamProvider: Send + Sync {
    /// Returns the id of the provider.
    fn provider_id(&self) -> &str;

    /// Sends the request and passes the events of the reply to `sink` as they arrive. Returns when the reply is
    /// complete.
    ///
    /// # Errors
    /// Returns an error if there is no complete reply; the events that had arrived have been passed to `sink`. Returns
    /// [`ProviderError::Cancelled`] at once if `cancel` is cancelled.
    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError>;

    /// Returns the id of the provider that serves this model. A registry looks it up; the default is
    /// [`provider_id`](Self::provider_id).
    fn provider_id_for(&self, model: &ModelConfig) -> String {
        let _ = model;
        self.provider_id().to_owned()
    }

    /// Returns `model` with the facts that the provider knows about it, such as its context window, its output limit and
    /// its prices; `None` (the default) if it knows none or `model` has them. A value that the caller has set does not
    /// change. The agent calls it for each model that it is configured with.
    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        let _ = model;
        None
    }

    /// Returns how this model finds the tools that are [deferred](crate::Tools::deferred). The default works with every
    /// model: the agent searches, and requests list the found tools. A provider that returns another way expresses it in
    /// its requests. A provider that wraps another one must forward this method.
    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        let _ = model;
        ToolSearchForm::Listed
    }

    /// Checks whether this model could be called: the protocol is known, a key is present, and the address is valid.
    /// Sends nothing.
    ///
    /// # Errors
    /// Returns a description of what is missing and how to supply it.
    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        let _ = model;
        Ok(())
    }

    /// Returns the body that would be sent for this request, before a `request_hook` changes it. Sends nothing. If it
    /// returns `None`, cache breaks are detected from the request's parts instead of its bytes.
    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        let _ = request;
        None
    }

    /// Returns how long the vendor keeps what this request caches, without another use; `None` (the default) if that is
    /// unknown. A later request is reported as a cache break with the cause
    /// [`Expired`](crate::CacheBreakCause::Expired) if more time has passed and less was read from the cache.
    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
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

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        (**self).complete_model(model)
    }

    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        (**self).tool_search(model)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        (**self).check(model)
    }

    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        (**self).body(request)
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        (**self).cache_lifetime(request)
    }
}

impl fmt::Debug for dyn StreamProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamProvider").field(&self.provider_id()).finish()
    }
}
