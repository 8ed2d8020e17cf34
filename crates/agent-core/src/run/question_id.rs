//! The ids of questions, which are unique in the tree of a run although models choose the ids of calls.

use std::borrow::Cow;

use crate::identity::{QuestionId, ToolCallId};

/// The beginnings of the ids that do not belong to calls.
const BUDGET: &str = "budget-";
const TURN: &str = "turn-";
const LOOP: &str = "loop";

/// What a loop asks about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About<'a> {
    /// Whether the loop may begin.
    Loop,
    /// Whether the turn with this index may begin.
    Turn(u32),
    /// The budget of the model call of a turn.
    ModelBudget {
        turn: u32,
        attempt: u32,
    },
    Call(&'a ToolCallId),
    /// The budget of a tool call.
    CallBudget(&'a ToolCallId),
}

/// Returns the id of a question of the loop with this prefix.
pub(crate) fn question_id(prefix: &str, about: About<'_>) -> QuestionId {
    QuestionId::from(match about {
        About::Loop => format!("{prefix}{LOOP}"),
        About::Turn(turn) => format!("{prefix}{TURN}{turn}"),
        About::ModelBudget { turn, attempt } => format!("{prefix}{BUDGET}{TURN}{turn}.{attempt}"),
        About::Call(call) => format!("{prefix}{}", escaped(call)),
        About::CallBudget(call) => format!("{prefix}{BUDGET}{}", escaped(call)),
    })
}

/// Returns the prefix of the loop that the call starts.
pub(crate) fn child_prefix(prefix: &str, call: &ToolCallId) -> String {
    format!("{}/", question_id(prefix, About::Call(call)))
}

/// Returns the id of a call without a `/`, which ends the prefix of a child loop, and with another beginning than those of
/// the other ids.
fn escaped(call: &ToolCallId) -> Cow<'_, str> {
    let id = call.as_str();
    let is_reserved = [BUDGET, TURN, LOOP].iter().any(|reserved| id.starts_with(reserved));
    if !is_reserved && !id.contains(['/', '%']) {
        return Cow::Borrowed(id);
    }
    let id = id.replace('%', "%25").replace('/', "%2F");
    Cow::Owned(if is_reserved { format!("%{id}") } else { id })
}

#[cfg(test)]
mod tests;
