//! The agent: an owner that holds the settings, and cheap handles that run it.
//!
//! [`BasicAgent`] is built once and owns the model, the tools, the prompt and the hooks. It is not `Clone`; setters
//! take `&mut self` and act on the next run. [`AgentHandle`] starts and steers runs from any thread. `BasicAgent`
//! dereferences to its handle, so every method of the handle can be called on the agent itself.
//!
//! Dropping the owner does not abort a run: the run continues in its own task until it ends.
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
//!
//! let handle = agent.handle(); // Clone + Send + Sync
//! assert_eq!(handle.chat("And twice that?").await?, "8");
//! assert_eq!(agent.messages().len(), 4);
//! # Ok::<(), agent_core::AgentError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A clone of the handle never changes the agent's settings, and the agent itself cannot be cloned:
//!
//! ```compile_fail
//! # use agent_core::{BasicAgent, ModelConfig};
//! let base = BasicAgent::new(ModelConfig::default()).with_system_prompt("You are an engineer.");
//! let pirate = base.clone().with_system_prompt("You are a pirate.");
//! ```
//!
//! [`BasicAgent::with_same_settings`] returns a second, independent agent:
//!
//! ```
//! # use agent_core::{BasicAgent, ModelConfig};
//! let base = BasicAgent::new(ModelConfig::default()).with_system_prompt("You are an engineer.");
//! let pirate = base.with_same_settings().with_system_prompt("You are a pirate.");
//! assert_eq!(&*base.state().system_prompt, "You are an engineer.");
//! # drop(pirate);
//! ```

mod branches;
mod build;
mod error;
mod handle;
mod listeners;
mod missing;
#[cfg(feature = "partial-answers")]
mod partial;
mod path;
mod prompt;
mod request;
mod running;
mod snapshot;
mod state;

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

pub use branches::{BranchSpec, Exploration, ExploredBranch, discard_branches};
pub use error::AgentError;
pub use handle::ChatToken;
pub use listeners::Subscription;
#[cfg(feature = "partial-answers")]
#[cfg_attr(docsrs, doc(cfg(feature = "partial-answers")))]
pub use partial::{PartialReader, PartialValue};
pub use prompt::IntoPrompt;
pub use request::{Request, TypedRequest, TypedRun};
pub use snapshot::{AgentSnapshot, SNAPSHOT_VERSION};
pub use state::AgentState;

use crate::drive::{AgentLoopConfig, Mailbox};
use crate::history::{Entry, HistoryError, MessageRef};
use crate::identity::{AgentId, SessionId, SessionOrigin, ToolCallId};
use crate::message::{AgentMessage, DeferredCall};
use crate::prefix::Prefixes;
use crate::run::{QueueKind, Queued};
use crate::tool::Tools;
use listeners::Listeners;
use state::State;

/// An agent: a model with tools, hooks and a conversation. It owns the settings of the runs that it starts.
///
/// `with_*` methods build it, `set_*` methods change it, and both act on the next run. All other methods are those of
/// [`AgentHandle`], to which it dereferences.
#[derive(Debug)]
pub struct BasicAgent {
    handle: AgentHandle,
}

/// A cheap handle to an agent, usable from any thread. Clones refer to the same agent.
///
/// A handle starts, steers, observes and ends runs. It cannot change the agent's settings, except for the list of tools
/// ([`update_tools`](Self::update_tools)).
#[derive(Clone)]
pub struct AgentHandle {
    pub(crate) inner: Arc<Inner>,
}

/// A handle that does not keep the agent alive. Tools and listeners of an agent use it to refer to their own agent.
#[derive(Debug, Clone)]
pub struct WeakAgent {
    inner: Weak<Inner>,
}

impl WeakAgent {
    /// Returns a handle, or `None` if the agent and all its handles have been dropped.
    #[must_use]
    pub fn upgrade(&self) -> Option<AgentHandle> {
        self.inner.upgrade().map(|inner| AgentHandle { inner })
    }
}

impl Deref for BasicAgent {
    type Target = AgentHandle;

    fn deref(&self) -> &AgentHandle {
        &self.handle
    }
}

pub(crate) struct Inner {
    settings: Mutex<Settings>,
    state: Mutex<State>,
    pub(crate) mailbox: Arc<Mailbox>,
    listeners: Listeners,
    /// The last requests of the conversation, for the detection of cache breaks.
    prefixes: Prefixes,
    /// Notified when a run has ended or waits for an answer: `state.is_streaming` is false then.
    idle: Notify,
}

/// The settings of the next run.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) agent_id: AgentId,
    system_prompt: Arc<str>,
    tools: Tools,
    config: Arc<AgentLoopConfig>,
}

impl Settings {
    /// Changes the configuration. An open run keeps the configuration with which it started.
    fn change(&mut self, change: impl FnOnce(&mut AgentLoopConfig)) {
        let config = Arc::make_mut(&mut self.config);
        change(config);
        if let Some(completed) = config.completed() {
            *config = completed;
        }
    }
}

impl Inner {
    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an entry of the conversation with the token count that the agent's counter estimates.
    fn counted(&self, message: AgentMessage) -> Entry {
        let counter = self.settings().config.services.token_counter.clone();
        let tokens = counter.count_message(&message);
        Entry::new(MessageRef::new(message), tokens)
    }

    /// Queues a message for the open run or the next one.
    pub(crate) fn queue(&self, kind: QueueKind, message: AgentMessage) {
        let entry = self.counted(message);
        self.mailbox.queue(Queued::new(kind, entry));
    }

    /// Returns the deferred call with this id and reserves it for the result that is queued next.
    pub(crate) fn begin_completion(&self, id: &ToolCallId) -> Result<DeferredCall, HistoryError> {
        let queued = self.mailbox.view().completes(id);
        let mut state = self.state();
        if queued {
            return Err(HistoryError::AlreadyCompleted(id.clone()));
        }
        let call = state.deferred_call(id)?;
        state.completing.insert(id.clone());
        Ok(call)
    }

    /// Starts a session with a new id and returns the id.
    pub(crate) fn start_session(&self, origin: SessionOrigin) -> SessionId {
        let id = SessionId::from(self.settings().config.services.environment.random_id());
        let mut state = self.state();
        state.session_id = id.clone();
        state.loop_counters.clear();
        state.group_counters.clear();
        state.open_groups.clear();
        state.last_loop_id = None;
        state.session_origin = Some(origin);
        id
    }
}

impl fmt::Debug for AgentHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.inner.settings().clone();
        let state = self.inner.state();
        f.debug_struct("AgentHandle")
            .field("agent_id", &settings.agent_id)
            .field("session_id", &state.session_id)
            .field("model", &settings.config.model)
            .field("messages", &state.message_count())
            .field("is_streaming", &state.is_streaming)
            .finish_non_exhaustive()
    }
}
