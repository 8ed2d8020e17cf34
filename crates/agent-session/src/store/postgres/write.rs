//! Writes one session of the database.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use agent_core::journal::JournalWarning;
use async_trait::async_trait;

use super::commit::{self, Refusal, Waiting, Writing};
use super::connection::Use;
use super::lease::Lease;
use super::rows::Whole;
use super::{PostgresStore, Shared, read};
use crate::error::SessionError;
use crate::model::{LoopStatus, Session};
use crate::store::database::Words;
use crate::store::size_limit::SizeLimit;
use crate::store::summary::LiveSummary;
use crate::store::{PendingWrite, SessionReader, SessionRecord, SessionWriter, on_pool};

/// The writer of a session.
pub(super) struct PostgresWriter {
    shared: Arc<Shared>,
    session: Arc<Writing>,
    /// Whether the next record begins the session.
    is_new: bool,
    /// The size of the saved lines and of all records after them.
    size: SizeLimit,
    /// The summary of the session after the last record.
    summary: LiveSummary,
    /// The number of messages whose words are indexed.
    said: u64,
    /// `None` after its release.
    lease: Option<Lease>,
}

impl std::fmt::Debug for PostgresWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresWriter")
            .field("store", &self.shared.place)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// What is made of a stored session when it is opened.
struct Opened {
    session: Session,
    summary: LiveSummary,
    /// The session, if it must be written as a whole.
    whole: Option<Whole>,
    bytes: u64,
    lines: u64,
}

impl PostgresWriter {
    pub(super) async fn open(
        store: &PostgresStore,
        id: &str,
    ) -> Result<(Self, Option<Session>), SessionError> {
        let lease = store.take_lease(id).await?;
        let opened = Self::open_leased(store, &lease).await;
        let (opened, said) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                store.release(lease).await;
                return Err(error);
            }
        };
        let shared = Arc::clone(&store.shared);
        let mut size = SizeLimit::new(shared.config().max_session_bytes);
        let id = lease.id().clone();
        let (summary, lines, session) = match opened {
            Some(Opened { session, summary, bytes, lines, .. }) => {
                size.set(bytes);
                (summary, Some(lines), Some(session))
            }
            None => {
                let empty = Session::new(id.clone(), "".into(), agent_core::Timestamp::default());
                (LiveSummary::of(&empty), None, None)
            }
        };
        let writing = Arc::new(Writing::new(id, lease.fence(), lines));
        let is_new = session.is_none();
        let writer = Self { shared, session: writing, is_new, size, summary, said, lease: Some(lease) };
        Ok((writer, session))
    }

    /// Reads a session whose lease this process has. The records move to the lines, so that all records of a session are
    /// written by one process. Returns the number of messages whose words are indexed, too.
    async fn open_leased(
        store: &PostgresStore,
        lease: &Lease,
    ) -> Result<(Option<Opened>, u64), SessionError> {
        let id = lease.id().clone();
        let shared = Arc::clone(&store.shared);
        let rows = store.shared.driver.run(async move {
            let rows = read::fetch(&shared, id.as_str()).await?;
            let said = async {
                let mut used = shared.pool.get(Use::Other).await?;
                let said = super::rows::said(&mut used.connection, &id).await?;
                used.back();
                Ok(said)
            };
            let said = if rows.is_some() { said.await } else { Ok(0) };
            Ok((rows, said.map_err(|failure: super::Failure| failure.named(&shared.place, "read"))?))
        });
        let (rows, said) = rows.await?;
        let Some(rows) = rows else { return Ok((None, 0)) };
        let (place, id) = (store.shared.place.clone(), lease.id().clone());
        let limit = store.shared.config().max_session_bytes;
        let mut opened = on_pool(move || {
            let mut session = read::session(&place, id.as_str(), &rows)?;
            let was_running = session.loops.iter().any(|r| r.status == LoopStatus::Running);
            session.interrupt_running_branches();
            let summary = LiveSummary::of(&session);
            let mut opened = Opened { session, summary, whole: None, bytes: rows.bytes, lines: 0 };
            let whole = Whole::new(&opened.session, Words::Kept, said)?;
            if whole.bytes > limit {
                return Err(SessionError::Full { path: PathBuf::from(place), limit });
            }
            opened.lines = whole.line_count();
            if rows.has_records() || was_running || whole.messages != said {
                opened.bytes = whole.bytes;
                opened.whole = Some(whole);
            }
            Ok(opened)
        })
        .await?;
        let Some(whole) = opened.whole.take() else { return Ok((Some(opened), said)) };
        let said = whole.messages;
        store.put(lease, whole).await?;
        Ok((Some(opened), said))
    }

    fn full(&self) -> SessionError {
        SessionError::Full { path: PathBuf::from(&self.shared.place), limit: self.size.limit() }
    }

    /// Prepares the save of a session.
    fn whole(&self, session: &Session) -> Result<Whole, SessionError> {
        let whole = Whole::new(session, Words::Kept, self.said)?;
        if whole.bytes > self.size.limit() { Err(self.full()) } else { Ok(whole) }
    }

    fn saved(&mut self, whole: &Saved, summary: LiveSummary) {
        self.session.set_lines(whole.lines);
        self.is_new = false;
        self.size.set(whole.bytes);
        self.said = whole.messages;
        self.summary = summary;
    }
}

