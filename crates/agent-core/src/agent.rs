//! The agent: a handle that can be cloned and used from any thread.
//!
//! It keeps the conversation, the queues and the listeners, and starts runs. A run works on what was set when it began;
//! setters act on the next one. [`prompt`](BasicAgent::prompt) returns at once, the run goes on in a task of its own.
//!
//! ```
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{BasicAgent, ModelConfig};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let agent = BasicAgent::new(ModelConfig::default())
//!     .with_provider(ScriptedProvider::texts(["4", "8"]))
//!     .with_system_prompt("Answer with a number.");
//! assert_eq!(agent.chat("What is 2 + 2?").await?, "4");
//! assert_eq!(agent.chat("And twice that?").await?, "8");
//! assert_eq!(agent.messages().len(), 4);
//! # Ok::<(), agent_core::AgentError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod branches;
mod build;
mod chat;
mod control;
mod error;
mod listeners;
mod messages;
mod missing;
mod prompt;
mod resume;
mod running;
mod session;
mod snapshot;
mod state;
mod typed;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

pub use branches::{BranchSpec, Exploration, ExploredBranch};
pub use chat::ChatToken;
pub use error::AgentError;
pub use listeners::Subscription;
pub use prompt::IntoPrompt;
pub use running::Finished;
pub use snapshot::{AgentSnapshot, SNAPSHOT_VERSION};
pub use state::AgentState;

use crate::drive::{AgentLoopConfig, Mailbox};
use crate::identity::AgentId;
use crate::model::ModelConfig;
use crate::prefix::Prefixes;
use crate::run::QueueMode;
use crate::tool::Tools;
use listeners::Listeners;
use state::State;

/// An agent. A clone is another handle on the same agent.
#[derive(Clone)]
pub struct BasicAgent {
    inner: Arc<Inner>,
}

/// A handle that does not keep the agent alive: for tools and listeners of that same agent.
#[derive(Clone)]
pub struct WeakAgent {
    inner: Weak<Inner>,
}

impl WeakAgent {
    /// The agent, if it is still there.
    #[must_use]
    pub fn upgrade(&self) -> Option<BasicAgent> {
        self.inner.upgrade().map(|inner| BasicAgent { inner })
    }
}

impl fmt::Debug for WeakAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakAgent")
    }
}

struct Inner {
    settings: Mutex<Settings>,
    state: Mutex<State>,
    mailbox: Arc<Mailbox>,
    listeners: Listeners,
    /// The last requests of the conversation.
    prefixes: Prefixes,
    /// Told when a run has ended or waits for an answer: `state.is_streaming` is false then.
    idle: Notify,
}

/// What the next run works on.
#[derive(Clone)]
struct Settings {
    agent_id: AgentId,
    system_prompt: Arc<str>,
    tools: Tools,
    config: Arc<AgentLoopConfig>,
}

impl BasicAgent {
    /// An agent for this model, with the defaults of REQ-024. Its provider comes by
    /// [`with_provider`](Self::with_provider); `looptree::agent` brings one for every protocol that is enabled.
    #[must_use]
    pub fn new(model: ModelConfig) -> Self {
        let config = AgentLoopConfig::new(missing::provider(), model, missing::environment());
        let settings = Settings {
            agent_id: AgentId::from(config.environment.random_id()),
            system_prompt: Arc::from(""),
            tools: Tools::default(),
            config: Arc::new(config),
        };
        let state = State::new(settings.config.environment.random_id().into());
        Self {
            inner: Arc::new(Inner {
                settings: Mutex::new(settings),
                state: Mutex::new(state),
                mailbox: Arc::new(Mailbox::new(QueueMode::default(), QueueMode::default())),
                listeners: Listeners::default(),
                prefixes: Prefixes::default(),
                idle: Notify::new(),
            }),
        }
    }

    /// A handle that does not keep the agent alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakAgent {
        WeakAgent { inner: Arc::downgrade(&self.inner) }
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.inner.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state()
    }
}

impl Settings {
    /// Changes the configuration; a run that is open keeps the one it has.
    fn change(&mut self, change: impl FnOnce(&mut AgentLoopConfig)) {
        change(Arc::make_mut(&mut self.config));
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for BasicAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings().clone();
        let state = self.lock();
        f.debug_struct("BasicAgent")
            .field("agent_id", &settings.agent_id)
            .field("session_id", &state.session_id)
            .field("model", &settings.config.model)
            .field("messages", &state.message_count())
            .field("is_streaming", &state.is_streaming)
            .finish_non_exhaustive()
    }
}
