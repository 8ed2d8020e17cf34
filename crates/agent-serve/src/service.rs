//! The service: its parts, its start, and its end.
//!
//! ```
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_serve::{ConversationRef, Service, ServiceError};
//! # let folder = tempfile::tempdir()?;
//! let store = agent_session::JsonStore::open(folder.path())?;
//! assert!(matches!(Service::builder(store.clone()).build(), Err(ServiceError::NoAgent)));
//! let service = Service::builder(store)
//!     .agent("assistant", |_: &ConversationRef| BasicAgent::new(ModelConfig::default()))
//!     .build()?;
//! assert_eq!(service.agents().collect::<Vec<_>>(), ["assistant"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::budget::Spending;
use agent_core::{BasicAgent, CancellationToken, Environment, Money, SessionId, SystemEnvironment};
use agent_session::{MAX_PAGE, SessionError, SessionQuery, SessionStore};
use tokio::net::TcpListener;
use tokio::sync::{OnceCell, Semaphore};

use crate::agents::{AgentFactory, ConversationRef};
use crate::conversation::requests::RequestId;
use crate::conversation::{Conversation, Shared, StartError, Started};
use crate::keys::{Account, Accounts, Key, KeyError, owning_key};
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::registry::{Created, OpenError, Registry, Wait};
use crate::serving::{ConnectionLimits, accept};

/// The maximum number of sessions that are read from the store at once, for events and views.
const MAX_READS: usize = 4;

/// The maximum length of the name of an agent in bytes.
const MAX_AGENT_NAME_BYTES: usize = 40;

/// Begins the last part of the id of a conversation that is deleted after its only answer.
const ONCE: &str = "once";

/// An HTTP service for agents. Cloning is cheap, and clones are the same service.
///
/// ```
/// # use agent_core::{BasicAgent, ModelConfig, Secret};
/// # use agent_serve::{ConversationRef, Key, Service};
/// # fn example(store: agent_session::JsonStore) -> Result<(), Box<dyn std::error::Error>> {
/// let service = Service::builder(store)
///     .agent("assistant", |_: &ConversationRef| BasicAgent::new(ModelConfig::ollama("qwen3")))
///     .key(Key::new("alice", &Secret::new("a-token-of-16-chars-or-more"))?)
///     .build()?;
/// let routes: axum::Router = service.router();
/// # drop(routes);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Service {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) registry: Registry,
    pub(crate) accounts: Accounts,
    pub(crate) reads: Arc<Semaphore>,
    pub(crate) closing: CancellationToken,
    /// Set when the budgets of the keys have what was spent before.
    counted: OnceCell<()>,
    agents: BTreeMap<Arc<str>, Arc<dyn AgentFactory>>,
    default_agent: Arc<str>,
    recovery: Recovery,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("agents", &self.inner.agents.keys().collect::<Vec<_>>())
            .field("keys", &self.inner.accounts.all().count())
            .field("limits", &self.inner.shared.limits)
            .finish_non_exhaustive()
    }
}

/// What a service does at its start with runs that a killed or stopped process has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Recovery {
    /// They are resumed. Runs that wait for an answer keep waiting.
    #[default]
    Resume,
    /// They stay in the store until a client resumes them.
    Leave,
}

/// Why a service cannot be built or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// No agent was added.
    #[error("the service has no agent; add one with ServiceBuilder::agent")]
    NoAgent,
    /// The name of an agent is not 1 to 40 lower-case letters, digits, `_` and `.`, or two agents have it.
    #[error("{name:?} cannot name an agent: {reason}")]
    AgentName {
        /// The name as it was given.
        name: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A service without keys would listen on an address that other machines reach.
    #[error(
        "{address} is reachable from other machines, and the service has no keys; add a key, or listen on 127.0.0.1"
    )]
    NoKeys {
        /// The address of the listener.
        address: SocketAddr,
    },
    /// The store could not be read.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The listener has no address.
    #[error("the listener has no address: {0}")]
    Listener(#[from] std::io::Error),
}

