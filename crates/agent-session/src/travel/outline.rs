//! A session turn by turn, as a tree: what a person chooses a place from.

use agent_core::{Message, MessageRef, Timestamp, ToolName, TurnId, Usage};

use super::{Point, messages_after};
use crate::error::SessionError;
use crate::model::{LoopStatus, Session};

/// A turn of a session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OutlineTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// The place after it.
    pub point: Point,
    /// The turn that it goes on from, as a place in the outline; `None` for a beginning.
    pub follows: Option<usize>,
    /// How many turns before it in the outline go on from the same one: 0 on the first path, more on later ones.
    pub branch: usize,
    /// What entered before the reply.
    pub input: Vec<MessageRef>,
    /// The reply.
    pub reply: Option<MessageRef>,
    /// The tools that it called.
    pub calls: Vec<ToolName>,
    /// Tokens.
    pub usage: Usage,
    /// When it began.
    pub started_at: Timestamp,
    /// What became of its loop.
    pub status: LoopStatus,
}

impl Session {
    /// All turns, in the order in which they were recorded; their places in the list stay as the session grows.
    ///
    /// # Errors
    /// When the events of a loop do not make a conversation.
    pub fn outline(&self) -> Result<Vec<OutlineTurn>, SessionError> {
        let mut turns: Vec<OutlineTurn> = Vec::new();
        for (at, record) in self.loops.iter().enumerate() {
            // The last turn on the way to the loop.
            let mut follows = None;
            let mut before = self.step_before(at)?;
            while let (None, Some((step, own))) = (follows, before) {
                let Some(loop_id) = self.loops.get(step).map(|r| &r.loop_id) else { break };
                let there = |t: &OutlineTurn| t.turn_id.loop_id == *loop_id && t.point.messages <= own;
                follows = turns.iter().rposition(there);
                before = self.step_before(step)?;
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
}
