//! Sessions in a Postgres database, for several processes.
//!
//! | table | content |
//! |---|---|
//! | `sessions` | one row for each session: its sealed summary, and the columns for filters and the order of lists |
//! | `lines` | the saved session: the lines of [`JsonStore`](super::JsonStore)'s file, one row each |
//! | `records` | the records since the last save, one row for each input of a run; deleted by a save |
//! | `said` | the words of each message, for search |
//! | `leases` | the writers of sessions, each with a number and the time at which its right ends |
//! | `looptree_store` | the version of the tables |
//!
//! Lines, records and summaries have checksums and numbers, so that damage is an error and never a shorter session. The
//! records of all sessions that wait at the same time are one transaction, and a record that was acknowledged survives a crash
//! of the server.
//!
//! A writer has a lease instead of a lock on a file. It ends by the server's clock, is renewed while the session is open, and
//! has a number that every write checks in its transaction. A writer whose lease has ended writes nothing more and gets
//! [`SessionError::LeaseLost`]. After the process of a writer was killed, the session is free when the lease has ended.

mod commit;
mod config;
mod connection;
mod driver;
mod failure;
mod find;
mod lease;
mod read;
mod rows;
mod schema;
mod write;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use agent_core::SessionId;
use async_trait::async_trait;

pub use self::config::PostgresConfig;

use self::commit::Committer;
use self::connection::{Pool, Use};
use self::driver::Driver;
use self::failure::Failure;
use self::find::Listed;
use self::lease::{Lease, Leases};
use self::rows::Whole;
use super::database::{Sealed, Words};
use super::{FoundSessions, Salvaged, SessionQuery, SessionStore, SessionWriter, id, on_pool};
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;
use crate::unfinished::UnfinishedSessions;

/// A store of sessions in a Postgres database, which several processes on several machines use at the same time. Clones are
/// handles to the same connections.
///
/// The store has a thread of its own for its connections and the renewal of its leases. The page `docs/guides/postgres.md`
/// describes roles, sizes, backups and what happens at each fault.
///
/// ```no_run
/// # async fn example() -> Result<(), agent_session::SessionError> {
/// use agent_session::{PostgresStore, SessionStore};
///
/// let store = PostgresStore::open("postgres://looptree@db.example.com/agents?sslmode=verify-full").await?;
/// println!("{} sessions", store.list_session_ids().await?.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

/// What all handles of a store share.
struct Shared {
    place: String,
    driver: Driver,
    pool: Pool,
    committer: Committer,
    leases: Leases,
}

impl Shared {
    fn config(&self) -> &PostgresConfig {
        self.pool.config()
    }

    fn not_found(&self, id: &str) -> SessionError {
        SessionError::NotFound { id: id.to_owned(), store: self.place.clone() }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(self.shared.config()).finish()
    }
}

impl PostgresStore {
    /// Opens a store in the database of a URL, with the [default settings](PostgresConfig). Creates the schema and its tables
    /// if they do not exist.
    ///
    /// # Errors
    /// When the URL cannot be used, the server cannot be reached, is older than Postgres 13 or has another encoding than UTF-8,
    /// or the role may not create the tables; [`SessionError::UnsupportedVersion`] when they have a later version.
    pub async fn open(url: &str) -> Result<Self, SessionError> {
        Self::open_with(PostgresConfig::new(url)?).await
    }

    /// Opens a store with these settings, as [`open`](Self::open) does.
    ///
    /// # Errors
    /// As [`open`](Self::open); also when the name of the schema cannot be used.
    pub async fn open_with(config: PostgresConfig) -> Result<Self, SessionError> {
        config.check_schema()?;
        let (place, lease) = (config.place(), config.lease);
        let pool = on_pool(move || Pool::new(config)).await?;
        let shared = Arc::new(Shared {
            place,
            driver: Driver::start()?,
            pool,
            committer: Committer::default(),
            leases: Leases::default(),
        });
        let opened = Arc::clone(&shared);
        let open = async move {
            schema::open(&opened.pool).await.map_err(|failure| failure.named(&opened.place, "opened"))
        };
        shared.driver.run(open).await?;
        shared.driver.start_work(lease::keep(Arc::downgrade(&shared), lease));
        Ok(Self { shared })
    }

    /// Runs work on the thread of the store.
    async fn run<T, W>(&self, work: impl FnOnce(Arc<Shared>) -> W) -> Result<T, SessionError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, SessionError>> + Send + 'static,
    {
        self.shared.driver.run(work(Arc::clone(&self.shared))).await
    }

    /// Takes the right to write a session.
    async fn take_lease(&self, id: &str) -> Result<Lease, SessionError> {
        id::check(id)?;
        let id = SessionId::from(id);
        self.run(|shared| async move {
            Lease::take(&shared, &id).await.map_err(|failure| failure.named(&shared.place, "written"))
        })
        .await
    }

    /// Gives the right to write a session back.
    async fn release(&self, lease: Lease) {
        let released = self.run(|_| async move {
            lease.release().await;
            Ok(())
        });
        if let Err(error) = released.await {
            tracing::warn!(%error, "a lease was not given back; it ends by itself");
        }
    }

