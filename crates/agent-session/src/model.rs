//! What a session is: loops with their messages, turns and events, linked to a tree.
//!
//! A message is stored once; turns refer to it by its place in [`LoopRecord::messages`]. In memory events share the
//! messages; in the file they refer to them. Times are milliseconds since 1970-01-01 UTC. Fields and kinds of event that
//! a later version adds survive a load and a save.
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
mod merge;
mod origin;
pub(crate) mod recording;
pub(crate) mod texts;
mod tree;

use agent_core::run::{RunCheckpoint, RunSetup};
use agent_core::{
    AgentId, ContinuationKind, Ended, Entry, GroupMember, LoopConfigSnapshot, LoopId, MessageRef, SessionId,
    SessionOrigin, Timestamp, ToolCallId, ToolName, TurnId, TurnTrigger, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::point::Point;
pub use event::{LoopEvent, RecordedEvent};
pub(crate) use extra::Extra;
pub(crate) use fold::fold_loop;
pub use origin::{ForkRef, ParallelGroupRecord};
pub(crate) use tree::{HeadMark, head_of};

/// The version that sessions are written with. It rises when a reader of this version could misread a file; new fields
/// and new kinds of event do not raise it.
pub const SESSION_VERSION: u32 = 1;

/// A session: all loops that belong together, in the order in which they began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct Session {
    /// The id of the session.
    pub session_id: SessionId,
    /// The id of the agent.
    pub agent_id: AgentId,
    /// When its first loop began.
    pub created_at: Timestamp,
    /// When something was last recorded.
    pub last_active_at: Timestamp,
    /// Why it was begun.
    pub formation: SessionFormation,
    /// The call that began it, for the session of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_spawn_ref: Option<SpawnRef>,
    /// The place of another session that this one continues, for a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkRef>,
    /// How long it is meant to be kept.
    #[serde(default)]
    pub scope: SessionScope,
    /// The loops, in the order in which they began.
    #[serde(skip)]
    pub loops: Vec<LoopRecord>,
    /// The last journal record that is in here.
    #[serde(default)]
    pub(crate) journal_records: u64,
    #[serde(skip)]
    pub(crate) extra: Extra,
}

/// Why a session was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionFormation {
    /// The program called `new_session`.
    Explicit {
        /// The time of the call.
        timestamp: Timestamp,
    },
    /// Its first loop began.
    FirstLoop {
        /// The time when the loop began.
        timestamp: Timestamp,
    },
    /// The one before had been silent for long.
    InactivityTimeout {
        /// How long it had to be silent, in seconds.
        threshold_secs: u64,
        /// The session that was silent.
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

/// How long a session is meant to be kept. Nothing here deletes one; it is a note for programs that do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionScope {
    /// As long as it is of use.
    #[default]
    Ephemeral,
    /// Until a program or the user deletes it.
    Persistent,
}

/// A loop: one run, from its start to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct LoopRecord {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The session that the loop began in.
    pub session_id: SessionId,
    /// The agent that ran the loop.
    pub agent_id: AgentId,
    /// The loop that it continues or was started by; may be in another session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_loop_id: Option<LoopId>,
    /// How it continues; `Initial` for a first loop.
    #[serde(default)]
    pub continuation_kind: ContinuationKind,
    /// The time when the loop began.
    pub started_at: Timestamp,
    /// When it ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The state or result of the loop.
    pub status: LoopStatus,
    /// Why it was refused, for `Rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejection: Option<String>,
    /// How the run says that it ended, in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// What it ran with; no secrets.
    #[serde(default)]
    pub config: LoopConfigSnapshot,
    /// The conversation before the loop. If it is absent, the loop begins with the conversation after the loop before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<LoopBase>,
    /// Its messages in the order of their ends, as `AgentEnd` lists them.
    #[serde(default)]
    pub messages: Vec<MessageRef>,
    /// Messages that are not the loop's own: replies of attempts that were tried again, and what compactions put in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_messages: Vec<MessageRef>,
    /// The turns of the loop, in order.
    #[serde(default)]
    pub turns: Vec<Turn>,
    /// Tokens of all turns.
    #[serde(default)]
    pub usage: Usage,
    /// What the caller wanted to have noted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// The events of the loop, in order.
    #[serde(skip)]
    pub events: Vec<LoopEvent>,
    /// Loops of the same session that continue it.
    #[serde(default)]
    pub children_loop_ids: Vec<LoopId>,
    /// Loops of other sessions that its tool calls began.
    #[serde(default)]
    pub child_loop_refs: Vec<ChildLoopRef>,
    /// Its place in a group of parallel loops: a branch, or the judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupMember>,
    /// What a branch knows of its group; there from its announcement on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_group: Option<ParallelGroupRecord>,
    /// Where an open run stands; absent when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_run: Option<OpenRun>,
    #[serde(skip)]
    pub(crate) extra: Extra,
}

