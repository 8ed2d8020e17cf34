//! The turns of a session as a tree, from which the user chooses a place.

use std::collections::BTreeMap;

use agent_core::{LoopId, Message, MessageRef, Timestamp, ToolName, TurnId, Usage};

use super::path::Paths;
use super::{Point, turn_ends};
use crate::error::SessionError;
use crate::model::{LoopStatus, Session};

/// A turn in the outline of a session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OutlineTurn {
    /// The id of the turn.
    pub turn_id: TurnId,
    /// The point after the turn.
    pub point: Point,
    /// The turn that it continues, as a position in the outline; `None` for a beginning.
    pub follows: Option<usize>,
    /// How many earlier turns of the outline continue the same turn: 0 on the first path, more on later ones.
    pub branch: usize,
    /// The messages that entered the conversation before the reply.
    pub input: Vec<MessageRef>,
    /// The reason why the run was stopped in or after this turn, as its message in the conversation states it; `None` if
    /// there is no such message. It is not among `input`.
    pub stopped: Option<String>,
    /// The reply of the model; `None` if the turn has none.
    pub reply: Option<MessageRef>,
    /// The tools that it called.
    pub calls: Vec<ToolName>,
    /// The tokens of the turn.
    pub usage: Usage,
    /// The time when the turn began.
    pub started_at: Timestamp,
    /// The status of the turn's loop.
    pub status: LoopStatus,
}

/// Builds the outline of [`Session::outline`].
pub(super) fn outline(session: &Session) -> Result<Vec<OutlineTurn>, SessionError> {
    let mut outline = Outline { paths: Paths::of(session), begins: Vec::new(), turns: BTreeMap::new() };
    let mut turns: Vec<OutlineTurn> = Vec::new();
    // The number of turns that continue each turn; the first number is that of the beginnings.
    let mut branches = vec![0];
    for (at, record) in session.loops.iter().enumerate() {
        let mut follows = outline.begin(at)?;
        for (turn, messages) in record.turns.iter().zip(turn_ends(record)) {
            let reply = turn.output_message.and_then(|at| record.messages.get(at)).cloned();
            let calls = match reply.as_ref().and_then(|m| m.as_llm()) {
                Some(Message::Assistant(reply)) => reply.tool_calls().map(|c| c.name.clone()).collect(),
                _ => Vec::new(),
            };
            let entered = turn.input_messages.iter().filter_map(|at| record.messages.get(*at)).cloned();
            let (notes, input): (Vec<_>, Vec<_>) =
                entered.partition(|message| message.stopped_run_reason().is_some());
            outline.add_turn(&turn.turn_id.loop_id, messages, turns.len());
            turns.push(OutlineTurn {
                turn_id: turn.turn_id.clone(),
                point: Point::new(record.loop_id.clone(), messages),
                follows,
                branch: next(&mut branches, follows),
                input,
                stopped: notes.last().and_then(|note| note.stopped_run_reason()),
                reply,
                calls,
                usage: turn.usage,
                started_at: turn.started_at,
                status: record.status,
            });
            branches.push(0);
            follows = Some(turns.len() - 1);
        }
    }
    Ok(turns)
}

/// Returns how many turns were counted before that continue the same turn, and counts one more.
fn next(branches: &mut [usize], follows: Option<usize>) -> usize {
    let number = branches.get_mut(follows.map_or(0, |turn| turn + 1));
    number.map_or(0, |number| std::mem::replace(number, *number + 1))
}

/// The parts of an outline that later loops refer to.
struct Outline<'a> {
    paths: Paths<'a>,
    /// Where each loop begins.
    begins: Vec<Begin>,
    /// For each loop, its turns with the number of messages after them. A turn that a later turn precedes or equals in this
    /// number is removed, so that both numbers increase.
    turns: BTreeMap<&'a LoopId, Vec<(usize, usize)>>,
}

/// Where a loop begins.
#[derive(Clone, Copy)]
struct Begin {
    /// The loop and the number of messages of the conversation after it.
    place: Option<(usize, usize)>,
    /// The last turn on the path to the loop.
    follows: Option<usize>,
}

impl<'a> Outline<'a> {
    /// Returns the last turn on the path to a loop. The loops before it must be known.
    fn begin(&mut self, at: usize) -> Result<Option<usize>, SessionError> {
        let place = self.place(at)?;
        let follows = match place {
            None => None,
            Some(place) => {
                let own = self.paths.own_of(place)?;
                let inside = self.last_turn(place.0, own);
                inside.or_else(|| self.begins.get(place.0).and_then(|begin| begin.follows))
            }
        };
        self.begins.push(Begin { place, follows });
        Ok(follows)
    }

    /// Returns the place at which a loop begins. Loops whose own messages were all removed by a rewind are skipped.
    fn place(&mut self, at: usize) -> Result<Option<(usize, usize)>, SessionError> {
        let mut place = self.paths.base(at)?;
        while let Some((before, keep)) = place
            && self.paths.is_skipped(before, keep)?
        {
            let base = self.paths.base(before)?;
            if base.is_none_or(|(_, below)| below <= keep) {
                // The loop begins where the skipped one does.
                return Ok(self.begins.get(before).and_then(|begin| begin.place));
            }
            place = base.map(|(after, below)| (after, below.min(keep)));
        }
        Ok(place)
    }

    fn add_turn(&mut self, loop_id: &'a LoopId, messages: usize, turn: usize) {
        let turns = self.turns.entry(loop_id).or_default();
        while turns.pop_if(|(earlier, _)| *earlier >= messages).is_some() {}
        turns.push((messages, turn));
    }

    /// Returns the last turn of a loop that ends within this number of messages.
    fn last_turn(&self, at: usize, messages: usize) -> Option<usize> {
        let turns = self.turns.get(&self.paths.session().loops.get(at)?.loop_id)?;
        let number = turns.partition_point(|(end, _)| *end <= messages);
        turns.get(number.checked_sub(1)?).map(|(_, turn)| *turn)
    }
}
