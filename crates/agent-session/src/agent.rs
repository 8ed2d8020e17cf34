//! What agents can do with files: save and load their conversation, their snapshot, and go on from a session.
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
//! let first = new_agent();
//! let store = JsonStore::open(dir.join("sessions"))?;
//! let recorder = SessionRecorder::attach(&first, store.clone());
//! first.chat("Hi").await?;
//! recorder.close()?;
//! first.save_context(dir.join("context.json"))?;
//!
//! // Elsewhere: the whole session, or the conversation alone.
//! let second = new_agent().restore_session(&store.load_session(first.session_id())?)?;
//! assert_eq!(second.messages(), first.messages());
//! let third = new_agent();
//! third.load_context(dir.join("context.json"))?;
//! assert_eq!(third.messages(), first.messages());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod context_tool;

use std::path::Path;

use agent_core::{AgentError, AgentMessage, AgentSnapshot, BasicAgent, Repair, SNAPSHOT_VERSION};
use serde_json::Value;

pub use context_tool::SaveContextTool;

use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::store::{MAX_FILE_BYTES, files};

/// Keeping an agent's conversation in a file (seed 003).
pub trait SaveContext {
    /// Writes the messages as a JSON array, in one step.
    ///
    /// # Errors
    /// When it cannot be written. The file is as it was then.
    fn save_context(&self, path: impl AsRef<Path>) -> Result<(), SessionError>;

    /// Puts the messages of a file in the place of the conversation, and says what had to be repaired in them.
    ///
    /// # Errors
    /// When there is no such file, when it is not a list of messages, or a run is open. The conversation stays as it was.
    fn load_context(&self, path: impl AsRef<Path>) -> Result<Vec<Repair>, SessionError>;
}

impl SaveContext for BasicAgent {
    fn save_context(&self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        let encode = |source| SessionError::Encode { what: "the conversation", source };
        let mut text = serde_json::to_vec_pretty(&self.messages()).map_err(encode)?;
        text.push(b'\n');
        files::replace(path.as_ref(), &text)
    }

    fn load_context(&self, path: impl AsRef<Path>) -> Result<Vec<Repair>, SessionError> {
        let messages: Vec<AgentMessage> = read_json(path.as_ref())?;
        Ok(self.replace_messages(messages)?)
    }
}

/// Keeping an agent's snapshot in a file. It holds no keys.
pub trait AgentSnapshotFile: Sized {
    /// Writes it, in one step.
    ///
    /// # Errors
    /// When it cannot be written. The file is as it was then.
    fn save(&self, path: impl AsRef<Path>) -> Result<(), SessionError>;

    /// Reads it.
    ///
    /// # Errors
    /// When there is no such file, when it is not a snapshot, or one of a later version.
    fn load(path: impl AsRef<Path>) -> Result<Self, SessionError>;
}

impl AgentSnapshotFile for AgentSnapshot {
    fn save(&self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        let encode = |source| SessionError::Encode { what: "the snapshot", source };
        let mut text = serde_json::to_vec_pretty(self).map_err(encode)?;
        text.push(b'\n');
        files::replace(path.as_ref(), &text)
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

/// Going on from a session.
pub trait RestoreSession: Sized {
    /// Takes over a session's conversation, ids and counters. Model, provider, tools, hooks and system prompt stay those of
    /// this agent.
    ///
    /// A run that was cut off or waits for an answer comes back as one that waits: `resume()` drives it on from its last
    /// record, `answer()` answers it, `abort()` ends it. Where its state cannot be read it is closed like a crash: calls
    /// without a result get one that says so.
    ///
    /// # Errors
    /// When a run is open here, or the session's events do not make a conversation.
    fn restore_session(self, session: &LoadedSession) -> Result<Self, SessionError>;
}

impl RestoreSession for BasicAgent {
    fn restore_session(self, session: &LoadedSession) -> Result<Self, SessionError> {
        let run = session.open_run().unwrap_or_else(|error| {
            tracing::warn!(session = %session.session_id, %error, "the open loop is closed like a crash");
            None
        });
        let mut snapshot = self.checkpoint();
        snapshot.agent_id = session.agent_id.clone();
        snapshot.session_id = session.session_id.clone();
        snapshot.last_loop_id = session.last_loop_id().cloned();
        snapshot.loop_counters = session.loop_counters();
        snapshot.history = match &run {
            Some(run) => run.history().clone(),
            None => session.history()?,
        };
        snapshot.suspended = run.map(Box::new);
        // A session does not hold the system prompt: what is set here counts as what was there.
        snapshot.system_prompt = self.system_prompt().to_string();
        snapshot.changed = false;
        // A fork that nobody has gone on with yet: its first loop is a branch of the last one that it took along.
        snapshot.rewound = session.loops.last().is_some_and(|r| r.session_id != session.session_id);
        Ok(self.restore(snapshot)?)
    }
}

/// An agent as seed 003's first users built it: an Ollama model, its host, a system prompt, and the file that its
/// conversation is kept in. The conversation is taken from the file where there is one, and the model can save it with
/// `save_session_context`.
///
/// The provider comes by `with_provider`, as for [`BasicAgent::from_legacy`].
///
/// # Errors
/// When the file is there and cannot be read.
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
    let bytes = files::read(path, MAX_FILE_BYTES)?.ok_or_else(|| SessionError::NotFound {
        id: path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(),
        dir: path.parent().map(Path::to_path_buf).unwrap_or_default(),
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|e| SessionError::corrupt(path, format!("line {}, column {}", e.line(), e.column()), e))
}
