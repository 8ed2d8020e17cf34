//! The form of a cassette in its file.

mod stream;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::CassetteError;
use agent_core::ModelConfig;
use agent_core::{AgentId, SessionId};
use agent_core::{Completion, ErrorRecord, OwnedStreamEvent};
use agent_core::{Effects, ToolDefinition, ToolResult, ToolSearchForm};

/// The version of the form that is written, and the latest that is read.
pub const CASSETTE_VERSION: u32 = 1;

/// The maximum size of a cassette in bytes: 256 MiB. A larger text is an error.
pub const MAX_CASSETTE_BYTES: usize = 256 * 1024 * 1024;

/// The recording of a run, or of several runs of one agent.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Cassette {
    /// The version of the form, [`CASSETTE_VERSION`].
    pub version: u32,
    /// The name and version of the package that recorded it.
    pub made_by: String,
    /// The id of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The id of the agent's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Values that the program stored with [`CassetteRecorder::note`](super::CassetteRecorder::note), for example its prompts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, Value>,
    /// The ids of the providers by `provider/model`. Loop ids contain them, so a replay needs the same ids.
    pub providers: BTreeMap<String, String>,
    /// How models find deferred tools, by `provider/model`, without those for which it is the default.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_search: BTreeMap<String, ToolSearchForm>,
    /// The tools of the agent.
    pub tools: Vec<RecordedTool>,
    /// The distinct setups of the requests: everything except their messages (model, system prompt, tools, options).
    pub setups: Vec<Value>,
    /// The distinct messages of all requests, as the models receive them.
    pub messages: Vec<Value>,
    /// The model calls and tool calls, in the order in which they began.
    pub calls: Vec<RecordedCall>,
    /// The times, waits and ids that the run requested.
    pub clock: RecordedClock,
}

/// Shows figures and ids, without the recorded texts.
impl fmt::Debug for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cassette")
            .field("version", &self.version)
            .field("agent_id", &self.agent_id)
            .field("session_id", &self.session_id)
            .field("tools", &self.tools.len())
            .field("messages", &self.messages.len())
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}

/// The properties of a tool that an agent reads before a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedTool {
    /// The description that the model receives.
    pub definition: ToolDefinition,
    /// The name that is shown to the user.
    pub label: String,
    /// Whether the tool's calls run alone, without other calls at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sequential: bool,
    /// The time limit of a call in milliseconds; `None` for the agent's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The folder in which the tool works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<PathBuf>,
    /// The properties that the tool reported for arguments, one entry for each distinct arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<RecordedView>,
}

/// The properties that a tool reported for arguments before a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedView {
    /// The arguments of the call.
    pub arguments: Value,
    /// The arguments after `prepare_arguments`; `None` if it left them unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<Value>,
    /// The arguments with resolved paths; `None` if the tool reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Value>,
    /// The effects that the tool reported for the call; `None` for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Effects>,
    /// The question that the user must answer before the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

impl RecordedView {
    /// Creates a view without properties.
    pub(super) fn of(arguments: Value) -> Self {
        Self { arguments, prepared: None, resolved: None, effects: None, question: None }
    }
}

/// A recorded call and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedCall {
    /// The call with its input and its result.
    pub effect: RecordedEffect,
    /// The position of the call in the order in which the calls ended, from 0; `None` if an abort or a time limit ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u32>,
}

/// The target of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RecordedEffect {
    /// A call of a model.
    Model {
        /// The request, as positions in the cassette's tables.
        request: RecordedRequest,
        /// The stream events that arrived.
        #[serde(with = "stream")]
        events: Vec<OwnedStreamEvent>,
        /// The result of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<RecordedModelEnd>,
    },
    /// A call of a tool.
    Tool {
        /// The name of the tool.
        name: String,
        /// The id of the call.
        id: String,
        /// The arguments of the call.
        arguments: Value,
        /// The updates that the tool sent while it ran.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        said: Vec<RecordedSignal>,
        /// The result of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<RecordedToolEnd>,
    },
}

/// A recorded request: positions in the cassette's tables.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The position of the setup in [`Cassette::setups`].
    pub setup: u32,
    /// Ranges of [`Cassette::messages`]: the position of the first message and the number of messages.
    pub messages: Vec<(u32, u32)>,
}