/// Builds a [`Service`] from a store, agents, keys and limits.
#[must_use]
pub struct ServiceBuilder {
    store: Arc<dyn SessionStore>,
    ledger: Option<Arc<dyn SessionStore>>,
    agents: Vec<(Arc<str>, Arc<dyn AgentFactory>)>,
    keys: Vec<Key>,
    limits: Limits,
    recovery: Recovery,
    environment: Arc<dyn Environment>,
}

impl fmt::Debug for ServiceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBuilder").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl ServiceBuilder {
    /// Adds an agent that a closure makes. The first one is the default.
    pub fn agent(
        self,
        name: impl Into<Arc<str>>,
        make: impl Fn(&ConversationRef) -> BasicAgent + Send + Sync + 'static,
    ) -> Self {
        self.agent_factory(name, make)
    }

    /// Adds an agent that a factory makes. The first one is the default.
    pub fn agent_factory(mut self, name: impl Into<Arc<str>>, factory: impl AgentFactory + 'static) -> Self {
        self.agents.push((name.into(), Arc::new(factory)));
        self
    }

    /// Adds a key. Without a key, the service answers requests of this machine only.
    pub fn key(mut self, key: Key) -> Self {
        self.keys.push(key);
        self
    }

    /// Adds the keys of several clients.
    pub fn keys(mut self, keys: impl IntoIterator<Item = Key>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// Sets the bounds of the service.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the store of the ledger, a session named `serve-ledger-N` with what each key has spent. It must last as long as the
    /// budgets. Use another store than that of the conversations to keep it out of their lists. Default: the same one.
    pub fn ledger_store(mut self, store: impl SessionStore + 'static) -> Self {
        self.ledger = Some(Arc::new(store));
        self
    }

    /// Sets what happens at the start with runs that another process has left. Default: [`Recovery::Resume`].
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Sets the source of time, tasks and random ids. Default: the system's.
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// Builds the service.
    ///
    /// # Errors
    /// [`ServiceError::NoAgent`], [`ServiceError::AgentName`] and [`ServiceError::Key`].
    pub fn build(self) -> Result<Service, ServiceError> {
        let default_agent = self.agents.first().map(|(name, _)| Arc::clone(name));
        let default_agent = default_agent.ok_or(ServiceError::NoAgent)?;
        let mut agents = BTreeMap::new();
        for (name, factory) in self.agents {
            let is_sign = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
            let refuse = |reason| Err(ServiceError::AgentName { name: name.to_string(), reason });
            if name.is_empty() || name.len() > MAX_AGENT_NAME_BYTES || !name.chars().all(is_sign) {
                return refuse("use 1 to 40 lower-case letters, digits, and the signs _ .");
            }
            if name.starts_with('.') {
                return refuse("it begins with a dot");
            }
            if agents.contains_key(&name) {
                return refuse("another agent has it");
            }
            agents.insert(name, factory);
        }
        let ledger = self.ledger.unwrap_or_else(|| Arc::clone(&self.store));
        let shared = Arc::new(Shared {
            store: self.store,
            ledger: Arc::new(Ledger::new(ledger, Arc::clone(&self.environment))),
            limits: self.limits,
            metrics: Metrics::new(),
            environment: self.environment,
        });
        let closing = CancellationToken::new();
        let inner = Inner {
            registry: Registry::new(Arc::clone(&shared), closing.clone()),
            accounts: Accounts::new(&self.keys, &shared.limits)?,
            shared,
            reads: Arc::new(Semaphore::new(MAX_READS)),
            closing,
            counted: OnceCell::new(),
            agents,
            default_agent,
            recovery: self.recovery,
        };
        Ok(Service { inner: Arc::new(inner) })
    }
}

impl Service {
    /// Begins a service whose conversations are sessions of this store.
    pub fn builder(store: impl SessionStore + 'static) -> ServiceBuilder {
        ServiceBuilder {
            store: Arc::new(store),
            ledger: None,
            agents: Vec::new(),
            keys: Vec::new(),
            limits: Limits::default(),
            recovery: Recovery::default(),
            environment: Arc::new(SystemEnvironment),
        }
    }

