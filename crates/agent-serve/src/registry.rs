//! The conversations in memory. Each is made or loaded once, however many requests want it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::compat::SeedSetters as _;
use agent_core::{AgentId, BudgetSnapshot, CancellationToken, SessionId};
use agent_session::{LoadedSession, RestoreSession as _, Session, SessionError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::agents::{AgentFactory, BoxError, ConversationRef, ServedAgent};
use crate::conversation::events::Ring;
use crate::conversation::replay::count;
use crate::conversation::requests::Requests;
use crate::conversation::{Conversation, Parts, Shared};
use crate::environment::LeavableEnvironment;
use crate::keys::Account;
use crate::ledger::{self, Mark};

/// Why a conversation could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// There is no such conversation, or it belongs to another key.
    #[error("there is no conversation {0}")]
    NotFound(SessionId),
    /// All conversations in memory work.
    #[error(
        "all {most} conversations that the server has in memory work; try again when one of them is idle"
    )]
    Full {
        /// The number of conversations in memory.
        most: usize,
    },
    /// All conversations of the key in memory work.
    #[error(
        "all {most} conversations that the key can have in memory work or are read; wait for one, or abort it"
    )]
    KeyFull {
        /// The number of conversations of a key in memory.
        most: usize,
    },
    /// The store has all conversations of the key that it can have.
    #[error(
        "the store has {most} conversations of the key, which is its bound; delete one: DELETE /v1/conversations/ID"
    )]
    StoreFull {
        /// The number of conversations of a key in the store.
        most: usize,
    },
    /// Another process writes the session.
    #[error("another process has the conversation open")]
    Locked,
    /// The agent of the conversation is not served any more.
    #[error("this server has no agent {0}")]
    NoAgent(String),
    /// The factory failed, or its agent cannot continue the session.
    #[error("the agent of the conversation could not be made: {0}")]
    Agent(#[source] BoxError),
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A key was used for another request.
    #[error("an earlier request with this idempotency key asked something else")]
    OtherRequest,
    /// The service is shutting down.
    #[error("the server is shutting down")]
    Closing,
}

/// The interval in which a task that waits for a place looks for an idle conversation.
const RECHECK: Duration = Duration::from_millis(200);

/// A conversation in memory, or the place where one is being loaded or released.
type Cell = Arc<tokio::sync::Mutex<Option<Arc<Conversation>>>>;

/// The place of a conversation among all and among those of its key.
#[derive(Debug)]
pub(crate) struct Place {
    _own: Option<OwnedSemaphorePermit>,
    _place: OwnedSemaphorePermit,
}

/// The conversations in memory.
#[derive(Debug)]
pub(crate) struct Registry {
    shared: Arc<Shared>,
    cells: Mutex<BTreeMap<SessionId, Cell>>,
    places: Arc<Semaphore>,
    closing: CancellationToken,
}

impl Registry {
    pub(crate) fn new(shared: Arc<Shared>, closing: CancellationToken) -> Self {
        let places = Arc::new(Semaphore::new(shared.limits.open_conversations));
        Self { shared, cells: Mutex::default(), places, closing }
    }

