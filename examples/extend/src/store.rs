//! A session store over the embedded database `redb`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use looptree::identity::SessionId;
use looptree::session::{
    BoxError, LoadedSession, PendingWrite, Session, SessionError, SessionRecord, SessionStore, SessionWriter,
};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction};

/// The last save of each session, or its head until there is one, as JSON.
const SESSIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("sessions");
/// The records since then, by session and number.
const RECORDS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("records");
/// The number of the last record that the last save contains.
const SAVED: TableDefinition<'_, &str, u64> = TableDefinition::new("saved");

/// A store in one file. `redb` locks the file, so that only one process has it open. Clones share the database.
#[derive(Debug, Clone)]
pub struct RedbStore {
    database: Arc<Database>,
    /// The sessions that have a writer.
    written: Arc<Mutex<BTreeSet<String>>>,
}

impl RedbStore {
    /// Opens the database and creates it if it does not exist. Blocks.
    pub fn open(path: &Path) -> Result<Self, SessionError> {
        let open = || -> Result<Database, BoxError> {
            let database = Database::create(path)?;
            let tx = database.begin_write()?;
            drop((tx.open_table(SESSIONS)?, tx.open_table(RECORDS)?, tx.open_table(SAVED)?));
            tx.commit()?;
            Ok(database)
        };
        let database = open().map_err(|e| SessionError::store(path.display().to_string(), "opened", e))?;
        Ok(Self { database: Arc::new(database), written: Arc::default() })
    }

    fn written(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs blocking work on the runtime's pool.
    async fn run<T: Send + 'static>(
        &self,
        what: &str,
        action: &'static str,
        work: impl FnOnce(&Database) -> Result<T, BoxError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let (database, what) = (Arc::clone(&self.database), format!("the session {what}"));
        let done = tokio::task::spawn_blocking(move || work(&database)).await;
        done.map_err(BoxError::from).flatten().map_err(|error| SessionError::store(what, action, error))
    }

    async fn stored(&self, id: &str) -> Result<Option<Session>, SessionError> {
        let key = id.to_owned();
        self.run(id, "read", move |database| read(database, &key)).await
    }

    fn not_found(&self, id: &str) -> SessionError {
        SessionError::NotFound { id: id.to_owned(), store: self.describe() }
    }
}

/// Reads a session: its last save and the records since then.
fn read(database: &Database, id: &str) -> Result<Option<Session>, BoxError> {
    let tx = database.begin_read()?;
    let Some(saved) = tx.open_table(SESSIONS)?.get(id)?.map(|json| json.value().to_vec()) else {
        return Ok(None);
    };
    let session: Session = serde_json::from_slice(&saved)?;
    let mut records = Vec::new();
    for row in tx.open_table(RECORDS)?.range((id, 0)..=(id, u64::MAX))? {
        records.push(row?.1.value().to_vec());
    }
    Ok(Some(session.with_records(records)?))
}

/// Removes the records of a session.
fn clear(tx: &WriteTransaction, id: &str) -> Result<(), BoxError> {
    tx.open_table(RECORDS)?.retain_in((id, 0)..=(id, u64::MAX), |_, _| false)?;
    Ok(())
}

/// Stores a session as a whole, which contains its records up to the number `last`.
fn replace(database: &Database, id: &str, session: &Session, last: Option<u64>) -> Result<(), BoxError> {
    let json = serde_json::to_vec(session)?;
    let tx = database.begin_write()?;
    tx.open_table(SESSIONS)?.insert(id, json.as_slice())?;
    if let Some(last) = last {
        tx.open_table(SAVED)?.insert(id, last)?;
    }
    clear(&tx, id)?;
    Ok(tx.commit()?)
}

/// Stores a record. The first one of a session brings the head. A record that a save already contains is skipped.
fn append(
    database: &Database,
    id: &str,
    number: u64,
    line: &[u8],
    head: Option<&[u8]>,
) -> Result<(), BoxError> {
    let tx = database.begin_write()?;
    let saved = tx.open_table(SAVED)?.get(id)?.map_or(0, |last| last.value());
    if number > saved {
        let mut sessions = tx.open_table(SESSIONS)?;
        if let Some(head) = head
            && sessions.get(id)?.is_none()
        {
            sessions.insert(id, head)?;
        }
        tx.open_table(RECORDS)?.insert((id, number), line)?;
    }
    Ok(tx.commit()?)
}