    /// Reads from the ledger what the keys have spent, and resumes the runs that another process has left. Call it once, before
    /// the first request; [`serve`](Self::serve) does. Resumed runs work in tasks of their own.
    ///
    /// # Errors
    /// [`ServiceError::Session`] when the ledger cannot be read or written, or the store cannot be listed.
    pub async fn recover(&self) -> Result<(), ServiceError> {
        self.count_spending().await?;
        if self.inner.recovery == Recovery::Leave {
            return Ok(());
        }
        let found = self.inner.shared.store.list_unfinished().await?;
        for (id, error) in &found.unreadable {
            tracing::warn!(session = %id, %error, "a session could not be read, so its run is not resumed");
        }
        for run in found.runs {
            let key = owning_key(run.agent_id.as_str());
            let Some(account) = key.and_then(|key| self.inner.accounts.named(key)) else { continue };
            if !run.questions.is_empty() {
                continue;
            }
            let (service, account, id) = (self.clone(), Arc::clone(account), run.session_id);
            self.inner.shared.spawn(async move { service.resume_left(&account, &id).await });
        }
        Ok(())
    }

    async fn resume_left(&self, account: &Account, id: &SessionId) {
        if is_once(id) {
            // Its client has gone with the process.
            let _ = self.delete(account, id).await;
            return;
        }
        let resumed = loop {
            match self.open_waiting(account, id).await {
                Err(error) => break Err(error.to_string()),
                Ok(conversation) => match conversation.start(None, agent_core::AgentHandle::resume).await {
                    // It was released for another one that waits.
                    Err(StartError::Closed) => {}
                    started => break started.map_err(|error| format!("{error:?}")),
                },
            }
        };
        match resumed {
            Ok(_) => tracing::info!(session = %id, "a run that another process left was resumed"),
            Err(error) => tracing::warn!(session = %id, error, "a run could not be resumed"),
        }
    }

    /// Charges the accounts with what the ledger has counted, once. A key that no ledger has is counted by its sessions: another
    /// version has served it, or the operator has deleted the ledger.
    pub(crate) async fn count_spending(&self) -> Result<(), SessionError> {
        let counted = self.inner.counted.get_or_try_init(|| async {
            let Shared { ledger, store, .. } = &*self.inner.shared;
            let sums = ledger.open(&**store).await?;
            let mut counted = Vec::new();
            for account in self.inner.accounts.all() {
                let spent = match sums.get(&*account.name) {
                    Some(spent) => *spent,
                    None => {
                        let spent = self.stored_spending(account).await?;
                        ledger.add_key(&account.name, spent).await?;
                        spent
                    }
                };
                counted.push((account, spent));
            }
            // Only now, so that a second attempt after an error counts nothing twice.
            for (account, spent) in counted {
                account.budget.charge(spent);
            }
            Ok::<_, SessionError>(())
        });
        counted.await?;
        Ok(())
    }

    /// Returns what the stored sessions of the account have spent.
    async fn stored_spending(&self, account: &Account) -> Result<Spending, SessionError> {
        let mut query = SessionQuery::new().with_agent(account.owner()).page(0, MAX_PAGE);
        let mut spent = Spending::default();
        loop {
            let found = self.inner.shared.store.find_sessions(&query).await?;
            for session in &found.sessions {
                let (usage, cost) = (session.summary.usage, session.summary.cost_micros);
                let tokens = usage.prompt_tokens().saturating_add(usage.output);
                spent = spent.plus(&Spending::of_tokens(tokens));
                spent = spent.plus(&Spending::of_money(Money::from_micros(cost)));
            }
            let next = query.offset + found.sessions.len();
            if found.sessions.is_empty() || next >= found.total {
                return Ok(spent);
            }
            query.offset = next;
        }
    }

