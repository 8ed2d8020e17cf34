//! Going on in the right way: a first loop, the same path again, or another one.

use super::{AgentError, BasicAgent, IntoPrompt};
use crate::drive::{EventReceiver, event_channel};
use crate::history::{History, MessageRef};
use crate::identity::{ContinuationKind, ToolCallId};
use crate::message::{AgentMessage, Content, Message};

/// What the last loop left: with it, what was changed since can be told.
#[derive(Debug, Clone, Default)]
pub(super) struct Left {
    pub(super) history: History,
    pub(super) system_prompt: std::sync::Arc<str>,
    /// Whether something was changed in an earlier process.
    pub(super) changed: bool,
}

impl Left {
    /// Whether the loop left something else than this or a longer conversation.
    pub(super) fn differs(&self, history: &History, system_prompt: &str) -> bool {
        self.changed || *self.system_prompt != *system_prompt || !begins_with(&self.history, history)
    }
}

/// Whether `whole` begins with the messages of `beginning`; the same objects are not looked into.
fn begins_with(whole: &History, beginning: &History) -> bool {
    let shared = whole.shared_units(beginning);
    let mut rest = whole.units().skip(shared).flat_map(|u| u.entries());
    beginning
        .units()
        .skip(shared)
        .flat_map(|u| u.entries())
        .all(|entry| rest.next().is_some_and(|other| other.message() == entry.message()))
}

impl BasicAgent {
    /// Sends a message without knowing what the conversation needs, and picks the way itself (seed 002).
    ///
    /// | the conversation | what is started |
    /// |---|---|
    /// | is empty, or ends with a reply | a first loop, as by [`prompt`](Self::prompt) |
    /// | waits for a reply: it ends with a user message or a tool result, reply that failed or was aborted aside | a continuation, noted as `Branch`: the message changes what was there |
    ///
    /// Without a message it [goes on](Self::go_on) from what is there.
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt) and, without a message, [`continue_run`](Self::continue_run).
    pub fn send(&self, message: impl IntoPrompt) -> Result<EventReceiver, AgentError> {
        let messages = message.into_prompt();
        if messages.is_empty() {
            return self.go_on();
        }
        let (waits, follows) = {
            let state = self.lock();
            (state.history.awaits_reply(), state.last_loop_id.is_some())
        };
        let kind = match (waits, follows) {
            (false, _) => None,
            (true, false) => Some(ContinuationKind::Default),
            (true, true) => Some(self.tagged(ContinuationKind::Branch { tag: String::new() })),
        };
        let (tx, rx) = event_channel();
        self.start(messages, kind, tx)?;
        Ok(rx)
    }

    /// Goes on from what is there, noted as [what it is](Self::continuation_kind). After an abort or an error the model is
    /// asked again: a reply that failed is not shown to it.
    ///
    /// # Errors
    /// As [`continue_run`](Self::continue_run).
    pub fn go_on(&self) -> Result<EventReceiver, AgentError> {
        let kind = self.continuation_kind();
        let waits = self.lock().history.awaits_reply();
        if !waits {
            return self.continue_as(kind);
        }
        let (tx, rx) = event_channel();
        self.start(Vec::new(), Some(self.tagged(kind)), tx)?;
        Ok(rx)
    }

    /// What a continuation from here is: `Rerun` where conversation and system prompt are what the last loop had at some
    /// time, also when its end was taken back; `Branch` where a message or a tool result was added or changed, or the
    /// system prompt is another; `Default` where no loop went before. A tag is filled in when the loop begins.
    #[must_use]
    pub fn continuation_kind(&self) -> ContinuationKind {
        let system_prompt = self.settings().system_prompt.clone();
        let state = self.lock();
        match &state.left {
            _ if state.last_loop_id.is_none() => ContinuationKind::Default,
            Some(left) if !left.differs(&state.history, &system_prompt) => {
                ContinuationKind::Rerun { tag: String::new() }
            }
            _ => ContinuationKind::Branch { tag: String::new() },
        }
    }

    /// Puts other content in the place of a tool's result, for a run that is to go on from there as a branch.
    ///
    /// # Errors
    /// When the conversation has no result of this call, or a run is open.
    pub fn replace_tool_result(
        &self,
        call: impl Into<ToolCallId>,
        content: &[Content],
    ) -> Result<(), AgentError> {
        self.check_idle()?;
        let call = call.into();
        let mut state = self.lock();
        let mut found = false;
        let messages: Vec<MessageRef> = state
            .history
            .entries()
            .map(|entry| {
                let changed = with_result(entry.message(), &call, content);
                found |= changed.is_some();
                changed.map_or_else(|| entry.shared().clone(), MessageRef::new)
            })
            .collect();
        if !found {
            return Err(AgentError::NoResult { call });
        }
        state.history = state.history.rebuilt(messages).0;
        Ok(())
    }

    /// The kind with the time where its tag is empty; `Initial` counts as `Default`.
    pub(super) fn tagged(&self, kind: ContinuationKind) -> ContinuationKind {
        let now = || self.settings().config.environment.now().to_rfc3339();
        let filled = |tag: String| if tag.is_empty() { now() } else { tag };
        match kind {
            ContinuationKind::Initial => ContinuationKind::Default,
            ContinuationKind::Rerun { tag } => ContinuationKind::Rerun { tag: filled(tag) },
            ContinuationKind::Branch { tag } => ContinuationKind::Branch { tag: filled(tag) },
            other => other,
        }
    }
}

/// The message with other content, where it is the result of this call.
fn with_result(message: &AgentMessage, call: &ToolCallId, content: &[Content]) -> Option<AgentMessage> {
    let AgentMessage::Llm(llm) = message else { return None };
    let Message::ToolResult(result) = &llm.message else { return None };
    if result.tool_call_id != *call {
        return None;
    }
    let mut result = result.clone();
    result.content = content.to_vec();
    let mut llm = llm.clone();
    llm.message = Message::ToolResult(result);
    Some(AgentMessage::Llm(llm))
}
