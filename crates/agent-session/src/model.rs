//! The data types of a session: loops with their messages, turns and events, linked to a tree.
//!
//! A message is stored once; turns refer to it by its position in [`LoopRecord::messages`]. In memory, events share the
//! messages; in a file, they refer to them by position. Times are milliseconds since 1970-01-01 UTC. Fields and kinds of
//! events that a later version adds are preserved by a load and a save.
//!
//! ```
//! use agent_core::{SessionId, Timestamp};
//! use agent_session::Session;
//! let session = Session::new(SessionId::from("s-1"), "agent".into(), Timestamp(1));
//! let json = serde_json::to_string(&session)?;
//! assert_eq!(serde_json::from_str::<Session>(&json)?, session);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod event;
pub(crate) mod event_messages;
mod extra;
mod fold;
pub(crate) mod form;
pub(crate) mod form1;
mod histories;
mod index;
mod merge;
mod origin;
pub(crate) mod recording;
pub(crate) mod stored;
pub(crate) mod texts;
mod tree;

use agent_core::run::{RunCheckpoint, RunSetup};
use agent_core::{
    AgentId, ContinuationKind, Ended, Entry, GroupMember, LoopConfigSnapshot, LoopId, MessageRef, SessionId,
    SessionOrigin, Timestamp, ToolCallId, ToolName, TurnId, TurnTrigger, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

pub use crate::point::Point;
pub use event::{LoopEvent, RecordedEvent};
pub(crate) use extra::Extra;
pub(crate) use histories::Histories;
pub(crate) use index::{HeadMark, LoopIndex, head_of};
pub use origin::{ForkRef, ParallelGroupRecord};

/// The version of the document that a session serializes to. It increases when an older reader could misread a document.
/// New fields and new kinds of events do not increase it. Files of this version load, too.
pub const SESSION_VERSION: u32 = 1;

/// A session: the loops of one agent that belong together, in the order in which they began.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct Session {
    /// The id of the session.
    pub session_id: SessionId,
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The time when the first loop began.
    pub created_at: Timestamp,
    /// The time of the last record.
    pub last_active_at: Timestamp,
    /// The reason why the session was created.
    pub formation: SessionFormation,
    /// For the session of a sub-agent, the tool call that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_spawn_ref: Option<SpawnRef>,
    /// For a fork, the place of the other session that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkRef>,
    /// How long the session is meant to be stored.
    #[serde(default)]
    pub scope: SessionScope,
    /// The loops, in the order in which they began.
    #[serde(skip)]
    pub loops: Vec<LoopRecord>,
    /// The number of the last journal record that the session contains.
    #[serde(default)]
    pub(crate) journal_records: u64,
    #[serde(skip)]
    pub(crate) extra: Extra,
}

/// Shows figures and ids, without the conversations.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("session_id", &self.session_id)
            .field("agent_id", &self.agent_id)
            .field("formation", &self.formation)
            .field("forked_from", &self.forked_from)
            .field("loops", &self.loops.len())
            .field("journal_records", &self.journal_records)
            .finish_non_exhaustive()
    }
}

/// The reason why a session was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionFormation {
    /// The program called `new_session`.
    Explicit {
        /// The time of the call.
        timestamp: Timestamp,
    },
    /// The session was created by its first loop.
    FirstLoop {
        /// The time when the loop began.
        timestamp: Timestamp,
    },
    /// The agent's previous session was inactive for longer than a threshold.
    InactivityTimeout {
        /// The threshold in seconds.
        threshold_secs: u64,
        /// The session that was inactive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous_session_id: Option<SessionId>,
        /// The time when the new session began.
        timestamp: Timestamp,
    },
}

impl SessionFormation {
    /// Returns the formation that an agent's new session reports; `None` for an origin that this version does not know.
    pub(crate) fn of(origin: &SessionOrigin, timestamp: Timestamp) -> Option<Self> {
        match origin {
            SessionOrigin::Explicit => Some(Self::Explicit { timestamp }),
            SessionOrigin::Inactivity { threshold_secs, previous_session_id } => {
                Some(Self::InactivityTimeout {
                    threshold_secs: *threshold_secs,
                    previous_session_id: Some(previous_session_id.clone()),
                    timestamp,
                })
            }
            _ => None,
        }
    }
}