    /// Serves until `stop` completes: recovers, answers requests, and shuts down.
    ///
    /// At the end no further request is accepted, open runs get [`Limits::drain_time`] to end, and the others are left in the
    /// store, where the next process finds and resumes them.
    ///
    /// # Errors
    /// [`ServiceError::NoKeys`] for an address outside of this machine if there is no key, [`ServiceError::Session`] when the
    /// store cannot be listed, and [`ServiceError::Listener`].
    pub async fn serve(
        &self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ServiceError> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && self.inner.accounts.open().is_some() {
            return Err(ServiceError::NoKeys { address });
        }
        self.recover().await?;
        let limits = &self.inner.shared.limits;
        let connections = ConnectionLimits {
            connections: limits.connections,
            head_time: limits.head_time,
            write_time: limits.write_time,
        };
        let closed = self.inner.shared.metrics.closed.clone();
        let tend = async {
            loop {
                tokio::time::sleep(limits.idle_time / 4).await;
                self.inner.registry.release_idle(limits.idle_time).await;
            }
        };
        let until = async {
            tokio::select! {
                () = stop => {}
                () = tend => {}
            }
            // Streams end by themselves when the service closes, and their connections with them.
            self.shutdown().await;
        };
        accept(listener, self.router(), connections, closed, until).await;
        Ok(())
    }

    /// Lets open runs end for [`Limits::drain_time`], leaves the others as they were journaled, and saves and closes all
    /// sessions. Requests that would start a run are answered with 503 from now on.
    pub async fn shutdown(&self) {
        self.inner.closing.cancel();
        self.inner.registry.close_all(self.inner.shared.limits.drain_time).await;
    }

    /// Returns the names of the agents, in their order.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.inner.agents.keys().map(|name| &**name)
    }

    /// Returns the number of conversations in memory.
    #[must_use]
    pub fn open_conversations(&self) -> usize {
        self.inner.registry.len()
    }
}

/// Operations on conversations, which the routes use.
impl Service {
    /// Creates a conversation with an agent; `None` is the default one. A request with an id creates one.
    pub(crate) async fn create(
        &self,
        account: &Account,
        agent: Option<&str>,
        lifetime: Lifetime,
        request: Option<&RequestId>,
    ) -> Result<(ConversationRef, Created), OpenError> {
        let agent = match agent {
            None => Arc::clone(&self.inner.default_agent),
            Some(name) => match self.inner.agents.get_key_value(name) {
                Some((name, _)) => Arc::clone(name),
                None => return Err(OpenError::NoAgent(name.chars().take(MAX_AGENT_NAME_BYTES).collect())),
            },
        };
        let random = match request {
            None => self.inner.shared.environment.random_id().replace('-', ""),
            Some(request) => request.conversation(&account.owner()),
        };
        if request.is_some() {
            for other in self.inner.agents.keys().filter(|other| **other != agent) {
                // The same key with another agent asks something else.
                if self.inner.registry.owner(&SessionId::from(format!("{other}-{random}"))).await?.is_some() {
                    return Err(OpenError::OtherRequest);
                }
            }
        }
        let once = match lifetime {
            Lifetime::Kept => "",
            Lifetime::Once => ONCE,
        };
        let id = SessionId::from(format!("{agent}-{once}{random}"));
        let of = ConversationRef { id, key: Arc::clone(&account.name), agent };
        // A repeated request makes nothing new.
        if request.is_some() && self.inner.registry.owner(&of.id).await?.is_some() {
            return Ok((of, Created::Before));
        }
        self.count_new(account).await?;
        let created = match request {
            Some(_) => self.inner.registry.create_once(&of, account).await,
            None => self.inner.registry.create(&of, account).await.map(|()| Created::Now),
        };
        // A conversation that a repeated request finds is counted already.
        if !matches!(created, Ok(Created::Now)) {
            account.count_deleted();
        }
        Ok((of, created?))
    }