/// The state or result of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LoopStatus {
    /// It was announced and has not begun.
    Pending,
    /// It has begun and has not ended.
    Running,
    /// It waits for an answer.
    Suspended,
    /// It did what there was to do.
    Completed,
    /// It was refused: by `before_loop` or by an input filter. `rejection` says why.
    Rejected,
    /// It was stopped by a limit or by `before_turn`; what it did stands.
    Stopped,
    /// The model could not be asked, or its answer could not be used.
    Failed,
    /// The caller aborted it.
    Aborted,
    /// It was cut off: its process ended, its task was dropped, or a record could not be written.
    Interrupted,
}

/// What the conversation was before a loop: the first messages of what it was after another one, and some more.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoopBase {
    /// The other loop, of the same session; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_loop: Option<LoopId>,
    /// How many of its messages.
    #[serde(default)]
    pub keep: usize,
    /// Messages after them that no loop of this session made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Entry>,
}

/// One turn. Messages are named by their place in [`LoopRecord::messages`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// The id of the turn.
    pub turn_id: TurnId,
    /// The event that opened the turn.
    pub triggered_by: TurnTrigger,
    /// The tokens of the turn.
    #[serde(default)]
    pub usage: Usage,
    /// What entered before the reply.
    #[serde(default)]
    pub input_messages: Vec<usize>,
    /// The reply; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_message: Option<usize>,
    /// The results of its calls.
    #[serde(default)]
    pub tool_results: Vec<usize>,
    /// The time when the turn began.
    pub started_at: Timestamp,
    /// When it ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// From a loop to the loop of a sub-agent that one of its calls began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChildLoopRef {
    /// The call that began the sub-agent.
    pub tool_call_id: ToolCallId,
    /// The tool that was called.
    pub tool_name: ToolName,
    /// The loop of the sub-agent.
    pub child_loop_id: LoopId,
    /// The session of the sub-agent.
    pub child_session_id: SessionId,
}

/// From a sub-agent's session back to the call that began it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SpawnRef {
    /// The session of the call.
    pub parent_session_id: SessionId,
    /// The loop of the call.
    pub parent_loop_id: LoopId,
    /// The call; empty until it has ended.
    pub tool_call_id: ToolCallId,
    /// The tool; empty until the call has ended.
    pub tool_name: ToolName,
}

/// Where an open run stands: with the events before it, enough to go on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum OpenRun {
    /// A state that this version can read.
    Known {
        /// What it is decided by.
        setup: Box<RunSetup>,
        /// Its state without its messages.
        light: Box<RunCheckpoint>,
    },
    /// A state that another version wrote. It is kept, and closed like a crash.
    Foreign(Value),
}

impl Session {
    /// A session without loops.
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
        form::read_session(value)
    }
}

impl LoopRecord {
    /// A loop that has begun.
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

    /// Whether it has not ended, as far as is known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status.is_open()
    }
}

impl LoopStatus {
    /// Whether a loop of this status may still go on by itself or by an answer.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running | Self::Suspended)
    }
}

#[cfg(test)]
mod tests;