/// How long a session is meant to be stored. A note for programs that delete sessions; this crate never deletes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionScope {
    /// As long as the program needs it.
    #[default]
    Ephemeral,
    /// Until a program or the user deletes it.
    Persistent,
}

/// A loop: the record of one run, from its start to its end.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct LoopRecord {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The session that the loop began in.
    pub session_id: SessionId,
    /// The agent that ran the loop.
    pub agent_id: AgentId,
    /// The loop that this one continues, or whose tool call started it. It can be in another session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_loop_id: Option<LoopId>,
    /// How this loop continues its parent; `Initial` for a first loop.
    #[serde(default)]
    pub continuation_kind: ContinuationKind,
    /// The time when the loop began.
    pub started_at: Timestamp,
    /// The time when the loop ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The state or result of the loop.
    pub status: LoopStatus,
    /// For `Rejected`, the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejection: Option<String>,
    /// The end of the run in full, as in its `AgentEnd` event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The configuration of the run, without secrets.
    #[serde(default)]
    pub config: LoopConfigSnapshot,
    /// The conversation before the loop. If it is absent, the loop begins with the conversation after the previous head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<LoopBase>,
    /// The loop's own messages in the order in which they ended, as `AgentEnd` lists them.
    #[serde(default)]
    pub messages: Vec<MessageRef>,
    /// Messages that events refer to and that are not the loop's own: replies of retried attempts, and the messages that
    /// compactions inserted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_messages: Vec<MessageRef>,
    /// The turns of the loop, in order.
    #[serde(default)]
    pub turns: Vec<Turn>,
    /// The tokens of all turns.
    #[serde(default)]
    pub usage: Usage,
    /// The metadata that the caller set for the run.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// The events of the loop, in order.
    #[serde(skip)]
    pub events: Vec<LoopEvent>,
    /// The loops of the same session that continue this one.
    #[serde(default)]
    pub children_loop_ids: Vec<LoopId>,
    /// The loops of sub-agents that tool calls of this loop started.
    #[serde(default)]
    pub child_loop_refs: Vec<ChildLoopRef>,
    /// The role in a group of parallel loops: a branch, or the judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupMember>,
    /// For a branch, the group and its selection. Present from the announcement of the group on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_group: Option<ParallelGroupRecord>,
    /// The state of an open run; absent when the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_run: Option<OpenRun>,
    #[serde(skip)]
    pub(crate) extra: Extra,
}

/// Shows figures and ids, without the messages.
impl fmt::Debug for LoopRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopRecord")
            .field("loop_id", &self.loop_id)
            .field("parent_loop_id", &self.parent_loop_id)
            .field("status", &self.status)
            .field("messages", &self.messages.len())
            .field("turns", &self.turns.len())
            .field("events", &self.events.len())
            .finish_non_exhaustive()
    }
}

/// The state or result of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LoopStatus {
    /// The loop was announced and has not begun.
    Pending,
    /// The loop has begun and has not ended.
    Running,
    /// The run waits for an answer.
    Suspended,
    /// The run ended with a reply.
    Completed,
    /// A `before_loop` hook or an input filter denied the run. `rejection` contains the reason.
    Rejected,
    /// A limit, a budget or a `before_turn` hook stopped the run. Its results remain.
    Stopped,
    /// The model could not be called, or its reply could not be used.
    Failed,
    /// The caller aborted the run.
    Aborted,
    /// The run was cut off: its process ended, its task was dropped, or a record could not be written.
    Interrupted,
}

/// The conversation before a loop: the first messages of the conversation after another loop, and further messages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoopBase {
    /// The other loop, in the same session; absent if the conversation begins without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_loop: Option<LoopId>,
    /// The number of messages that are taken from the conversation after that loop.
    #[serde(default)]
    pub keep: usize,
    /// The messages after them, which are not in that conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Entry>,
}