#[async_trait]
impl SessionStore for RedbStore {
    fn describe(&self) -> String {
        "a redb database".to_owned()
    }

    async fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        let id = session.session_id.to_string();
        // The writer's place is taken meanwhile, so that nothing is appended between reading and writing.
        let place = Place::take(self, &id)?;
        let (key, session) = (id.clone(), session.clone());
        let saved = self.run(&id, "saved", move |database| {
            let merged = match read(database, &key)? {
                Some(stored) => session.merged_into(stored),
                None => session,
            };
            replace(database, &key, &merged, None)
        });
        let saved = saved.await;
        drop(place);
        saved
    }

    async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        let session = self.stored(id).await?.ok_or_else(|| self.not_found(id))?;
        let loaded = LoadedSession::new(session);
        Ok(if self.written().contains(id) { loaded } else { loaded.interrupted() })
    }

    async fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        let _place = Place::take(self, id)?;
        let key = id.to_owned();
        let deleted = self.run(id, "deleted", move |database| {
            let tx = database.begin_write()?;
            let existed = tx.open_table(SESSIONS)?.remove(key.as_str())?.is_some();
            tx.open_table(SAVED)?.remove(key.as_str())?;
            clear(&tx, &key)?;
            tx.commit()?;
            Ok(existed)
        });
        if deleted.await? { Ok(()) } else { Err(self.not_found(id)) }
    }

    async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        let ids = self.run("list", "read", |database| {
            let sessions = database.begin_read()?.open_table(SESSIONS)?;
            let mut ids = Vec::new();
            for row in sessions.iter()? {
                let (id, json) = row?;
                let session: Session = serde_json::from_slice(json.value())?;
                ids.push((session.last_active_at, SessionId::from(id.value())));
            }
            ids.sort_by(|a, b| b.cmp(a));
            Ok(ids.into_iter().map(|(_, id)| id).collect())
        });
        ids.await
    }

    async fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
        let place = Place::take(self, id)?;
        let found = self.stored(id).await?;
        Ok((Box::new(RedbWriter { place, has_head: found.is_some(), last: 0 }), found))
    }
}

/// The right to write a session, until it is dropped.
#[derive(Debug)]
struct Place {
    store: RedbStore,
    id: String,
}

impl Place {
    fn take(store: &RedbStore, id: &str) -> Result<Self, SessionError> {
        if !store.written().insert(id.to_owned()) {
            return Err(SessionError::Locked { lock: format!("{id} in {}", store.describe()) });
        }
        Ok(Self { store: store.clone(), id: id.to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.store.written().remove(&self.id);
    }
}

#[derive(Debug)]
struct RedbWriter {
    place: Place,
    has_head: bool,
    /// The number of the last record.
    last: u64,
}

#[async_trait]
impl SessionWriter for RedbWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError> {
        let head = if self.has_head { None } else { Some(encode(&record.head()?)?) };
        let (store, id) = (self.place.store.clone(), self.place.id.clone());
        let (number, line) = (record.number, record.line.to_vec());
        self.last = number;
        Ok(Some(Box::pin(async move {
            let key = id.clone();
            store.run(&id, "written", move |db| append(db, &key, number, &line, head.as_deref())).await
        })))
    }

    async fn save(&mut self, session: Session) -> Result<(), SessionError> {
        let (id, last) = (self.place.id.clone(), self.last);
        let last = Some(last).filter(|last| *last > 0);
        self.place.store.run(&self.place.id, "saved", move |db| replace(db, &id, &session, last)).await?;
        self.has_head = true;
        Ok(())
    }
}

fn encode(session: &Session) -> Result<Vec<u8>, SessionError> {
    serde_json::to_vec(session).map_err(|source| SessionError::Encode { what: "the session", source })
}
