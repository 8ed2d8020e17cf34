//! The environment of a conversation, whose tasks end at a shutdown without an abort.

use std::sync::Arc;
use std::time::Duration;

use agent_core::{BoxFuture, CancellationToken, Environment, NoRuntime, TaskHandle, Timestamp};

/// Runs tasks until the conversation is left. A run whose task is dropped is neither aborted nor completed: its session has the
/// run as it was journaled, and another process resumes it.
#[derive(Debug)]
pub(crate) struct LeavableEnvironment {
    inner: Arc<dyn Environment>,
    left: CancellationToken,
}

impl LeavableEnvironment {
    pub(crate) fn new(inner: Arc<dyn Environment>, left: CancellationToken) -> Self {
        Self { inner, left }
    }
}

impl Environment for LeavableEnvironment {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn monotonic_ms(&self) -> u64 {
        self.inner.monotonic_ms()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.inner.sleep(duration)
    }

    fn deadline(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.inner.deadline(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime> {
        let left = self.left.clone();
        self.inner.spawn(Box::pin(async move {
            tokio::select! {
                biased;
                () = left.cancelled() => {}
                () = task => {}
            }
        }))
    }

    fn can_spawn(&self) -> bool {
        self.inner.can_spawn()
    }

    fn random_id(&self) -> String {
        self.inner.random_id()
    }
}
