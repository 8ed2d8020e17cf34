//! The thread that talks to the server.
//!
//! The connections of a store, the renewal of its leases and its writes belong to a runtime of the store, in one thread. They
//! work for callers of every runtime and without one, and a caller that blocks its own runtime loses no lease.

use std::sync::mpsc;
use std::thread::ThreadId;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::SessionError;

/// The runtime of a store. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Driver {
    handle: Handle,
    thread: ThreadId,
    /// Its drop ends the thread.
    _running: oneshot::Sender<()>,
}

/// What cannot be used when the driver fails.
const WHAT: &str = "the Postgres store";

impl Driver {
    pub(super) fn start() -> Result<Self, SessionError> {
        let failed = |error: std::io::Error| SessionError::store(WHAT, "started", error);
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        let drive = move || {
            // An error is the drop of the sender.
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("looptree-postgres".to_owned()).spawn(drive);
        let thread = thread.map_err(failed)?.thread().id();
        Ok(Self { handle, thread, _running: running })
    }

    /// Runs work on the driver's thread. It continues if the caller stops waiting.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, SessionError>> + Send + 'static,
    ) -> Result<T, SessionError> {
        match self.handle.spawn(work).await {
            Ok(done) => done,
            Err(error) => Err(SessionError::store(WHAT, "used in the background", error)),
        }
    }

    /// Runs work on the driver's thread, and blocks until it is done.
    ///
    /// # Errors
    /// The error of the work; also on the driver's thread, which would wait for itself.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, SessionError>> + Send + 'static,
    ) -> Result<T, SessionError> {
        if std::thread::current().id() == self.thread {
            return Err(SessionError::store(WHAT, "used", "its own thread would wait for itself"));
        }
        let (done, result) = mpsc::sync_channel(1);
        self.start_work(async move {
            let _ = done.send(work.await);
        });
        result.recv().unwrap_or_else(|error| Err(SessionError::store(WHAT, "used in the background", error)))
    }

    /// Starts work on the driver's thread.
    pub(super) fn start_work(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(work));
    }
}
