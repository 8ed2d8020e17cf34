//! How the next run continues the conversation: as a new loop, a rerun, or a branch.

use super::{AgentError, AgentHandle};
use crate::history::{History, MessageRef};
use crate::identity::{ContinuationKind, ToolCallId};
use crate::message::{AgentMessage, Content, Message};

/// The conversation and the prompt at the end of the last loop, to detect later changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Left {
    pub(super) history: History,
    pub(super) system_prompt: std::sync::Arc<str>,
    /// Whether the conversation or the prompt was changed before the snapshot was taken.
    pub(super) changed: bool,
}

impl Left {
    /// Returns whether the conversation or the prompt differs from that of the loop, other than by additional messages.
    pub(super) fn differs(&self, history: &History, system_prompt: &str) -> bool {
        self.changed || *self.system_prompt != *system_prompt || !begins_with(&self.history, history)
    }
}

/// Returns whether `whole` begins with the messages of `beginning`. Shared units are not compared again.
fn begins_with(whole: &History, beginning: &History) -> bool {
    let shared = whole.shared_units(beginning);
    let mut rest = whole.units().skip(shared).flat_map(|u| u.entries());
    beginning
        .units()
        .skip(shared)
        .flat_map(|u| u.entries())
        .all(|entry| rest.next().is_some_and(|other| other.message() == entry.message()))
}

impl super::Inner {
    /// Returns the kind of a continuation from here: `Rerun` if the conversation and the system prompt are those of
    /// some point of the last loop, `Branch` if a message, a tool result or the prompt was changed, and `Default`
    /// without an earlier loop. The tag is filled in when the loop starts.
    pub(crate) fn continuation_kind(&self) -> ContinuationKind {
        let system_prompt = self.settings().system_prompt.clone();
        let state = self.state();
        match &state.left {
            _ if state.last_loop_id.is_none() => ContinuationKind::Default,
            Some(left) if !left.differs(&state.history, &system_prompt) => {
                ContinuationKind::Rerun { tag: String::new() }
            }
            _ => ContinuationKind::Branch { tag: String::new() },
        }
    }

    /// Returns the kind with the current time as its tag if the tag is empty. `Initial` becomes `Default`.
    pub(super) fn tagged(&self, kind: ContinuationKind) -> ContinuationKind {
        let now = || self.settings().config.services.environment.now().to_rfc3339();
        let filled = |tag: String| if tag.is_empty() { now() } else { tag };
        match kind {
            ContinuationKind::Initial => ContinuationKind::Default,
            ContinuationKind::Rerun { tag } => ContinuationKind::Rerun { tag: filled(tag) },
            ContinuationKind::Branch { tag } => ContinuationKind::Branch { tag: filled(tag) },
            other => other,
        }
    }

    /// Replaces the content of a tool's result in the conversation.
    pub(crate) fn replace_tool_result(
        &self,
        call: &ToolCallId,
        content: &[Content],
    ) -> Result<(), AgentError> {
        let mut state = self.state();
        let mut found = false;
        let messages: Vec<MessageRef> = state
            .history
            .entries()
            .map(|entry| {
                let changed = with_result(entry.message(), call, content);
                found |= changed.is_some();
                changed.map_or_else(|| entry.shared().clone(), MessageRef::new)
            })
            .collect();
        if !found {
            return Err(AgentError::NoResult { call: call.clone() });
        }
        state.history = state.history.rebuilt(messages).0;
        Ok(())
    }
}

/// Returns how [`AgentHandle::send`] continues with these messages; `None` for a new loop.
pub(super) fn kind_of_send(agent: &AgentHandle, messages: &[AgentMessage]) -> Option<ContinuationKind> {
    let inner = &agent.inner;
    if messages.is_empty() {
        return Some(inner.continuation_kind());
    }
    let state = inner.state();
    match (state.history.awaits_reply(), state.last_loop_id.is_some()) {
        (false, _) => None,
        (true, false) => Some(ContinuationKind::Default),
        (true, true) => Some(ContinuationKind::Branch { tag: String::new() }),
    }
}

/// Returns the message with other content if it is the result of this call.
fn with_result(message: &AgentMessage, call: &ToolCallId, content: &[Content]) -> Option<AgentMessage> {
    let AgentMessage::Llm(llm) = message else { return None };
    let Message::ToolResult(result) = &llm.message else { return None };
    if result.tool_call_id != *call {
        return None;
    }
    let mut result = result.clone();
    result.content = content.to_vec().into();
    let mut llm = llm.clone();
    llm.message = Message::ToolResult(result);
    Some(AgentMessage::Llm(llm))
}
