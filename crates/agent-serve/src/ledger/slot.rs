//! The sessions of ledgers. Each has one process that writes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_core::{Environment, SessionId, Spending, Timestamp};
use agent_session::{SessionError, SessionStore, SessionWriter};

use super::document::{AGENT, Document};
use super::recorded;

/// The number of processes that can have a ledger in one store at once.
const MOST: usize = 64;

/// The ledger of this process.
#[derive(Debug)]
pub(super) struct Slot {
    store: Arc<dyn SessionStore>,
    id: SessionId,
    /// `None` after an error: the session is opened again with the next write.
    writer: Option<Box<dyn SessionWriter>>,
    saved: Document,
    /// A random id of this process.
    process: String,
}

impl Slot {
    pub(super) fn new(store: Arc<dyn SessionStore>) -> Self {
        let (id, saved, process) = (SessionId::from(""), Document::default(), String::new());
        Self { store, id, writer: None, saved, process }
    }

    /// Takes the first ledger that no process has, counts the runs that ended processes have left, and returns the document and
    /// the sums of all ledgers.
    pub(super) async fn open(
        &mut self,
        sessions: &dyn SessionStore,
        environment: &dyn Environment,
    ) -> Result<(Document, BTreeMap<String, Spending>), SessionError> {
        let mut sums = BTreeMap::new();
        let now = environment.now();
        (self.writer, self.process) = (None, environment.random_id());
        for number in 0..MOST {
            let id = SessionId::from(format!("{AGENT}-{number}"));
            let (mut writer, found) = match self.store.write_session(id.as_str()).await {
                Ok(opened) => opened,
                Err(SessionError::Locked { .. } | SessionError::LeaseLost { .. }) => {
                    match self.store.load_session(id.as_str()).await {
                        Ok(other) => add(&mut sums, &Document::of_session(&other)?),
                        // Its process has written nothing yet.
                        Err(SessionError::NotFound { .. }) => {}
                        Err(error) => return Err(error),
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut document = Document::default();
            if let Some(found) = &found {
                document = Document::of_session(found)?;
                if settle_left(&mut document, sessions).await? {
                    writer.save(document.clone().into_session(&id, now)?).await?;
                }
                add(&mut sums, &document);
            }
            if self.writer.is_none() {
                (self.id, self.writer, self.saved) = (id, Some(writer), document);
            }
            if found.is_none() {
                return Ok((self.saved.clone(), sums));
            }
        }
        match self.writer {
            Some(_) => Ok((self.saved.clone(), sums)),
            None => {
                Err(SessionError::Locked { lock: format!("{MOST} ledgers of {}", self.store.describe()) })
            }
        }
    }

    /// Opens the session again after an error. Returns what another process has counted in it meanwhile.
    pub(super) async fn reopen(&mut self) -> Result<Option<Document>, SessionError> {
        if self.writer.is_some() {
            return Ok(None);
        }
        let (writer, found) = self.store.write_session(self.id.as_str()).await?;
        let stored = found.as_ref().map(Document::of_session).transpose()?.unwrap_or_default();
        let others = (stored.process != self.process).then(|| stored.beyond(&self.saved));
        (self.writer, self.saved) = (Some(writer), stored);
        Ok(others)
    }

    pub(super) async fn save(&mut self, mut document: Document, now: Timestamp) -> Result<(), SessionError> {
        document.process.clone_from(&self.process);
        let session = document.clone().into_session(&self.id, now)?;
        let Some(mut writer) = self.writer.take() else {
            return Err(SessionError::store("the ledger of the keys", "written", "it was not opened"));
        };
        writer.save(session).await?;
        (self.writer, self.saved) = (Some(writer), document);
        Ok(())
    }
}

fn add(sums: &mut BTreeMap<String, Spending>, document: &Document) {
    for (name, entry) in document.keys() {
        let sum = sums.entry(name.to_owned()).or_default();
        let time_ms = sum.time_ms.max(entry.spent.time_ms);
        *sum = sum.plus(&entry.spent);
        // Each ledger has the time of the key from its start on, with what was counted before.
        sum.time_ms = time_ms;
    }
}

/// Counts the marked runs of an ended process by their sessions. Returns whether there was one.
async fn settle_left(document: &mut Document, sessions: &dyn SessionStore) -> Result<bool, SessionError> {
    let mut changes = false;
    for entry in document.keys_mut() {
        for (id, mark) in std::mem::take(&mut entry.open) {
            match sessions.load_session(id.as_str()).await {
                Ok(session) => entry.spent = entry.spent.plus(&recorded::since(&session, &mark)),
                Err(SessionError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(session = %id, %error, "what a run has spent cannot be read, and is not counted yet");
                    entry.open.insert(id, mark);
                    continue;
                }
            }
            changes = true;
        }
    }
    Ok(changes)
}