/// What a save has written.
struct Saved {
    lines: u64,
    bytes: u64,
    messages: u64,
}

/// Writes the records that wait and then a whole session.
async fn save(shared: Arc<Shared>, session: Arc<Writing>, whole: Whole) -> Result<Saved, SessionError> {
    commit::commit_all(&shared).await;
    if let Some(refusal) = session.broken() {
        return Err(refusal.error(&shared, &session.id));
    }
    let put = super::put_whole(&shared, session.fence, &whole).await;
    // Whether the server has written the session is unknown.
    let is_held = put.inspect_err(|error| session.refuse(Refusal::failed(error.to_string())))?;
    if !is_held {
        let refusal = Refusal::LeaseLost(commit::reason(&shared, &session).await);
        session.refuse(refusal.clone());
        return Err(refusal.error(&shared, &session.id));
    }
    Ok(Saved { lines: whole.line_count(), bytes: whole.bytes, messages: whole.messages })
}

#[async_trait]
impl SessionWriter for PostgresWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError> {
        if let Some(refusal) = self.session.broken() {
            return Err(refusal.error(&self.shared, &self.session.id));
        }
        let begin = self.is_new.then(|| record.head()).transpose()?;
        if let Some(session) = &begin {
            self.size.set(Whole::new(session, Words::Kept, 0)?.bytes);
        }
        if !self.size.allows(record) {
            return Err(self.full());
        }
        self.is_new = false;
        let new = record.record().map(|r| r.messages.get(record.own_before..).unwrap_or_default());
        let messages = new.unwrap_or_default().to_vec();
        let first_message = self.said;
        self.said += messages.len() as u64;
        let (summary, waits) = self.summary.update(record);
        let waiting = Arc::new(Waiting {
            session: Arc::clone(&self.session),
            number: record.number,
            line: record.line.to_vec(),
            messages,
            first_message,
            summary: summary.clone(),
            waits: waits.cloned(),
            begin,
            outcome: OnceLock::new(),
        });
        let shared = Arc::clone(&self.shared);
        shared.committer.add(Arc::clone(&waiting));
        Ok(Some(Box::pin(async move {
            let inner = Arc::clone(&shared);
            shared.driver.run(async move { commit::complete(&inner, &waiting).await }).await
        })))
    }

    async fn save(&mut self, session: Session) -> Result<(), SessionError> {
        let (said, limit, full) = (self.said, self.size.limit(), self.full());
        let (whole, summary) = on_pool(move || {
            let whole = Whole::new(&session, Words::Kept, said)?;
            if whole.bytes > limit {
                return Err(full);
            }
            Ok((whole, LiveSummary::of(&session)))
        })
        .await?;
        let (shared, writing) = (Arc::clone(&self.shared), Arc::clone(&self.session));
        let saved = self.shared.driver.run(save(shared, writing, whole)).await?;
        self.saved(&saved, summary);
        Ok(())
    }

    fn reader(&self) -> Option<SessionReader> {
        let (shared, session) = (Arc::clone(&self.shared), Arc::clone(&self.session));
        Some(Arc::new(move || {
            let (inner, writing) = (Arc::clone(&shared), Arc::clone(&session));
            let rows = shared.driver.wait(async move {
                // The records that still wait are written first.
                commit::commit_all(&inner).await;
                match writing.broken() {
                    Some(refusal) => Err(refusal.error(&inner, &writing.id)),
                    None => read::fetch(&inner, writing.id.as_str()).await,
                }
            })?;
            let rows = rows.ok_or_else(|| shared.not_found(session.id.as_str()))?;
            read::session(&shared.place, session.id.as_str(), &rows)
        }))
    }

    fn warning(&mut self) -> Option<JournalWarning> {
        self.size.warning()
    }

    fn save_on_drop(&mut self, session: &Session) -> Result<(), SessionError> {
        let whole = self.whole(session)?;
        let (shared, writing) = (Arc::clone(&self.shared), Arc::clone(&self.session));
        let saved = self.shared.driver.wait(save(shared, writing, whole))?;
        self.saved(&saved, LiveSummary::of(session));
        Ok(())
    }
}

/// The records that wait are written, and then the lease is released. Blocks until that is done, so that another writer can
/// open the session when the drop has returned.
impl Drop for PostgresWriter {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let shared = Arc::clone(&self.shared);
        let released = self.shared.driver.wait(async move {
            commit::commit_all(&shared).await;
            lease.release().await;
            Ok(())
        });
        if let Err(error) = released {
            tracing::warn!(session = %self.session.id, %error, "a lease was not given back; it ends by itself");
        }
    }
}
