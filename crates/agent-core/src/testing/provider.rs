//! A model that follows a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::reply::{Act, ScriptedReply};
use super::strict;
use crate::provider::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StreamProvider,
};

type Responder = dyn Fn(&ModelRequest) -> ScriptedReply + Send + Sync;

/// Gives its replies one after the other (REQ-030). When they are used up it answers with an empty stop, or, after
/// [`exhaustive`](Self::exhaustive), with an error. A clone shares the script and the record of requests.
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
}

impl ScriptedProvider {
    /// These replies, in order.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = impl Into<ScriptedReply>>) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                script: replies.into_iter().map(Into::into).collect(),
                responder: None,
                requests: Vec::new(),
                exhaustive: false,
                allow_empty: false,
            })),
        }
    }

    /// One reply for each text.
    #[must_use]
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(texts)
    }

    /// A reply that depends on the request, after the script is used up.
    #[must_use]
    pub fn responding(responder: impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let provider = Self::new(Vec::<ScriptedReply>::new());
        provider.lock().responder = Some(Arc::new(responder));
        provider
    }

    /// A call after the last reply is an error.
    #[must_use]
    pub fn exhaustive(self) -> Self {
        self.lock().exhaustive = true;
        self
    }

    /// A request without messages is answered, where a real API would refuse it (D11).
    #[must_use]
    pub fn allow_empty(self) -> Self {
        self.lock().allow_empty = true;
        self
    }

    /// One more reply.
    pub fn push(&self, reply: impl Into<ScriptedReply>) {
        self.lock().script.push_back(reply.into());
    }

    /// The requests so far. The last one is the newest.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.lock().requests.clone()
    }

    /// How many replies are left.
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
                    ErrorContext::new("the script is used up").with_target("mock", &request.model.id);
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
                    // Each event may be read before the next one is there.
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
