//! Methods that agents gain: saving and loading their conversation or snapshot, and continuing from a session.
//!
//! ```
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_session::{JsonStore, RestoreSession, SaveContext, SessionRecorder};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let new_agent = || BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["Hello."]));
//! let mut first = new_agent();
//! let store = JsonStore::open(dir.join("sessions"))?;
//! let recorder = SessionRecorder::attach(&mut first, store.clone());
//! first.chat("Hi").await?;
//! recorder.close().await?;
//! first.save_context(dir.join("context.json"))?;
//!
//! // In another process: the whole session, recorded from here on, or the conversation alone.
//! let (second, recorder) = new_agent().restore_session(store, first.session_id()).await?;
//! assert_eq!(second.messages(), first.messages());
//! recorder.close().await?;
//! let third = new_agent();
//! third.load_context(dir.join("context.json"))?;
//! assert_eq!(third.messages(), first.messages());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod context_tool;

use agent_core::compat::SeedSetters as _;
use std::collections::BTreeSet;
use std::path::Path;

use agent_core::run::Run;
use agent_core::{
    AgentError, AgentHandle, AgentMessage, AgentSnapshot, BasicAgent, Repair, RouteSetup, SNAPSHOT_VERSION,
};
use async_trait::async_trait;
use serde_json::Value;

pub use context_tool::SaveContextTool;

use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::recorder::SessionRecorder;
use crate::store::{MAX_FILE_BYTES, SessionStore, files};

/// Saves and loads the conversation of an agent as a file. Implemented for agents and handles.
pub trait SaveContext {
    /// Writes the messages to a file as a JSON array, which replaces the file atomically.
    ///
    /// # Errors
    /// When the file cannot be written. Its previous content is unchanged.
    fn save_context(&self, path: impl AsRef<Path>) -> Result<(), SessionError>;

    /// Replaces the conversation by the messages of a file, and returns the repairs that the messages needed.
    ///
    /// # Errors
    /// When the file does not exist or is not a list of messages, and when a run is open. The conversation is unchanged.
    fn load_context(&self, path: impl AsRef<Path>) -> Result<Vec<Repair>, SessionError>;
}

impl SaveContext for AgentHandle {
    fn save_context(&self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        files::replace_json(path.as_ref(), "the conversation", &self.messages())
    }

    fn load_context(&self, path: impl AsRef<Path>) -> Result<Vec<Repair>, SessionError> {
        let messages: Vec<AgentMessage> = read_json(path.as_ref())?;
        Ok(self.replace_messages(messages)?)
    }
}

/// Saves and loads the snapshot of an agent as a file. A snapshot contains no API keys.
pub trait AgentSnapshotFile: Sized {
    /// Writes the snapshot to a file, which it replaces atomically.
    ///
    /// # Errors
    /// When the file cannot be written. Its previous content is unchanged.
    fn save(&self, path: impl AsRef<Path>) -> Result<(), SessionError>;

    /// Reads a snapshot from a file.
    ///
    /// # Errors
    /// When the file does not exist, is not a snapshot, or has a later version.
    fn load(path: impl AsRef<Path>) -> Result<Self, SessionError>;
}

impl AgentSnapshotFile for AgentSnapshot {
    fn save(&self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        files::replace_json(path.as_ref(), "the snapshot", self)
    }

    fn load(path: impl AsRef<Path>) -> Result<Self, SessionError> {
        let path = path.as_ref();
        let value: Value = read_json(path)?;
        let version = value.get("version").and_then(Value::as_u64);
        let found = version.ok_or_else(|| SessionError::corrupt(path, "version", "there is no version"))?;
        if found > u64::from(SNAPSHOT_VERSION) {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            return Err(AgentError::SnapshotVersion { found, known: SNAPSHOT_VERSION }.into());
        }
        serde_json::from_value(value).map_err(|e| SessionError::corrupt(path, "the snapshot", e))
    }
}

/// Restores an agent from a stored session. Implemented for [`BasicAgent`].
#[async_trait]
pub trait RestoreSession: Sized {
    /// Opens a session for writing, restores the agent from it, and records the agent to it from now on. The recorder
    /// holds the session's write lock until [`SessionRecorder::close`], or until the agent is dropped.
    ///
    /// Conversation, ids and counters come from the session. Model, provider, tools, hooks and system prompt stay those
    /// of this agent. A run that was cut off or waits for an answer is open again: `resume()` continues it from its last
    /// record, `answer()` answers it, and `abort()` ends it. Because the records continue too, a call that must run once
    /// is not repeated after another crash.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::Locked`] while another process or recorder has the session, so that a
    /// live run is never continued twice; [`SessionError::Missing`] when the open run needs a tool, a route or a hook
    /// that this agent does not have; also when a run is open in this agent or the session cannot be read.
    async fn restore_session(
        self,
        store: impl SessionStore + 'static,
        id: impl AsRef<str> + Send,
    ) -> Result<(Self, SessionRecorder), SessionError>;

