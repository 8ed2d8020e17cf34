//! The open calls of a reply, and the stage of each.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::child::PendingChild;
use super::input::ToolChange;
use super::step::{CallStage, PendingCall, Step};
use crate::event::{Question, ToolExecutionEnd, ToolSnapshot};
use crate::history::Entry;
use crate::identity::{LoopId, Part, StepKey, Timestamp, ToolCallId, joined};
use crate::message::{AssistantMessage, DeferredCall, ToolCall};
use crate::tool::ToolResult;

/// A reply whose calls are not all closed. It is not in the history yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenCalls {
    pub(super) reply: Entry,
    pub(super) slots: Vec<Slot>,
    /// The number of calls in a group.
    pub(super) group: usize,
    /// Whether the run was aborted, so that no further call starts.
    pub(super) aborting: bool,
    /// The reason, if the run was interrupted and not aborted by the caller.
    pub(super) interrupted: Option<String>,
    /// Whether the run was aborted because it reached its maximum duration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) timed_out: bool,
}

/// One call and its stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Slot {
    pub(super) call: ToolCall,
    pub(super) stage: Stage,
    /// Whether `ToolExecutionStart` has been emitted.
    pub(super) started: bool,
    /// Whether the user allowed the call although a budget limit is reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) forced: bool,
    /// The arguments to run with when the budget's question is answered.
    #[serde(
        rename = "kept",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::explicit_null::field"
    )]
    pub(super) pending_arguments: Option<Value>,
    /// The tool for which the user allowed the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) approved: Option<Box<ToolSnapshot>>,
    /// The child loop to which the call is delegated, once it has been suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) child: Option<Box<PendingChild>>,
    pub(super) closed: Option<CallOutcome>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Stage {
    New,
    Asked(Question),
    Approved(#[serde(with = "super::explicit_null")] Option<Value>),
    Began(#[serde(with = "super::explicit_null")] Option<Value>),
    /// The child loop of the call is suspended.
    Waiting(#[serde(with = "super::explicit_null")] Option<Value>),
    Ended,
    Closed,
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CallOutcome {
    pub(super) result: ToolResult,
    pub(super) duration_ms: Option<u64>,
    pub(super) tokens: Option<u64>,
    pub(super) at: Timestamp,
    /// The changes of a hook, which are applied when the batch closes.
    pub(super) change: Option<ToolChange>,
}

impl OpenCalls {
    /// Returns the calls that have ended deferred.
    pub(super) fn deferred(&self) -> impl Iterator<Item = DeferredCall> {
        self.slots.iter().filter_map(|slot| {
            let handle = slot.closed.as_ref()?.result.deferred.clone()?;
            Some(DeferredCall::new(slot.call.id.clone(), slot.call.name.clone(), handle))
        })
    }

    /// Returns the calls that have started and not ended.
    pub(super) fn started(&self) -> impl Iterator<Item = &ToolCallId> {
        self.slots.iter().filter(|slot| slot.started && slot.closed.is_none()).map(|slot| &slot.call.id)
    }

    /// Returns whether this call has ended deferred, or has not ended and still can.
    pub(super) fn may_be_deferred(&self, id: &ToolCallId) -> bool {
        let mut slots = self.slots.iter().filter(|slot| slot.call.id == *id);
        slots.any(|slot| slot.closed.as_ref().is_none_or(|closed| closed.result.deferred.is_some()))
    }

    /// Creates the open calls of a reply, of which `group` run concurrently.
    pub(super) fn new(reply: Entry, group: usize) -> Self {
        let calls = reply.message().as_assistant().into_iter().flat_map(AssistantMessage::tool_calls);
        let slots = calls
            .map(|call| Slot {
                call: call.clone(),
                stage: Stage::New,
                started: false,
                forced: false,
                pending_arguments: None,
                approved: None,
                child: None,
                closed: None,
            })
            .collect();
        Self { reply, slots, group: group.max(1), aborting: false, interrupted: None, timed_out: false }
    }

    pub(super) fn slot_mut(&mut self, id: &ToolCallId) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|s| s.call.id == *id)
    }

    pub(super) fn questions(&self) -> impl Iterator<Item = &Question> {
        self.slots.iter().flat_map(|s| {
            let own = if let Stage::Asked(question) = &s.stage { Some(question) } else { None };
            own.into_iter().chain(s.child.iter().flat_map(|child| &child.questions))
        })
    }

    /// Returns the calls that were decided and have not ended: they wait for an answer, were allowed, or have begun.
    pub(super) fn decided(&self) -> impl Iterator<Item = &ToolCall> {
        let decided = |slot: &&Slot| match slot.stage {
            Stage::Asked(_) | Stage::Approved(_) | Stage::Began(_) | Stage::Waiting(_) => true,
            Stage::New | Stage::Ended | Stage::Closed => false,
        };
        self.slots.iter().filter(decided).map(|slot| &slot.call)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.slots.iter().all(|s| s.stage == Stage::Closed)
    }

    /// Returns the first group with a call that can proceed, and the index of its first call.
    pub(super) fn current_group(&self) -> Option<(usize, &[Slot])> {
        self.slots
            .chunks(self.group)
            .enumerate()
            .find(|(_, slots)| slots.iter().any(Slot::is_actionable))
            .map(|(n, slots)| (n * self.group, slots))
    }

    pub(super) fn next(&self, turn: u32) -> Step {
        let Some((first, slots)) = self.current_group() else {
            let key = StepKey::from(format!("answer-{turn}"));
            return Step::AwaitAnswer { key, questions: self.questions().cloned().collect() };
        };
        let number = |turn: u32| Part::Number(turn.into());
        let calls = slots
            .iter()
            .filter_map(|slot| {
                let stage = match &slot.stage {
                    Stage::New => CallStage::New,
                    Stage::Approved(arguments) => CallStage::Approved(arguments.clone()),
                    Stage::Began(arguments) => CallStage::Began(arguments.clone()),
                    Stage::Waiting(arguments) if slot.is_actionable() => {
                        CallStage::Answered(arguments.clone())
                    }
                    Stage::Ended => CallStage::Ended,
                    Stage::Asked(_) | Stage::Waiting(_) | Stage::Closed => return None,
                };
                let id = Part::Text(slot.call.id.as_str());
                let key = StepKey::from(joined(&[Part::Text("tool-"), number(turn), Part::Text("-"), id]));
                let (call, child) = (slot.call.clone(), slot.child.clone());
                let approved = slot.approved.clone();
                Some(PendingCall { key, call, stage, forced: slot.forced, approved, child })
            })
            .collect();
        let place = Part::Number(u64::try_from(first).unwrap_or(u64::MAX));
        let key = joined(&[Part::Text("tools-"), number(turn), Part::Text("-"), place]);
        Step::RunTools { key: StepKey::from(key), calls }
    }

    pub(super) fn may_begin(&self, id: &ToolCallId) -> bool {
        self.current_group()
            .is_some_and(|(_, slots)| slots.iter().any(|s| s.call.id == *id && s.is_actionable()))
    }

    pub(super) fn up_for_review(&self, id: &ToolCallId, loop_id: &LoopId) -> Option<ToolExecutionEnd> {
        let slot = self.slots.iter().find(|s| s.call.id == *id && s.stage == Stage::Ended)?;
        let closed = slot.closed.as_ref()?;
        Some(execution_end(&slot.call, loop_id, &closed.result, closed.duration_ms))
    }

    /// Returns the reply and the outcomes of its calls, in their order.
    pub(super) fn into_parts(self) -> (Entry, Vec<(ToolCall, CallOutcome)>) {
        let slots = self.slots.into_iter().filter_map(|s| s.closed.map(|c| (s.call, c.changed()))).collect();
        (self.reply, slots)
    }
}

/// Returns the data of the event that a call has ended.
pub(super) fn execution_end(
    call: &ToolCall,
    loop_id: &LoopId,
    result: &ToolResult,
    duration_ms: Option<u64>,
) -> ToolExecutionEnd {
    ToolExecutionEnd {
        loop_id: loop_id.clone(),
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        is_error: result.is_error,
        child_loop_id: result.child_loop_id.clone(),
        result: result.clone(),
        duration_ms,
    }
}

impl Slot {
    /// Returns the call with these arguments, if they differ from those that the model sent.
    pub(super) fn call_with(&self, arguments: Option<&Value>) -> Box<ToolCall> {
        let mut call = self.call.clone();
        if let Some(arguments) = arguments {
            call.arguments = arguments.clone().into();
        }
        Box::new(call)
    }

    pub(super) fn is_actionable(&self) -> bool {
        match self.stage {
            Stage::Asked(_) | Stage::Closed => false,
            Stage::Waiting(_) => self.child.as_ref().is_some_and(|child| child.has_answers()),
            _ => true,
        }
    }
}

impl CallOutcome {
    /// Returns the outcome with the hook's changes applied.
    fn changed(mut self) -> Self {
        let Some(change) = self.change.take() else { return self };
        if change.apply_to(&mut self.result) {
            self.tokens = None;
        }
        self
    }
}