    fn cells(&self) -> MutexGuard<'_, BTreeMap<SessionId, Cell>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, id: &SessionId) -> Cell {
        Arc::clone(self.cells().entry(id.clone()).or_default())
    }

    /// Removes the cell of a conversation that is not in memory, unless others wait for it.
    fn forget(&self, id: &SessionId, cell: Cell) {
        let mut cells = self.cells();
        drop(cell);
        if let Some(cell) = cells.get(id)
            && Arc::strong_count(cell) == 1
            && cell.try_lock().is_ok_and(|held| held.is_none())
        {
            cells.remove(id);
        }
    }

    /// Returns the conversation if it is in memory.
    pub(crate) async fn get(&self, id: &SessionId) -> Option<Arc<Conversation>> {
        let cell = self.cells().get(id).map(Arc::clone)?;
        let conversation = cell.lock().await.as_ref().filter(|held| !held.is_closed()).map(Arc::clone);
        self.forget(id, cell);
        conversation
    }

    /// Returns the conversation, and loads it if it is not in memory.
    pub(crate) async fn open(
        &self,
        of: &ConversationRef,
        account: &Account,
        factory: &dyn AgentFactory,
        wait: Wait,
    ) -> Result<Arc<Conversation>, OpenError> {
        let cell = self.cell(&of.id);
        let mut held = cell.lock().await;
        let opened = match held.as_ref().filter(|held| !held.is_closed()) {
            Some(conversation) if conversation.of.key == account.name => Ok(Arc::clone(conversation)),
            Some(_) => Err(OpenError::NotFound(of.id.clone())),
            None => {
                let loaded = self.load(of, account, factory, wait).await;
                if let Ok(conversation) = &loaded {
                    *held = Some(Arc::clone(conversation));
                }
                loaded
            }
        };
        drop(held);
        self.forget(&of.id, cell);
        opened
    }

    async fn load(
        &self,
        of: &ConversationRef,
        account: &Account,
        factory: &dyn AgentFactory,
        wait: Wait,
    ) -> Result<Arc<Conversation>, OpenError> {
        if self.closing.is_cancelled() {
            return Err(OpenError::Closing);
        }
        // Checked before anything is made for the conversation, and before its lock can tell that it exists.
        if self.owner(&of.id).await?.is_none_or(|owner| owner.as_str() != account.owner()) {
            return Err(OpenError::NotFound(of.id.clone()));
        }
        let place = self.place(account, wait).await?;
        let ServedAgent {
            mut agent,
            #[cfg(feature = "files")]
            workspace,
            companion,
        } = factory.make(of).await.map_err(OpenError::Agent)?;
        let left = CancellationToken::new();
        if agent.config().services.budget.is_some() {
            let text = "the factory gave its agent a budget, which would replace that of the key; use Key::with_budget or \
                        Limits::conversation_budget";
            return Err(OpenError::Agent(text.into()));
        }
        let budget =
            account.budget.child(format!("conversation {}", of.id), self.shared.limits.conversation_budget);
        let own = budget.clone();
        agent.set_config(|config| {
            let inner = Arc::clone(&config.services.environment);
            config.services.environment = Arc::new(LeavableEnvironment::new(inner, left.clone()));
            config.services.budget = Some(own);
        });
        let agent = agent.with_agent_id(account.owner());
        let store = Arc::clone(&self.shared.store);
        let (agent, recorder) =
            agent.restore_session(store, of.id.as_str()).await.map_err(|error| match error {
                SessionError::NotFound { .. } | SessionError::InvalidId { .. } => {
                    OpenError::NotFound(of.id.clone())
                }
                SessionError::Locked { .. } | SessionError::LeaseLost { .. } => OpenError::Locked,
                error @ SessionError::Missing { .. } => OpenError::Agent(Box::new(error)),
                error => OpenError::Session(error),
            })?;
        let session = recorder.read_session(of.id.as_str())?;
        let (last, current) = session.as_ref().map(count).unwrap_or_default();
        let requests = session.as_ref().map(Requests::of_session).unwrap_or_default();
        let mut counted = Mark::default();
        if let Some(session) = session.map(LoadedSession::new) {
            let run = session.open_run().ok().flatten();
            let mut known = run.and_then(|run| run.budget().accounts.first().copied()).unwrap_or_default();
            (counted.last_loop, counted.loop_spent) = ledger::last_loop(&session);
            known.spent = known.spent.max(&ledger::of_session(&session));
            counted.account = known.spent;
            // Only of the conversation: the budget of the key has it from the ledger.
            let mut spent = BudgetSnapshot::default();
            spent.accounts.push(known);
            budget.restore(&spent);
        }
        let limits = &self.shared.limits;
        let ring = Ring::new(last, current, limits.buffered_events, limits.buffered_bytes);
        let parts = Parts {
            of: of.clone(),
            agent,
            recorder,
            ring,
            requests,
            budget,
            counted,
            left,
            #[cfg(feature = "files")]
            workspace,
            companion,
            place: Box::new(place),
        };
        Ok(Arc::new(Conversation::new(Arc::clone(&self.shared), parts)))
    }

    /// Returns the owner of a stored conversation.
    pub(crate) async fn owner(&self, id: &SessionId) -> Result<Option<AgentId>, SessionError> {
        match self.shared.store.load_session(id.as_str()).await {
            Err(SessionError::NotFound { .. } | SessionError::InvalidId { .. }) => Ok(None),
            stored => Ok(Some(stored?.agent_id.clone())),
        }
    }

    /// Returns a place for a conversation of the account. Releases an idle one if there is none.
    async fn place(&self, account: &Account, wait: Wait) -> Result<Place, OpenError> {
        let own = &account.bounds.conversations;
        loop {
            let taken = own.take();
            let full = match (&taken, Arc::clone(&self.places).try_acquire_owned()) {
                (Some(_), Ok(place)) => return Ok(Place { _own: taken, _place: place }),
                (Some(_), Err(_)) => OpenError::Full { most: self.shared.limits.open_conversations },
                (None, _) => OpenError::KeyFull { most: own.most },
            };
            let key = taken.is_none().then_some(&*account.name);
            drop(taken);
            if self.release_one(Duration::ZERO, key).await {
                continue;
            }
            if wait == Wait::No {
                return Err(full);
            }
            tokio::select! {
                () = self.closing.cancelled() => return Err(OpenError::Closing),
                // A conversation can have become idle.
                () = tokio::time::sleep(RECHECK) => {}
            }
        }
    }

    /// Releases the conversations that have been idle for this time.
    pub(crate) async fn release_idle(&self, idle_time: Duration) {
        while self.release_one(idle_time, None).await {}
    }

    /// Releases the conversation, of this key or of all, that has been idle for the longest time, if that is at least this one.
    async fn release_one(&self, idle_time: Duration, key: Option<&str>) -> bool {
        let all: Vec<(SessionId, Cell)> =
            self.cells().iter().map(|(id, cell)| (id.clone(), Arc::clone(cell))).collect();
        let mut oldest: Option<(Duration, SessionId)> = None;
        for (id, cell) in &all {
            // A cell that is locked is being loaded or released.
            let Ok(held) = cell.try_lock() else { continue };
            let Some(conversation) = held.as_ref() else { continue };
            if key.is_some_and(|key| *conversation.of.key != *key) {
                continue;
            }
            let Some(idle) = conversation.idle_for() else { continue };
            if idle >= idle_time && oldest.as_ref().is_none_or(|(longest, _)| idle > *longest) {
                oldest = Some((idle, id.clone()));
            }
        }
        drop(all);
        match oldest {
            Some((_, id)) => self.release(&id).await,
            None => false,
        }
    }

    /// Saves a conversation without an open run and removes it from memory. Returns whether it was there.
    pub(crate) async fn release(&self, id: &SessionId) -> bool {
        let Some(cell) = self.cells().get(id).map(Arc::clone) else { return false };
        let mut held = cell.lock().await;
        let released = match held.as_ref() {
            Some(conversation) if conversation.shut() => {
                conversation.close().await;
                *held = None;
                true
            }
            _ => false,
        };
        drop(held);
        self.forget(id, cell);
        released
    }

    /// Lets runs end for some time, and then leaves those that are still open, saves all conversations and closes them.
    pub(crate) async fn close_all(&self, drain_time: Duration) {
        let cells: Vec<Cell> = self.cells().values().map(Arc::clone).collect();
        let mut all = Vec::new();
        for cell in cells {
            all.extend(cell.lock().await.as_ref().map(Arc::clone));
        }
        let ends = futures_util::future::join_all(all.iter().map(|conversation| conversation.wait_for_end()));
        let _ = tokio::time::timeout(drain_time, ends).await;
        futures_util::future::join_all(all.iter().map(|conversation| conversation.close())).await;
        self.cells().clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.cells().len()
    }

    /// Creates the conversation of a request with an idempotency key, unless an earlier request has.
    pub(crate) async fn create_once(
        &self,
        of: &ConversationRef,
        account: &Account,
    ) -> Result<Created, OpenError> {
        // The same request may come twice at once.
        let cell = self.cell(&of.id);
        let held = cell.lock().await;
        let created = match (held.is_some(), self.owner(&of.id).await) {
            (true, _) | (_, Ok(Some(_))) => Ok(Created::Before),
            (false, Ok(None)) => self.create(of, account).await.map(|()| Created::Now),
            (false, Err(error)) => Err(error.into()),
        };
        drop(held);
        self.forget(&of.id, cell);
        created
    }

    /// Creates an empty session for a new conversation.
    pub(crate) async fn create(&self, of: &ConversationRef, account: &Account) -> Result<(), OpenError> {
        if self.closing.is_cancelled() {
            return Err(OpenError::Closing);
        }
        let now = self.shared.environment.now();
        let session = Session::new(of.id.clone(), account.owner().into(), now);
        Ok(self.shared.store.save_session(&session).await?)
    }
}

/// Whether a conversation is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    Now,
    /// An earlier request with the same key has created it.
    Before,
}

/// Whether opening a conversation waits for a place in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It fails if there is none.
    No,
    /// It waits until a conversation was released.
    UntilFree,
}
