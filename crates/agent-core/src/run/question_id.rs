//! The ids of questions about tool calls, which are unique in the tree of a run although models choose the ids of calls.

use std::borrow::Cow;

use crate::identity::{QuestionId, ToolCallId};

/// The beginnings of the ids of other questions of a run.
const RESERVED: [&str; 3] = ["budget-", "turn-", "loop"];

/// Returns the id of the question about a call: the prefix of the loop and the id of the call. A `/` in the id of the call
/// is escaped, because the prefixes of child loops end with it, and so is the beginning of an id that could be that of a
/// question about a budget, a turn or the loop.
pub(crate) fn question_id(prefix: &str, call: &ToolCallId) -> QuestionId {
    QuestionId::from(format!("{prefix}{}", escaped(call)))
}

/// Returns the id of the question about the budget of a call.
pub(crate) fn budget_question_id(prefix: &str, call: &ToolCallId) -> QuestionId {
    QuestionId::from(format!("{prefix}budget-{}", escaped(call)))
}

fn escaped(call: &ToolCallId) -> Cow<'_, str> {
    let id = call.as_str();
    let is_reserved = RESERVED.iter().any(|reserved| id.starts_with(reserved));
    if !is_reserved && !id.contains(['/', '%']) {
        return Cow::Borrowed(id);
    }
    let id = id.replace('%', "%25").replace('/', "%2F");
    Cow::Owned(if is_reserved { format!("%{id}") } else { id })
}

#[cfg(test)]
mod tests;