    /// Reads the rows of a session.
    async fn fetch(&self, id: &str) -> Result<Option<read::Fetched>, SessionError> {
        id::check(id)?;
        let id = id.to_owned();
        self.run(|shared| async move { read::fetch(&shared, &id).await }).await
    }

    /// Writes a whole session.
    async fn put(&self, lease: &Lease, whole: Whole) -> Result<(), SessionError> {
        let (id, fence) = (lease.id().clone(), lease.fence());
        let is_held = self.run(|shared| async move { put_whole(&shared, fence, &whole).await }).await?;
        if is_held {
            return Ok(());
        }
        let reason = "it ended before the session was written".to_owned();
        Err(SessionError::LeaseLost { session_id: id, reason })
    }

    /// Merges a session with the stored one and writes it. The caller has the lease.
    async fn merge(&self, lease: &Lease, session: Session) -> Result<(), SessionError> {
        let rows = self.fetch(lease.id().as_str()).await?;
        let shared = Arc::clone(&self.shared);
        let whole = on_pool(move || {
            let id = session.session_id.clone();
            let merged = match rows {
                Some(rows) => session.merged_into(read::session(&shared.place, id.as_str(), &rows)?),
                None => session,
            };
            let whole = Whole::new(&merged, Words::Replaced, 0)?;
            let limit = shared.config().max_session_bytes;
            if whole.bytes > limit {
                return Err(SessionError::Full { path: PathBuf::from(&shared.place), limit });
            }
            Ok(whole)
        })
        .await?;
        self.put(lease, whole).await
    }
}

/// Writes a whole session. Returns whether the lease is valid; otherwise nothing was written.
async fn put_whole(shared: &Shared, fence: i64, whole: &Whole) -> Result<bool, SessionError> {
    let put = async {
        let mut used = shared.pool.get(Use::Other).await?;
        let is_held = whole.put_alone(&mut used.connection, fence, shared.config()).await?;
        used.back();
        Ok::<_, Failure>(is_held)
    };
    put.await.map_err(|failure| failure.named(&shared.place, "written"))
}

#[async_trait]
impl SessionStore for PostgresStore {
    fn describe(&self) -> String {
        self.shared.place.clone()
    }

    async fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        let lease = self.take_lease(session.session_id.as_str()).await?;
        let saved = self.merge(&lease, session.clone()).await;
        self.release(lease).await;
        saved
    }

    async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        let rows = self.fetch(id).await?.ok_or_else(|| self.shared.not_found(id))?;
        let (place, id) = (self.shared.place.clone(), id.to_owned());
        on_pool(move || {
            let loaded = LoadedSession::new(read::session(&place, &id, &rows)?);
            Ok(if rows.is_written { loaded } else { loaded.interrupted() })
        })
        .await
    }

    async fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        let lease = self.take_lease(id).await?;
        let (row, fence) = (lease.id().clone(), lease.fence());
        let deleted = self
            .run(|shared| async move {
                let delete = async {
                    let mut used = shared.pool.get(Use::Other).await?;
                    used.connection.batch("BEGIN").await?;
                    let mut count = 0;
                    if lease::hold(&mut used.connection, &row, fence, shared.config().lease).await? {
                        let sql = "DELETE FROM sessions WHERE id = $1";
                        count = used.connection.execute(sql, &[&row.as_str()]).await?;
                    }
                    used.connection.batch("COMMIT").await?;
                    used.back();
                    Ok::<_, Failure>(count)
                };
                delete.await.map_err(|failure| failure.named(&shared.place, "written"))
            })
            .await;
        self.release(lease).await;
        if deleted? > 0 { Ok(()) } else { Err(self.shared.not_found(id)) }
    }

    async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.run(|shared| async move { find::ids(&shared, Listed::All).await }).await
    }

    async fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.run(|shared| async move { find::ids(&shared, Listed::Open).await }).await
    }

    async fn list_unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
        let mut found = UnfinishedSessions::default();
        for (id, sealed, is_written) in self.run(|shared| async move { find::open(&shared).await }).await? {
            match sealed {
                Some(Sealed { summary, waits: Some(waits), .. }) => {
                    found.runs.extend(waits.unfinished(summary, || is_written));
                }
                _ => found.add(id.clone(), self.load_session(id.as_str()).await),
            }
        }
        Ok(found)
    }

    async fn list_deferring_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.run(|shared| async move { find::ids(&shared, Listed::Deferring).await }).await
    }

    async fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        let query = query.clone();
        self.run(|shared| async move { find::find(&shared, &query).await }).await
    }

    async fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
        let (writer, found) = write::PostgresWriter::open(self, id).await?;
        Ok((Box::new(writer), found))
    }

    async fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        let rows = self.fetch(id).await?.ok_or_else(|| self.shared.not_found(id))?;
        let (place, id) = (self.shared.place.clone(), id.to_owned());
        on_pool(move || read::salvage(&place, &id, rows)).await
    }
}
