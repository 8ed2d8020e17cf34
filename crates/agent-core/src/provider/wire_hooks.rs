//! Hooks that observe the exact bytes of requests and responses, with credentials removed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The text that replaces a credential.
pub const HIDDEN: &str = "****";

/// A request as it was sent. Every credential is replaced by [`HIDDEN`]; everything else is unchanged.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SentRequest<'a> {
    /// The number of the exchange, unique in this process. The parts of the response carry the same number.
    pub exchange: u64,
    /// The name of the provider in the model's configuration.
    pub provider: &'a str,
    /// The id of the model.
    pub model: &'a str,
    /// The HTTP method of the request.
    pub method: &'a str,
    /// The address of the request.
    pub url: &'a str,
    /// The headers as names and values, in the order of sending. `host`, `content-length` and an `accept` that allows
    /// anything are not included.
    pub headers: &'a [(String, String)],
    /// The body of the request.
    pub body: &'a [u8],
}

impl<'a> SentRequest<'a> {
    /// Creates a request. The headers and the body must not contain a credential.
    #[must_use]
    pub fn new(
        exchange: u64,
        (provider, model): (&'a str, &'a str),
        (method, url): (&'a str, &'a str),
        headers: &'a [(String, String)],
        body: &'a [u8],
    ) -> Self {
        Self { exchange, provider, model, method, url, headers, body }
    }
}

/// A part of a response.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ReceivedPart<'a> {
    /// The number of the request that it answers.
    pub exchange: u64,
    /// The part that arrived.
    pub part: Received<'a>,
}

impl<'a> ReceivedPart<'a> {
    /// Creates a part of the response to the request with this number. It must not contain a credential.
    #[must_use]
    pub fn new(exchange: u64, part: Received<'a>) -> Self {
        Self { exchange, part }
    }
}

/// The content of a part of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received<'a> {
    /// The status and the headers.
    Head {
        /// The HTTP status of the response.
        status: u16,
        /// The headers as names and values.
        headers: &'a [(String, String)],
    },
    /// The next bytes of the body, in pieces of any size.
    Body(&'a [u8]),
    /// The body is complete. Not reported if the response broke off or was not read to its end.
    End,
}

/// A hook that receives each request as it is sent.
pub type OnRequest = Arc<dyn Fn(&SentRequest<'_>) + Send + Sync>;

/// A hook that receives each part of a response as it arrives.
pub type OnResponse = Arc<dyn Fn(&ReceivedPart<'_>) + Send + Sync>;

/// Hooks that observe requests and responses after the last change to them. They cannot change anything, and a panic
/// of a hook is ignored. They run where the bytes are read, so slow work belongs into a separate task.
///
/// Every HTTP provider calls them once per attempt. Auxiliary requests, such as those for a token, are not reported.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use agent_core::{BasicAgent, ModelConfig, Received};
///
/// let log: Arc<Mutex<Vec<u8>>> = Arc::default();
/// let (sent, received) = (Arc::clone(&log), Arc::clone(&log));
/// let agent = BasicAgent::new(ModelConfig::default()).configure(|c| {
///     let hooks = &mut c.request.wire_hooks;
///     hooks.on_request = Some(Arc::new(move |request| sent.lock().unwrap().extend_from_slice(request.body)));
///     hooks.on_response = Some(Arc::new(move |answer| {
///         if let Received::Body(piece) = answer.part {
///             received.lock().unwrap().extend_from_slice(piece);
///         }
///     }));
/// });
/// assert!(agent.config().request.wire_hooks.is_set());
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct WireHooks {
    /// Called with each request.
    pub on_request: Option<OnRequest>,
    /// Called with each part of a response.
    pub on_response: Option<OnResponse>,
}

impl WireHooks {
    /// Returns whether any hook is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.on_request.is_some() || self.on_response.is_some()
    }

    /// Reports a request to the hook. Providers call this.
    pub fn show_request(&self, request: &SentRequest<'_>) {
        if let Some(hook) = &self.on_request {
            contained("on_request", || hook(request));
        }
    }

    /// Reports a part of a response to the hook. Providers call this.
    pub fn show_response(&self, part: &ReceivedPart<'_>) {
        if let Some(hook) = &self.on_response {
            contained("on_response", || hook(part));
        }
    }
}

fn contained(name: &str, hook: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(hook)).is_err() {
        tracing::warn!(hook = name, "an observing hook panicked and was skipped");
    }
}

/// Shows which hooks are set.
impl fmt::Debug for WireHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireHooks")
            .field("on_request", &self.on_request.is_some())
            .field("on_response", &self.on_response.is_some())
            .finish()
    }
}
