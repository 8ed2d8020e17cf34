//! What a cassette looks like in its file.

mod stream;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::CassetteError;
use agent_core::ModelConfig;
use agent_core::{AgentId, SessionId};
use agent_core::{Completion, ErrorRecord, OwnedStreamEvent};
use agent_core::{Effects, ToolDefinition, ToolResult};

/// The version of the form. A reader refuses a later one.
pub const CASSETTE_VERSION: u32 = 1;

/// The largest text that is read as a cassette: 256 MiB.
pub const MAX_CASSETTE_BYTES: usize = 256 * 1024 * 1024;

/// The recording of a run, or of several runs of one agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Cassette {
    /// The version of the form, [`CASSETTE_VERSION`].
    pub version: u32,
    /// The program that made it.
    pub made_by: String,
    /// The id of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The id of the agent's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// What the program wants to find again: its prompts, say.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, Value>,
    /// The ids of the providers that called the models, by provider and model: loops are named after them.
    pub providers: BTreeMap<String, String>,
    /// The tools of the agent.
    pub tools: Vec<RecordedTool>,
    /// What requests say besides their messages: model, system prompt, tools, options. Each different one once.
    pub setups: Vec<Value>,
    /// The messages of all requests, each once, as models see them.
    pub messages: Vec<Value>,
    /// The calls of models and tools, in the order in which they began.
    pub calls: Vec<RecordedCall>,
    /// Times, waits and ids.
    pub clock: RecordedClock,
}

/// A tool, as far as an agent reads it before a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedTool {
    /// The description that the model receives.
    pub definition: ToolDefinition,
    /// Its name for people.
    pub label: String,
    /// Whether nothing may run beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sequential: bool,
    /// The longest that a call may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The properties of a call with given arguments, once for each different arguments.
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
    /// What it made of them, where they were of an older form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<Value>,
    /// What the call does to the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Effects>,
    /// The question that the user must answer before the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// A recorded call and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedCall {
    /// What was called, with what, and what came.
    pub effect: RecordedEffect,
    /// The how manieth call it was to end, from 0; `None` when it was cut off by an abort or a limit of time.
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
        /// The request, as numbers of the cassette's tables.
        request: RecordedRequest,
        /// The events that arrived.
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
        /// What it said while it ran.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        said: Vec<RecordedSignal>,
        /// The result of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<RecordedToolEnd>,
    },
}

/// A request, by numbers of what it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The number of the setup in [`Cassette::setups`].
    pub setup: u32,
    /// In [`Cassette::messages`]: a first one, and how many follow each other from it on.
    pub messages: Vec<(u32, u32)>,
}

/// How a model's call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RecordedModelEnd {
    /// The reply was complete.
    Done(Completion),
    /// There was no complete reply.
    Failed(ErrorRecord),
    /// The provider panicked, with this.
    Panicked(String),
}

/// What a tool said while it ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RecordedSignal {
    /// The result so far.
    Update(ToolResult),
    /// How far it is.
    Progress(String),
}

/// How a tool's call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RecordedToolEnd {
    /// The call returned this value.
    Done(ToolResult),
    /// It did not work.
    Failed(String),
    /// There is no such tool.
    NotFound(String),
    /// The arguments do not fit.
    InvalidArgs(String),
    /// It saw that the run was aborted.
    Cancelled,
    /// It gave up by itself after so many milliseconds.
    TimedOut(u64),
    /// It panicked, with this.
    Panicked(String),
}

/// Times, waits and ids, each in the order in which the run requested them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct RecordedClock {
    /// Times in milliseconds since 1970, each with how often it came in a row.
    pub now: Vec<(u64, u32)>,
    /// Times of the clock that is never set back, the same way.
    pub monotonic: Vec<(u64, u32)>,
    /// The waits, in order.
    pub sleeps: Vec<RecordedSleep>,
    /// The random ids, in order.
    pub ids: Vec<String>,
}

/// A wait of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecordedSleep {
    /// How long it was to be.
    pub ms: u64,
    /// Whether the wait came to its end; `false` if its task was dropped first.
    pub over: bool,
}

impl Cassette {
    /// Reads one.
    ///
    /// # Errors
    /// When the text is none, is damaged, too large, or of a later version.
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

    /// Writes it: indented, so that a change of it can be read in a review.
    ///
    /// # Errors
    /// When something in it has no form in JSON.
    pub fn to_json(&self) -> Result<String, CassetteError> {
        let mut text = serde_json::to_string_pretty(self).map_err(CassetteError::Unreadable)?;
        text.push('\n');
        Ok(text)
    }

    /// How many calls of models it holds.
    #[must_use]
    pub fn model_calls(&self) -> usize {
        self.calls.iter().filter(|call| matches!(call.effect, RecordedEffect::Model { .. })).count()
    }

    /// How many calls of tools it holds.
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

/// What is read of a cassette before its form is known.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    version: u32,
    #[serde(default)]
    made_by: String,
}
