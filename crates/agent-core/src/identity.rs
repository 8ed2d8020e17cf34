//! Identifiers of agents, sessions, loops, steps, calls and questions.
//!
//! Each is a separate type, so that a loop id cannot be passed where a session id is expected. A clone increments one
//! reference count.
//!
//! ```
//! use agent_core::{LoopId, SessionId};
//! let session = SessionId::from("s-1");
//! let first = LoopId::new(format!("{session}.anthropic.claude.1"));
//! assert_eq!(first.as_str(), "s-1.anthropic.claude.1");
//! ```

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates an id from a text.
            #[must_use]
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<T: Into<Arc<str>>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
    };
}

id_type! {
    /// The id of an agent, constant for its lifetime.
    AgentId
}
id_type! {
    /// The id of a session: a tree of related loops.
    SessionId
}
id_type! {
    /// The id of one loop: `{session}.{config}.{n}`.
    LoopId
}

impl LoopId {
    /// Returns the id of the next loop: the same id with the next number at its end.
    pub(crate) fn following(&self) -> Self {
        let id = self.as_str();
        let numbered = id.rsplit_once('.').and_then(|(rest, n)| Some((rest, n.parse::<u64>().ok()?)));
        match numbered {
            Some((rest, n)) => Self::from(format!("{rest}.{}", n.saturating_add(1))),
            None => Self::from(format!("{id}.2")),
        }
    }
}

id_type! {
    /// The id of a tool call, as the model sent it. It is made non-empty and unique when the reply enters the
    /// history.
    ToolCallId
}
id_type! {
    /// The name of a tool as the model sees it.
    ToolName
}
id_type! {
    /// The id that a tool gives to work that continues after its call, for example the id of a job.
    DeferredHandle
}
id_type! {
    /// The id of a question that a run waits for.
    QuestionId
}
id_type! {
    /// The stable key of one step of a run, including the attempt: `model-3.1`, `tools-3-0`, `tool-3-call_abc`. It is
    /// the same in logs, journals and replays. A tool receives it as its idempotency key.
    StepKey
}

/// A part of an id that is being built.
pub(crate) enum Part<'t> {
    Text(&'t str),
    Number(u64),
}

/// Builds the text of an id. Ids are built for each loop and step, and `format!` takes ten times as long.
pub(crate) fn joined(parts: &[Part<'_>]) -> String {
    const MOST_DIGITS: usize = 20;
    let length = |part: &Part<'_>| match part {
        Part::Text(text) => text.len(),
        Part::Number(_) => MOST_DIGITS,
    };
    let mut id = String::with_capacity(parts.iter().map(length).sum());
    for part in parts {
        match part {
            Part::Text(text) => id.push_str(text),
            Part::Number(number) => {
                let start = id.len();
                let mut left = *number;
                loop {
                    let digit = u32::try_from(left % 10).ok().and_then(|d| char::from_digit(d, 10));
                    id.insert(start, digit.unwrap_or('0'));
                    left /= 10;
                    if left == 0 {
                        break;
                    }
                }
            }
        }
    }
    id
}

/// How a loop continues another one; `Initial` for a first loop.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ContinuationKind {
    /// The loop continues no earlier loop.
    #[default]
    Initial,
    /// A continuation without further information.
    Default,
    /// The loop repeats the path of its parent from an equivalent context.
    Rerun {
        /// The time of the request, as RFC 3339 in UTC.
        tag: String,
    },
    /// The loop takes another path from a changed context.
    Branch {
        /// The time of the request, as RFC 3339 in UTC.
        tag: String,
    },
    /// A continuation after the context was compacted.
    Compaction,
}

/// The membership of a loop in a group of parallel loops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupMember {
    /// The id of the group, which its own events carry as their loop id.
    pub group_id: LoopId,
    /// The role of the loop in the group.
    pub role: GroupRole,
}

impl GroupMember {
    /// Creates a membership in this group.
    #[must_use]
    pub fn new(group_id: LoopId, role: GroupRole) -> Self {
        Self { group_id, role }
    }
}

/// The role of a loop in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GroupRole {
    /// The loop is one of the alternatives.
    Branch {
        /// The index among the alternatives, from 0.
        index: usize,
    },
    /// The loop judges the alternatives.
    Judge,
}

/// The cause of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TurnTrigger {
    /// The first turn of a prompt.
    #[default]
    User,
    /// The first turn of a sub-agent's loop.
    SubAgent,
    /// A later turn, or the first turn of a continuation.
    #[serde(alias = "FollowUp")]
    Continuation,
    /// The first turn of a branch.
    Branch,
}

/// The reason for which an agent started a new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionOrigin {
    /// The caller requested a new session.
    Explicit,
    /// The previous session was inactive for too long.
    Inactivity {
        /// The required time of inactivity, in seconds.
        threshold_secs: u64,
        /// The id of the previous session.
        previous_session_id: SessionId,
    },
}

/// A turn of a loop in which a message entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnId {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The index of the turn in the loop, from 0.
    pub turn_index: u32,
}

/// A point in time, in milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the milliseconds from `earlier` to this time; 0 if the clock was set back.
    #[must_use]
    pub fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Parses a time in RFC 3339, in any time zone. Returns `None` if the text is invalid or the time is before 1970.
    ///
    /// ```
    /// use agent_core::Timestamp;
    /// assert_eq!(Timestamp::from_rfc3339("1970-01-01T01:00:01.5+01:00"), Some(Timestamp(1_500)));
    /// ```
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let time = chrono::DateTime::parse_from_rfc3339(text).ok()?;
        u64::try_from(time.timestamp_millis()).ok().map(Self)
    }

    /// Formats the time as RFC 3339 in UTC, as [`ContinuationKind`] tags contain it.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        i64::try_from(self.0)
            .ok()
            .and_then(chrono::DateTime::from_timestamp_millis)
            .map(|t| t.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
            .unwrap_or_default()
    }
}

/// Computes a 64-bit FNV-1a hash. It must never change, because ids and jitter are derived from it.
pub(crate) fn stable_hash(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain([0xff]) {
            hash ^= u64::from(byte);
            hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    // FNV leaves the high bits of short inputs close together; this step mixes them.
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}