/// The result of a model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RecordedModelEnd {
    /// The reply was complete.
    Done(Completion),
    /// The call failed before the reply was complete.
    Failed(ErrorRecord),
    /// The provider panicked with this message.
    Panicked(String),
}

/// An update that a tool sent while it ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RecordedSignal {
    /// The result so far.
    Update(ToolResult),
    /// A message about the progress of the call.
    Progress(String),
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RecordedToolEnd {
    /// The call returned this value.
    Done(ToolResult),
    /// The call failed with this error.
    Failed(String),
    /// There is no tool of this name.
    NotFound(String),
    /// The arguments were rejected with this error.
    InvalidArgs(String),
    /// The tool stopped because the run was aborted.
    Cancelled,
    /// The tool reported a timeout after this many milliseconds.
    TimedOut(u64),
    /// The tool panicked with this message.
    Panicked(String),
}

/// Times, waits and ids, each in the order in which the run requested them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct RecordedClock {
    /// Times in milliseconds since 1970-01-01 UTC, each with the number of consecutive readings that returned it.
    pub now: Vec<(u64, u32)>,
    /// Readings of the monotonic clock in milliseconds, in the same form.
    pub monotonic: Vec<(u64, u32)>,
    /// The waits, in order.
    pub sleeps: Vec<RecordedSleep>,
    /// The deadlines that were reached, in milliseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deadlines: Vec<u64>,
    /// The random ids, in order.
    pub ids: Vec<String>,
}

/// A wait of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedSleep {
    /// The requested duration in milliseconds.
    pub ms: u64,
    /// Whether the wait came to its end; `false` if its task was dropped first.
    pub over: bool,
}

impl Cassette {
    /// Reads a cassette from JSON.
    ///
    /// # Errors
    /// When the text is not a cassette, is damaged or too large, or has a later version.
    pub fn from_json(text: &str) -> Result<Self, CassetteError> {
        if text.len() > MAX_CASSETTE_BYTES {
            return Err(CassetteError::TooLarge { size: text.len(), most: MAX_CASSETTE_BYTES });
        }
        let head: Head = serde_json::from_str(text).map_err(CassetteError::Unreadable)?;
        if head.version > CASSETTE_VERSION {
            return Err(CassetteError::Later { found: head.version, made_by: head.made_by });
        }
        let cassette: Self = serde_json::from_str(text).map_err(CassetteError::Unreadable)?;
        cassette.check()?;
        Ok(cassette)
    }

    /// Returns the cassette as indented JSON, so that a change of the file is readable in a review.
    ///
    /// # Errors
    /// [`CassetteError::Unreadable`] when a value cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, CassetteError> {
        let mut text = serde_json::to_string_pretty(self).map_err(CassetteError::Unreadable)?;
        text.push('\n');
        Ok(text)
    }

    /// Returns the number of recorded model calls.
    #[must_use]
    pub fn model_calls(&self) -> usize {
        self.calls.iter().filter(|call| matches!(call.effect, RecordedEffect::Model { .. })).count()
    }

    /// Returns the number of recorded tool calls.
    #[must_use]
    pub fn tool_calls(&self) -> usize {
        self.calls.len() - self.model_calls()
    }

    /// The messages of a request.
    pub(super) fn messages_of(&self, request: &RecordedRequest) -> impl Iterator<Item = &Value> {
        let runs = request.messages.iter();
        runs.flat_map(|(first, count)| self.messages.iter().skip(*first as usize).take(*count as usize))
    }

    fn check(&self) -> Result<(), CassetteError> {
        for (index, call) in self.calls.iter().enumerate() {
            let RecordedEffect::Model { request, .. } = &call.effect else { continue };
            let dangling =
                |to: String| CassetteError::Dangling { what: format!("/calls/{index}/request"), to };
            if request.setup as usize >= self.setups.len() {
                return Err(dangling(format!("setup {}", request.setup)));
            }
            for (first, count) in &request.messages {
                let end = u64::from(*first) + u64::from(*count);
                if end > self.messages.len() as u64 {
                    return Err(dangling(format!("message {}", end.saturating_sub(1))));
                }
            }
        }
        Ok(())
    }
}

/// The name of a model's provider in [`Cassette::providers`].
pub(super) fn provider_name(model: &ModelConfig) -> String {
    format!("{}/{}", model.provider, model.id)
}

/// The part of a cassette that is read first, to check the version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    version: u32,
    #[serde(default)]
    made_by: String,
}
