//! Looking at what goes over the wire: the exact bytes of requests and answers, without the credentials.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What stands where a credential was.
pub const HIDDEN: &str = "****";

/// A request as it went out. Credentials are replaced by [`HIDDEN`], wherever they stood; all else is as it was sent.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SentRequest<'a> {
    /// Tells exchanges apart: no other of this process has this number. The parts of the answer have it too.
    pub exchange: u64,
    /// The provider's name in the model's configuration.
    pub provider: &'a str,
    /// The model's id.
    pub model: &'a str,
    /// The HTTP method.
    pub method: &'a str,
    /// The address.
    pub url: &'a str,
    /// The headers, as names and values, in the order of sending. `host`, `content-length` and an `accept` that takes
    /// anything are the connection's own and not among them.
    pub headers: &'a [(String, String)],
    /// The body.
    pub body: &'a [u8],
}

impl<'a> SentRequest<'a> {
    /// A request. The headers and the body hold no credential.
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

/// A part of an answer.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ReceivedPart<'a> {
    /// The number of the request that it answers.
    pub exchange: u64,
    /// What came.
    pub part: Received<'a>,
}

impl<'a> ReceivedPart<'a> {
    /// A part of the answer to the request of this number. It holds no credential.
    #[must_use]
    pub fn new(exchange: u64, part: Received<'a>) -> Self {
        Self { exchange, part }
    }
}

/// What came of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received<'a> {
    /// Its head.
    Head {
        /// The HTTP status.
        status: u16,
        /// The headers, as names and values.
        headers: &'a [(String, String)],
    },
    /// The next bytes of its body, in any pieces.
    Body(&'a [u8]),
    /// The body is complete. It is not said of an answer that broke off or was not read to its end.
    End,
}

/// Sees each request as it goes out.
pub type OnRequest = Arc<dyn Fn(&SentRequest<'_>) + Send + Sync>;

/// Sees each part of an answer as it arrives.
pub type OnResponse = Arc<dyn Fn(&ReceivedPart<'_>) + Send + Sync>;

/// Hooks that look at what goes over the wire, after everything that may still change it. They change nothing, and one
/// that panics is passed over. They run where the bytes are read: what takes long belongs into a task of its own.
///
/// Every provider over HTTP calls them, once for each attempt. What a provider asks elsewhere, a token for example, is
/// not shown.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use agent_core::{BasicAgent, ModelConfig, Received};
///
/// let log: Arc<Mutex<Vec<u8>>> = Arc::default();
/// let (sent, came) = (Arc::clone(&log), Arc::clone(&log));
/// let agent = BasicAgent::new(ModelConfig::default())
///     .with_on_request(move |request| sent.lock().unwrap().extend_from_slice(request.body))
///     .with_on_response(move |answer| {
///         if let Received::Body(piece) = answer.part {
///             came.lock().unwrap().extend_from_slice(piece);
///         }
///     });
/// assert!(agent.config().wire_hooks.is_set());
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct WireHooks {
    /// Sees each request.
    pub on_request: Option<OnRequest>,
    /// Sees each part of an answer.
    pub on_response: Option<OnResponse>,
}

impl WireHooks {
    /// Whether anybody looks.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.on_request.is_some() || self.on_response.is_some()
    }

    /// Shows a request. For providers.
    pub fn show_request(&self, request: &SentRequest<'_>) {
        if let Some(hook) = &self.on_request {
            contained("on_request", || hook(request));
        }
    }

    /// Shows a part of an answer. For providers.
    pub fn show_response(&self, part: &ReceivedPart<'_>) {
        if let Some(hook) = &self.on_response {
            contained("on_response", || hook(part));
        }
    }
}

fn contained(name: &str, hook: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(hook)).is_err() {
        tracing::warn!(hook = name, "the hook panicked; it is passed over");
    }
}

/// Says which hooks there are.
impl fmt::Debug for WireHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireHooks")
            .field("on_request", &self.on_request.is_some())
            .field("on_response", &self.on_response.is_some())
            .finish()
    }
}
