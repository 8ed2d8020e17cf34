//! Names of things: agents, sessions, loops, steps, calls and questions.
//!
//! Each is a type of its own, so that a loop id cannot be passed where a session id is meant. A clone costs
//! one atomic count.
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

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// An id with this text.
            #[must_use]
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The id as text.
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

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
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

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }
    };
}

id_type! {
    /// One agent, for as long as it lives (REQ-188).
    AgentId
}
id_type! {
    /// A session: the tree of loops that belong together.
    SessionId
}
id_type! {
    /// One run of the loop: `{session}.{config}.{n}` (REQ-189).
    LoopId
}
id_type! {
    /// A tool call, as the model named it, made non-empty and unique when its reply enters the history.
    ToolCallId
}
id_type! {
    /// The name of a tool as the model sees it.
    ToolName
}
id_type! {
    /// A question that a run waits on.
    QuestionId
}
id_type! {
    /// The stable name of one step of a run, attempt included: `model-3.1`, `tools-3-0`, `tool-3-call_abc`.
    /// It is the same in logs, journals and recordings, and is the idempotency key that a tool receives.
    StepKey
}

/// A part of an id.
pub(crate) enum Part<'t> {
    Text(&'t str),
    Number(u64),
}

/// The text of an id. Ids are made for each loop and each step, and the formatting of the standard library takes ten times
/// as long.
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

/// How a loop continues another one (REQ-180). `Initial` is what a first loop is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ContinuationKind {
    /// No earlier loop is continued.
    #[default]
    Initial,
    /// Continued, without saying more.
    Default,
    /// The same path again from an equivalent context.
    Rerun {
        /// When it was asked for, RFC 3339 in UTC.
        tag: String,
    },
    /// Another path from a changed context.
    Branch {
        /// When it was asked for, RFC 3339 in UTC.
        tag: String,
    },
    /// Continued because the context was compacted.
    Compaction,
}

/// A loop's place in a group of parallel loops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupMember {
    /// The group; also what its own events carry as their loop.
    pub group_id: LoopId,
    /// What the loop does there.
    pub role: GroupRole,
}

impl GroupMember {
    /// A place in this group.
    #[must_use]
    pub fn new(group_id: LoopId, role: GroupRole) -> Self {
        Self { group_id, role }
    }
}

/// What a loop does in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GroupRole {
    /// It is one of the alternatives.
    Branch {
        /// Its place among them, from 0.
        index: usize,
    },
    /// It says which of them is the best.
    Judge,
}

/// What opened a turn (REQ-181).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TurnTrigger {
    /// The first turn of a prompt.
    #[default]
    User,
    /// The first turn of a sub-agent's loop.
    SubAgent,
    /// A later turn, or the first one of a plain continuation.
    #[serde(alias = "FollowUp")]
    Continuation,
    /// The first turn of a branch.
    Branch,
}

/// Why an agent is in a session that it was not in before (REQ-215).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionOrigin {
    /// Somebody asked for a new one.
    Explicit,
    /// The one before had been silent for long.
    Inactivity {
        /// How long it had to be silent, in seconds.
        threshold_secs: u64,
        /// The one before.
        previous_session_id: SessionId,
    },
}

/// Where in a session a message entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnId {
    /// The loop.
    pub loop_id: LoopId,
    /// The turn of that loop, from 0.
    pub turn_index: u32,
}

/// Milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The number of milliseconds from `earlier` to this; 0 when the clock was set back.
    #[must_use]
    pub fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// A time in RFC 3339, in whatever zone; `None` where the text is none, or one before 1970.
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

    /// The time in RFC 3339 in UTC, as [`ContinuationKind`] tags have it.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        i64::try_from(self.0)
            .ok()
            .and_then(chrono::DateTime::from_timestamp_millis)
            .map(|t| t.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
            .unwrap_or_default()
    }
}

/// A 64-bit FNV-1a hash. Stable for ever: ids and jitter are derived with it.
pub(crate) fn stable_hash(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain([0xff]) {
            hash ^= u64::from(byte);
            hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    // FNV leaves the high bits of short inputs close together; mix them once.
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}
