//! Listeners: callbacks that receive every event of an agent, in the order in which they subscribed.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::FutureExt;

use super::Inner;
use crate::drive::Patience;
use crate::environment::BoxFuture;
use crate::event::AgentEvent;

#[derive(Clone)]
pub(super) enum Call {
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
}

/// A subscription. Dropping it keeps the listener subscribed; [`unsubscribe`](Self::unsubscribe) removes it.
pub struct Subscription {
    inner: Weak<Inner>,
    listener: Arc<Listener>,
}

impl Subscription {
    /// Removes the listener: it receives no later event. Can be called from the listener itself.
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

impl Listeners {
    pub(super) fn subscribe(&self, inner: &Arc<Inner>, call: Call) -> Subscription {
        let listener = Arc::new(Listener { call, gone: AtomicBool::new(false) });
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut list).push(Arc::clone(&listener));
        Subscription { inner: Arc::downgrade(inner), listener }
    }

    fn remove(&self, listener: &Arc<Listener>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut list).retain(|l| !Arc::ptr_eq(l, listener));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.current().is_empty()
    }

    /// Notifies each listener in turn and waits for it, after an abort as long as `patience` allows. Returns the text
    /// of the first panic.
    pub(super) async fn notify(&self, event: &AgentEvent, patience: &Patience<'_>) -> Result<(), String> {
        let mut notified = Ok(());
        for listener in self.current().iter().filter(|l| !l.gone.load(Ordering::Acquire)) {
            let result = match &listener.call {
                Call::Sync(call) => std::panic::catch_unwind(AssertUnwindSafe(|| call(event))),
                Call::Async(call) => {
                    let call = async { call(event.clone()).await };
                    let Some(result) = patience.wait(AssertUnwindSafe(call).catch_unwind()).await else {
                        tracing::warn!("a listener did not return within the grace period of an abort");
                        continue;
                    };
                    result
                }
            };
            if let Err(panic) = result {
                notified = notified.and(Err(crate::drive::panic_text(&*panic)));
            }
        }
        notified
    }

    /// Notifies the listeners that are not async.
    pub(super) fn notify_now(&self, event: &AgentEvent) {
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
