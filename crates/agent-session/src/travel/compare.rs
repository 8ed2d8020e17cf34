//! Compares two points.

use agent_core::{MessageRef, Usage};

use super::path::{Paths, Step};
use super::{Point, files_on};
use crate::error::SessionError;
use crate::files::FileDifference;
use crate::model::{LoopRecord, Session};

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Side {
    /// The point that is compared.
    pub point: Point,
    /// The messages after the common ones.
    pub messages: Vec<MessageRef>,
    /// The tokens of all turns on the path to the point, including the common ones.
    pub usage: Usage,
}

/// The comparison of two points of one session, or of a session and its fork.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The number of messages with which both conversations begin.
    pub common: usize,
    /// The side of the first point.
    pub a: Side,
    /// The side of the second point.
    pub b: Side,
    /// Files whose recorded states differ; `then` is the state at the first point, `now` at the second.
    pub files: Vec<FileDifference>,
}

impl Comparison {
    /// Compares a point of one session with a point of the same or another session.
    ///
    /// # Errors
    /// [`SessionError::NoPoint`] when there is no such point, [`SessionError::Fold`] when the events before it do not make
    /// a conversation.
    pub fn between(
        (session_a, a): (&Session, &Point),
        (session_b, b): (&Session, &Point),
    ) -> Result<Self, SessionError> {
        let (mut paths_a, mut paths_b) = (Paths::of(session_a), Paths::of(session_b));
        let (history_a, history_b) = (paths_a.history_at(a)?, paths_b.history_at(b)?);
        let (path_a, path_b) = (paths_a.path_to(a)?, paths_b.path_to(b)?);
        let pairs = history_a.entries().zip(history_b.entries());
        let common = pairs.take_while(|(x, y)| x.shared() == y.shared()).count();
        let rest = |history: &agent_core::History| {
            history.entries().skip(common).map(|e| e.shared().clone()).collect::<Vec<_>>()
        };
        let files = files_on(session_a, &path_a).compared_to(&files_on(session_b, &path_b));
        Ok(Self {
            common,
            files,
            a: Side { messages: rest(&history_a), usage: usage_on(session_a, &path_a), point: a.clone() },
            b: Side { messages: rest(&history_b), usage: usage_on(session_b, &path_b), point: b.clone() },
        })
    }
}

/// Returns the tokens of all turns on a path.
pub(super) fn usage_on(session: &Session, path: &[Step]) -> Usage {
    let used = path.iter().filter_map(|step| Some(usage_of(session.loops.get(step.at)?, step.own)));
    used.fold(Usage::default(), |sum, usage| sum.combine(&usage))
}

/// Returns the tokens of the turns whose reply is among the first `own` messages of a loop.
fn usage_of(record: &LoopRecord, own: usize) -> Usage {
    if own >= record.messages.len() {
        return record.usage;
    }
    let turns = record.turns.iter().filter(|t| t.output_message.is_some_and(|at| at < own));
    turns.fold(Usage::default(), |sum, t| sum.combine(&t.usage))
}
