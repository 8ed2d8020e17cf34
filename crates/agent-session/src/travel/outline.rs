//! The turns of a session as a tree, from which the user chooses a place.

use agent_core::{Message, MessageRef, Timestamp, ToolName, TurnId, Usage};

use super::path::step_before;
use super::{Point, messages_after};
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
    let mut turns: Vec<OutlineTurn> = Vec::new();
    for (at, record) in session.loops.iter().enumerate() {
        // The last turn on the path to the loop.
        let mut follows = None;
        let mut before = step_before(session, at)?;
        while let (None, Some((step, own))) = (follows, before) {
            let Some(loop_id) = session.loops.get(step).map(|r| &r.loop_id) else { break };
            let there = |t: &OutlineTurn| t.turn_id.loop_id == *loop_id && t.point.messages <= own;
            follows = turns.iter().rposition(there);
            before = step_before(session, step)?;
        }
        for turn in &record.turns {
            let reply = turn.output_message.and_then(|at| record.messages.get(at)).cloned();
            let calls = match reply.as_ref().and_then(|m| m.as_llm()) {
                Some(Message::Assistant(reply)) => reply.tool_calls().map(|c| c.name.clone()).collect(),
                _ => Vec::new(),
            };
            let input = turn.input_messages.iter().filter_map(|at| record.messages.get(*at)).cloned();
            turns.push(OutlineTurn {
                turn_id: turn.turn_id.clone(),
                point: Point::new(record.loop_id.clone(), messages_after(record, turn)),
                follows,
                branch: turns.iter().filter(|t| t.follows == follows).count(),
                input: input.collect(),
                reply,
                calls,
                usage: turn.usage,
                started_at: turn.started_at,
                status: record.status,
            });
            follows = Some(turns.len() - 1);
        }
    }
    Ok(turns)
}
