//! A scripted model for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::reply::{Act, ScriptedReply};
use super::strict;
use crate::model::ModelConfig;
use crate::provider::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StreamProvider,
};
use crate::tool::ToolSearchForm;

type Responder = dyn Fn(&ModelRequest) -> ScriptedReply + Send + Sync;

/// A provider that returns its scripted replies in order. When they are exhausted, it returns an empty reply, or an
/// error after [`exhaustive`](Self::exhaustive). A clone shares the script and the recorded requests.
#[derive(Clone)]
pub struct ScriptedProvider {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    script: VecDeque<ScriptedReply>,
    responder: Option<Arc<Responder>>,
    requests: Vec<ModelRequest>,
    exhaustive: bool,
    allow_empty: bool,
    tool_search: ToolSearchForm,
}

impl ScriptedProvider {
    /// Creates a provider with these replies, in order.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = impl Into<ScriptedReply>>) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                script: replies.into_iter().map(Into::into).collect(),
                responder: None,
                requests: Vec::new(),
                exhaustive: false,
                allow_empty: false,
                tool_search: ToolSearchForm::Listed,
            })),
        }
    }

    /// Sets how the models of this provider find deferred tools. Default: [`ToolSearchForm::Listed`].
    #[must_use]
    pub fn with_tool_search(self, search: ToolSearchForm) -> Self {
        self.lock().tool_search = search;
        self
    }

    /// Creates a provider with one reply for each text.
    #[must_use]
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(texts)
    }

    /// Creates a provider that computes each reply from its request, after the script is exhausted.
    #[must_use]
    pub fn responding(responder: impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let provider = Self::new(Vec::<ScriptedReply>::new());
        provider.lock().responder = Some(Arc::new(responder));
        provider
    }

    /// Makes calls after the last reply an error.
    #[must_use]
    pub fn exhaustive(self) -> Self {
        self.lock().exhaustive = true;
        self
    }

    /// Accepts requests without messages, which a real API would reject.
    #[must_use]
    pub fn allow_empty(self) -> Self {
        self.lock().allow_empty = true;
        self
    }

    /// Appends a reply to the script.
    pub fn push(&self, reply: impl Into<ScriptedReply>) {
        self.lock().script.push_back(reply.into());
    }

    /// Returns the requests so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.lock().requests.clone()
    }

    /// Returns the number of remaining replies.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.lock().script.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_reply(&self, request: &ModelRequest) -> Result<ScriptedReply, ProviderError> {
        let (reply, responder) = {
            let mut inner = self.lock();
            inner.requests.push(request.clone());
            strict::check(request, inner.allow_empty).map_err(|text| {
                let context = ErrorContext::new(text).with_target("mock", &request.model.id).with_status(400);
                ProviderError::new(ErrorKind::Api, context)
            })?;
            let reply = inner.script.pop_front();
            if reply.is_none() && inner.responder.is_none() && inner.exhaustive {
                let context =
                    ErrorContext::new("the script is exhausted").with_target("mock", &request.model.id);
                return Err(ProviderError::new(ErrorKind::Other, context));
            }
            (reply, inner.responder.clone())
        };
        Ok(match (reply, responder) {
            (Some(reply), _) => reply,
            (None, Some(responder)) => responder(request),
            (None, None) => ScriptedReply::new(),
        })
    }
}

impl std::fmt::Debug for ScriptedProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedProvider").field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}

#[async_trait]
impl StreamProvider for ScriptedProvider {
    fn provider_id(&self) -> &'static str {
        "mock"
    }

    fn tool_search(&self, _: &ModelConfig) -> ToolSearchForm {
        self.lock().tool_search
    }

    #[expect(clippy::panic, reason = "a script may ask for a panic")]
    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let reply = self.next_reply(request)?;
        for act in reply.acts() {
            if cancel.is_cancelled() {
                return Err(ProviderError::Cancelled);
            }
            match act {
                Act::Send(event) => {
                    event.borrowed().into_iter().for_each(&mut *sink);
                    // A reader can read each event before the next one is sent.
                    yield_once().await;
                }
                Act::Wait(latch) => {
                    tokio::select! {
                        () = latch.wait() => {}
                        () = cancel.cancelled() => return Err(ProviderError::Cancelled),
                    }
                }
                Act::Hang => {
                    cancel.cancelled().await;
                    return Err(ProviderError::Cancelled);
                }
                Act::Panic(message) => panic!("{message}"),
            }
        }
        reply.end()
    }
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
