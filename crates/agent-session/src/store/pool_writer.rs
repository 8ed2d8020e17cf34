//! Makes the calls of a blocking writer on the blocking pool.

use std::num::NonZero;
use std::sync::{Arc, LazyLock};

use agent_core::journal::JournalWarning;
use async_trait::async_trait;
use tokio::sync::{Mutex, Semaphore};

use super::blocking::{BlockingSessionWriter, MAX_WRITE_JOBS, WriteJob, on_pool};
use super::record::{PendingWrite, SessionReader, SessionRecord, SessionWriter};
use crate::error::SessionError;
use crate::model::Session;

/// The permits of the jobs that run. More jobs than processors wait for the disk at the same time, but many more would take
/// the processors from the runtime.
static JOBS: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    Semaphore::new(MAX_WRITE_JOBS.min(2 * processors))
});

/// An asynchronous writer that makes the calls of a blocking one on the blocking pool. Records are appended in place.
#[derive(Debug)]
pub(super) struct PoolWriter {
    writer: Option<Box<dyn BlockingSessionWriter>>,
    writes: Arc<Writes>,
}

/// What the jobs of a writer have reported.
#[derive(Debug, Default)]
struct Writes(Mutex<Completed>);

#[derive(Debug, Default)]
struct Completed {
    /// The number of the last record that is durable, with all records before it.
    last: u64,
    /// The error of a job. Records after it are not complete, even if a later job succeeds.
    failed: Option<String>,
}

impl PoolWriter {
    pub(super) fn new(writer: Box<dyn BlockingSessionWriter>) -> Self {
        Self { writer: Some(writer), writes: Arc::default() }
    }
}

fn lost() -> SessionError {
    SessionError::store("the session", "written", "its writer was lost in a panic")
}

#[async_trait]
impl SessionWriter for PoolWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError> {
        let job = self.writer.as_mut().ok_or_else(lost)?.append(record)?;
        let (number, writes) = (record.number, &self.writes);
        Ok(job.map(|job| -> PendingWrite { Box::pin(Arc::clone(writes).complete(number, job)) }))
    }

    async fn save(&mut self, session: Session) -> Result<(), SessionError> {
        let mut writer = self.writer.take().ok_or_else(lost)?;
        let (writer, saved) = on_pool(move || {
            let saved = writer.save(&session);
            Ok((writer, saved))
        })
        .await?;
        self.writer = Some(writer);
        saved
    }

    fn reader(&self) -> Option<SessionReader> {
        self.writer.as_ref()?.reader()
    }

    fn warning(&mut self) -> Option<JournalWarning> {
        self.writer.as_mut()?.warning()
    }

    fn save_on_drop(&mut self, session: &Session) -> Result<(), SessionError> {
        self.writer.as_mut().ok_or_else(lost)?.save(session)
    }
}

impl Writes {
    /// Completes a record by its job, unless the job of a later record has completed both.
    async fn complete(self: Arc<Self>, number: u64, job: WriteJob) -> Result<(), SessionError> {
        let mut completed = self.0.lock().await;
        if completed.last >= number {
            return Ok(());
        }
        if let Some(error) = &completed.failed {
            let source = format!("an earlier record was not written: {error}");
            return Err(SessionError::store("a record of the session", "written", source));
        }
        // The semaphore is never closed.
        let _permit = JOBS.acquire().await;
        match on_pool(job).await {
            Ok(last) => {
                completed.last = last.max(number);
                Ok(())
            }
            Err(error) => {
                completed.failed = Some(error.to_string());
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