/// A turn of a loop. Refers to messages by their position in [`LoopRecord::messages`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// The id of the turn.
    pub turn_id: TurnId,
    /// The reason why the turn began.
    pub triggered_by: TurnTrigger,
    /// The tokens of the turn.
    #[serde(default)]
    pub usage: Usage,
    /// The messages that entered the conversation before the reply.
    #[serde(default)]
    pub input_messages: Vec<usize>,
    /// The reply; absent if the turn has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_message: Option<usize>,
    /// The results of the reply's tool calls.
    #[serde(default)]
    pub tool_results: Vec<usize>,
    /// The time when the turn began.
    pub started_at: Timestamp,
    /// The time when the turn ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// The link from a loop to the loop of a sub-agent that one of its tool calls started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChildLoopRef {
    /// The call that started the sub-agent.
    pub tool_call_id: ToolCallId,
    /// The tool that was called.
    pub tool_name: ToolName,
    /// The loop of the sub-agent.
    pub child_loop_id: LoopId,
    /// The session of the sub-agent.
    pub child_session_id: SessionId,
}

/// The link from a sub-agent's session back to the tool call that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SpawnRef {
    /// The session of the call.
    pub parent_session_id: SessionId,
    /// The loop of the call.
    pub parent_loop_id: LoopId,
    /// The id of the call; empty until the call has ended.
    pub tool_call_id: ToolCallId,
    /// The name of the tool; empty until the call has ended.
    pub tool_name: ToolName,
}

/// The state of an open run. Together with the recorded events it is sufficient to resume the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum OpenRun {
    /// A state that this version can read.
    Known {
        /// The settings that decide the run's steps.
        setup: Box<RunSetup>,
        /// The state without the messages.
        light: Box<RunCheckpoint>,
    },
    /// A state that another version wrote. It is preserved; the run cannot be resumed and is closed as after a crash.
    Foreign(Value),
}

impl Session {
    /// Creates a session without loops.
    #[must_use]
    pub fn new(session_id: SessionId, agent_id: AgentId, created_at: Timestamp) -> Self {
        Self {
            session_id,
            agent_id,
            created_at,
            last_active_at: created_at,
            formation: SessionFormation::FirstLoop { timestamp: created_at },
            parent_spawn_ref: None,
            forked_from: None,
            scope: SessionScope::default(),
            loops: Vec::new(),
            journal_records: 0,
            extra: Extra::default(),
        }
    }

    /// Merges this copy of a session into the stored one: the result has the loops of both, and of a loop that both have
    /// the version with more events.
    #[must_use]
    pub fn merged_into(self, stored: Self) -> Self {
        merge::merge(stored, self)
    }

    /// Returns the session without its loops, as JSON.
    pub(crate) fn head_value(&self) -> Result<Value, serde_json::Error> {
        form::head_value(self)
    }

    /// Returns the session with its loops, as JSON.
    pub(crate) fn to_value(&self) -> Result<Value, serde_json::Error> {
        form::session_value(self)
    }

    /// Reads what [`to_value`](Self::to_value) returned, in this version or an earlier one.
    pub(crate) fn from_value(value: Value) -> Result<Self, form::FormError> {
        let mut session = form::read_session(value)?;
        session.share_groups();
        Ok(session)
    }
}

impl LoopRecord {
    /// Creates the record of a loop that has begun.
    #[must_use]
    pub fn new(loop_id: LoopId, session_id: SessionId, agent_id: AgentId, started_at: Timestamp) -> Self {
        Self {
            loop_id,
            session_id,
            agent_id,
            parent_loop_id: None,
            continuation_kind: ContinuationKind::Initial,
            started_at,
            ended_at: None,
            status: LoopStatus::Running,
            rejection: None,
            ended: None,
            config: LoopConfigSnapshot::default(),
            base: None,
            messages: Vec::new(),
            other_messages: Vec::new(),
            turns: Vec::new(),
            usage: Usage::default(),
            metadata: Value::Null,
            events: Vec::new(),
            children_loop_ids: Vec::new(),
            child_loop_refs: Vec::new(),
            group: None,
            parallel_group: None,
            open_run: None,
            extra: Extra::default(),
        }
    }

    /// Returns whether the loop has not ended, as far as is known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status.is_open()
    }
}

impl LoopStatus {
    /// Returns whether a loop of this status can still continue, by itself or after an answer.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running | Self::Suspended)
    }
}

#[cfg(test)]
mod tests;
