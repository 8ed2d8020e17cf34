//! Those who hear every event of an agent, in the order in which they subscribed.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::FutureExt;

use super::{BasicAgent, Inner};
use crate::environment::BoxFuture;
use crate::event::AgentEvent;

#[derive(Clone)]
enum Call {
    Sync(Arc<dyn Fn(&AgentEvent) + Send + Sync>),
    Async(Arc<dyn Fn(AgentEvent) -> BoxFuture<'static, ()> + Send + Sync>),
}

struct Listener {
    call: Call,
    gone: AtomicBool,
}

#[derive(Default)]
pub(super) struct Listeners {
    list: Mutex<Arc<Vec<Arc<Listener>>>>,
    count: AtomicUsize,
}

/// A listener's place. Dropping it changes nothing; [`unsubscribe`](Self::unsubscribe) ends it.
pub struct Subscription {
    inner: Weak<Inner>,
    listener: Arc<Listener>,
}

impl Subscription {
    /// Ends it: no later event is heard. May be called from inside the listener.
    pub fn unsubscribe(self) {
        self.listener.gone.store(true, Ordering::Release);
        if let Some(inner) = self.inner.upgrade() {
            inner.listeners.remove(&self.listener);
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

impl BasicAgent {
    /// Calls `listener` with every event of every run, after the agent's state has taken it in and before the receiver
    /// of the run gets it. Nothing is delivered on subscribing.
    pub fn subscribe(&self, listener: impl Fn(&AgentEvent) + Send + Sync + 'static) -> Subscription {
        self.listen(Call::Sync(Arc::new(listener)))
    }

    /// Like [`subscribe`](Self::subscribe), with a listener that is waited for: the run goes on when it is done (B-074),
    /// and a run is over when it has heard of the end (B-073).
    pub fn subscribe_async<F>(
        &self,
        listener: impl Fn(AgentEvent) -> F + Send + Sync + 'static,
    ) -> Subscription
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.listen(Call::Async(Arc::new(move |event| Box::pin(listener(event)))))
    }

    fn listen(&self, call: Call) -> Subscription {
        let listener = Arc::new(Listener { call, gone: AtomicBool::new(false) });
        self.inner.listeners.add(Arc::clone(&listener));
        Subscription { inner: Arc::downgrade(&self.inner), listener }
    }
}

impl Listeners {
    fn add(&self, listener: Arc<Listener>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut list).push(listener);
        self.count.store(list.len(), Ordering::Release);
    }

    fn remove(&self, listener: &Arc<Listener>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut list).retain(|l| !Arc::ptr_eq(l, listener));
        self.count.store(list.len(), Ordering::Release);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Tells each in turn and waits for it. What the first panic said comes back.
    pub(super) async fn tell(&self, event: &AgentEvent) -> Result<(), String> {
        let mut told = Ok(());
        for listener in self.current().iter().filter(|l| !l.gone.load(Ordering::Acquire)) {
            let result = match &listener.call {
                Call::Sync(call) => std::panic::catch_unwind(AssertUnwindSafe(|| call(event))),
                Call::Async(call) => {
                    let hear = async { call(event.clone()).await };
                    AssertUnwindSafe(hear).catch_unwind().await
                }
            };
            if let Err(panic) = result {
                told = told.and(Err(crate::drive::panic_text(&*panic)));
            }
        }
        told
    }

    /// Tells those that need no waiting.
    pub(super) fn tell_now(&self, event: &AgentEvent) {
        for listener in self.current().iter().filter(|l| !l.gone.load(Ordering::Acquire)) {
            if let Call::Sync(call) = &listener.call {
                let _ = std::panic::catch_unwind(AssertUnwindSafe(|| call(event)));
            }
        }
    }

    fn current(&self) -> Arc<Vec<Arc<Listener>>> {
        Arc::clone(&self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