    /// As [`restore_session`](Self::restore_session), from a session that was loaded before, without a lock and without
    /// recording. What the agent does from here on is in no session; a second process can do the same work again.
    ///
    /// If the state of an open run cannot be read, the run is closed as after a crash: calls without a result get one
    /// that reports it.
    ///
    /// # Errors
    /// When a run is open in this agent, or the session's events do not make a conversation.
    fn restore_unrecorded(self, session: &LoadedSession) -> Result<Self, SessionError>;
}

#[async_trait]
impl RestoreSession for BasicAgent {
    async fn restore_session(
        self,
        store: impl SessionStore + 'static,
        id: impl AsRef<str> + Send,
    ) -> Result<(Self, SessionRecorder), SessionError> {
        let recorder = SessionRecorder::with_store(store);
        let session = LoadedSession::new(recorder.open(id.as_ref()).await?).interrupted();
        if let Some(run) = session.open_run()? {
            check_environment(&self, &run)?;
        }
        let mut agent = self.restore_unrecorded(&session)?;
        recorder.record_restored(&mut agent);
        Ok((agent, recorder))
    }

    fn restore_unrecorded(self, session: &LoadedSession) -> Result<Self, SessionError> {
        let run = session.open_run().unwrap_or_else(|error| {
            tracing::warn!(session = %session.session_id, %error, "the open loop is closed like a crash");
            None
        });
        let mut snapshot = self.snapshot();
        snapshot.agent_id = session.agent_id.clone();
        snapshot.session_id = session.session_id.clone();
        snapshot.last_loop_id = session.last_loop_id().cloned();
        snapshot.loop_counters = session.loop_counters();
        (snapshot.group_counters, snapshot.open_groups) = session.groups();
        snapshot.history = match &run {
            Some(run) => run.history().clone(),
            None => session.history()?,
        };
        snapshot.suspended = run.map(Box::new);
        snapshot.recorded = false;
        // A session does not contain the system prompt, so the agent's own prompt does not count as a change.
        snapshot.system_prompt = self.state().system_prompt.to_string();
        snapshot.changed = false;
        // A fork without a loop of its own: its first loop is a branch of the last loop that was copied.
        snapshot.rewound = session.loops.last().is_some_and(|r| r.session_id != session.session_id);
        Ok(self.restore(snapshot)?)
    }
}

/// Checks that an agent has what an open run was started with.
///
/// # Errors
/// [`SessionError::Missing`] with everything that is missing.
fn check_environment(agent: &BasicAgent, run: &Run) -> Result<(), SessionError> {
    let (config, setup) = (agent.config(), run.setup());
    let available: BTreeSet<String> = agent.state().tools.iter().map(|tool| tool.name().to_owned()).collect();
    let needed = run.needed_tools().into_iter().map(|name| name.to_string());
    let tools: BTreeSet<String> = needed.filter(|name| !available.contains(name)).collect();
    let has_route = |wanted: &&RouteSetup| {
        config.routes.iter().any(|r| r.model.provider == wanted.provider && r.model.id == wanted.model)
    };
    let routes = setup.routes.iter().filter(|route| !has_route(route));
    let hooks = [
        ("before_loop", setup.gates.before_loop && config.hooks.run.before.is_empty()),
        ("input_filter", setup.gates.input && config.hooks.input_filters.is_empty()),
        ("before_turn", setup.gates.before_turn && config.hooks.turn.before.is_empty()),
        ("after_tool", setup.gates.after_tool && config.hooks.tool.after.is_empty()),
    ];
    let missing: Vec<String> = tools
        .into_iter()
        .map(|name| format!("the tool {name}"))
        .chain(routes.map(|route| format!("the route {}/{}", route.provider, route.model)))
        .chain(hooks.iter().filter(|(_, missing)| *missing).map(|(name, _)| format!("the hook {name}")))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(SessionError::Missing { session_id: setup.session_id.clone(), missing })
}

/// Builds an agent from an Ollama model, its host, a system prompt and a conversation file. Loads the conversation if the
/// file exists; the model can save it with the tool `save_session_context`.
///
/// Set the provider with `with_provider`, as for [`BasicAgent::from_legacy`].
///
/// # Errors
/// When the file exists and cannot be read.
pub fn from_legacy(
    model: Option<&str>,
    host: Option<&str>,
    system_prompt: Option<&str>,
    context_file: Option<&Path>,
) -> Result<BasicAgent, SessionError> {
    let agent = BasicAgent::from_legacy(model, host, system_prompt);
    let Some(path) = context_file else { return Ok(agent) };
    match agent.load_context(path) {
        Ok(_) | Err(SessionError::NotFound { .. }) => {}
        Err(other) => return Err(other),
    }
    let tool = SaveContextTool::new(&agent, path);
    Ok(agent.with_tool(tool))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, SessionError> {
    let bytes = files::read_existing(path, MAX_FILE_BYTES)?;
    serde_json::from_slice(&bytes)
        .map_err(|e| SessionError::corrupt(path, format!("line {}, column {}", e.line(), e.column()), e))
}