    /// Counts a new conversation among those of the account in the store, unless there are as many as there can be.
    async fn count_new(&self, account: &Account) -> Result<(), OpenError> {
        let Shared { store, limits, .. } = &*self.inner.shared;
        let count = account.stored.get_or_try_init(|| async {
            let query = SessionQuery::new().with_agent(account.owner()).page(0, 1);
            Ok::<_, SessionError>(AtomicUsize::new(store.find_sessions(&query).await?.total))
        });
        let (count, most) = (count.await?, limits.stored_conversations_per_key);
        let added = |count| (count < most).then_some(count + 1);
        match count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added) {
            Ok(_) => Ok(()),
            Err(_) => Err(OpenError::StoreFull { most }),
        }
    }

    /// Returns the agent of the conversation with this id.
    pub(crate) fn resolve(
        &self,
        account: &Account,
        id: &SessionId,
    ) -> Result<(ConversationRef, Arc<dyn AgentFactory>), OpenError> {
        let Some((agent, rest)) = id.as_str().rsplit_once('-') else {
            return Err(OpenError::NotFound(id.clone()));
        };
        // Factories may use the id in a path.
        let random = rest.strip_prefix(ONCE).unwrap_or(rest);
        if random.len() != 32 || !random.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(OpenError::NotFound(id.clone()));
        }
        match self.inner.agents.get_key_value(agent) {
            Some((agent, factory)) => {
                let (key, agent) = (Arc::clone(&account.name), Arc::clone(agent));
                Ok((ConversationRef { id: id.clone(), key, agent }, Arc::clone(factory)))
            }
            None => Err(OpenError::NotFound(id.clone())),
        }
    }

    /// Returns a conversation of the account, and loads it if it is not in memory.
    pub(crate) async fn open(
        &self,
        account: &Account,
        id: &SessionId,
    ) -> Result<Arc<Conversation>, OpenError> {
        let (of, factory) = self.resolve(account, id)?;
        self.inner.registry.open(&of, account, &*factory, Wait::No).await
    }

    async fn open_waiting(&self, account: &Account, id: &SessionId) -> Result<Arc<Conversation>, OpenError> {
        let (of, factory) = self.resolve(account, id)?;
        self.inner.registry.open(&of, account, &*factory, Wait::UntilFree).await
    }

    /// Opens a conversation and starts a run. A conversation that is released meanwhile is opened again. A request with an id
    /// starts one run.
    pub(crate) async fn start(
        &self,
        account: &Account,
        id: &SessionId,
        request: Option<&RequestId>,
        start: impl Fn(&agent_core::AgentHandle) -> Result<agent_core::EventReceiver, agent_core::AgentError>
        + Send
        + Sync,
    ) -> Result<(Arc<Conversation>, Result<Started, StartError>), OpenError> {
        loop {
            if self.inner.closing.is_cancelled() {
                return Err(OpenError::Closing);
            }
            let conversation = self.open(account, id).await?;
            match conversation.start(request, &start).await {
                Err(StartError::Closed) => {}
                started => return Ok((conversation, started)),
            }
        }
    }

    /// Ends the run of a conversation and deletes it with the sessions of its sub-agents.
    pub(crate) async fn delete(&self, account: &Account, id: &SessionId) -> Result<(), OpenError> {
        // Opening checks that the conversation belongs to the account, and waits for others that open or release it.
        let conversation = self.open(account, id).await?;
        loop {
            conversation.abort().await;
            conversation.wait_for_end().await;
            if conversation.shut() {
                break;
            }
        }
        self.inner.registry.release(id).await;
        // What the conversation has spent is only in its session until the ledger has it.
        self.inner.shared.ledger.write().await?;
        let store = &self.inner.shared.store;
        let mut parents = vec![id.clone()];
        while let Some(parent) = parents.pop() {
            let found = store.find_sessions(&SessionQuery::new().with_parent(parent.clone())).await?;
            parents.extend(found.sessions.into_iter().map(|found| found.summary.session_id));
            match store.delete_session(parent.as_str()).await {
                Ok(()) | Err(SessionError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        account.count_deleted();
        Ok(())
    }
}

/// How long a conversation is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Until it is deleted.
    Kept,
    /// Until its answer was sent.
    Once,
}

/// Returns whether a conversation is deleted after its only answer.
pub(crate) fn is_once(id: &SessionId) -> bool {
    id.as_str().rsplit_once('-').is_some_and(|(_, last)| last.starts_with(ONCE))
}
