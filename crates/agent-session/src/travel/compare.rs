//! Two places side by side.

use agent_core::{MessageRef, Usage};

use super::Point;
use crate::error::SessionError;
use crate::files::FileDifference;
use crate::model::{LoopRecord, Session};

/// What one of two places has that the other has not.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Side {
    /// The place that is compared.
    pub point: Point,
    /// The messages after the common ones.
    pub messages: Vec<MessageRef>,
    /// Tokens of all turns that led to the place, the common ones included.
    pub usage: Usage,
}

/// Two places side by side; of one session, or of a session and its fork.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// With how many messages both conversations begin.
    pub common: usize,
    /// The side of the first place.
    pub a: Side,
    /// The side of the second place.
    pub b: Side,
    /// Files that are noted to differ between the two; `then` is the first place, `now` the second.
    pub files: Vec<FileDifference>,
}

impl Comparison {
    /// Compares a place of one session with a place of the same or another one.
    ///
    /// # Errors
    /// When there is no such place, or the events before it do not make a conversation.
    pub fn between(
        (session_a, a): (&Session, &Point),
        (session_b, b): (&Session, &Point),
    ) -> Result<Self, SessionError> {
        let (history_a, history_b) = (session_a.history_at(a)?, session_b.history_at(b)?);
        let pairs = history_a.entries().zip(history_b.entries());
        let common = pairs.take_while(|(x, y)| x.shared() == y.shared()).count();
        let rest = |history: &agent_core::History| {
            history.entries().skip(common).map(|e| e.shared().clone()).collect::<Vec<_>>()
        };
        let files = session_a.files_at(a)?.compared_to(&session_b.files_at(b)?);
        Ok(Self {
            common,
            files,
            a: Side { messages: rest(&history_a), usage: session_a.usage_to(a)?, point: a.clone() },
            b: Side { messages: rest(&history_b), usage: session_b.usage_to(b)?, point: b.clone() },
        })
    }
}

/// Tokens of the turns whose reply is among the first messages of a loop; of all turns where these are all messages.
pub(super) fn usage_of(record: &LoopRecord, own: usize) -> Usage {
    if own >= record.messages.len() {
        return record.usage;
    }
    let turns = record.turns.iter().filter(|t| t.output_message.is_some_and(|at| at < own));
    turns.fold(Usage::default(), |sum, t| sum.combine(&t.usage))
}
