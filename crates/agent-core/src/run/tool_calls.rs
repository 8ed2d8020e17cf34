//! Handles the calls of a reply: decisions, results, questions, skipping, and closing the exchange.

use serde_json::Value;

use super::abort::Cause;
use super::budget::sentence;
use super::input::{ToolChange, ToolOutcome, ToolQuestion, ToolVerdict};
use super::open_calls::{CallOutcome, OpenCalls, Slot, Stage, execution_end};
use super::question_id::{About, question_id};
use super::queues::SteeringPolicy;
use super::{Phase, Refusal, Run, budget, child, repeats};
use crate::event::{AgentEvent, Answer, BudgetNote, Ended, Question};
use crate::history::{Entry, MessageRef};
use crate::identity::{LoopId, QuestionId, StepKey, Timestamp, ToolCallId};
use crate::message::{LlmMessage, Message, StopReason, ToolCall, ToolResultMessage};
use crate::tool::ToolResult;

/// The result of a call that steering skipped.
pub(super) const SKIPPED: &str = "Skipped due to queued user message.";
/// The result of a call that an abort ended.
pub(super) const ABORTED: &str = "Operation aborted";
/// The result of a call whose reply was cut by the output limit.
pub(super) const LENGTH_CUT: &str = "The reply reached the output limit, so this call may be incomplete and was not run. Send the call again, in smaller parts if it is long.";

/// Returns an open call, and whether the run was aborted.
pub(super) fn open_slot<'p>(phase: &'p mut Phase, id: &ToolCallId) -> Result<(&'p mut Slot, bool), Refusal> {
    let Phase::Tools(open) = phase else { return Err("no calls are open".into()) };
    let aborting = open.aborting;
    let slot = open.slot_mut(id).ok_or_else(|| format!("there is no call {id:?}"))?;
    Ok((slot, aborting))
}

pub(super) fn began(
    run: &mut Run,
    id: &ToolCallId,
    verdict: ToolVerdict,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let (now, loop_id) = (run.now, run.setup.loop_id.clone());
    let (may_begin, pauses) = (run.may_begin(id), run.pauses_at_limit());
    let (slot, aborting) = open_slot(&mut run.phase, id)?;
    if !may_begin {
        return Err(format!("the call {id:?} is not one of those that may begin now"));
    }
    if aborting && !matches!(verdict, ToolVerdict::Deny(_)) {
        return Err("the run was aborted, so no call starts and no question is asked".into());
    }
    // A call that had started before a crash may be asked about, denied or executed again.
    if slot.stage == Stage::Ended {
        return Err(format!("the call {id:?} has ended"));
    }
    let prefix = &run.setup.question_prefix;
    match verdict {
        ToolVerdict::Allow | ToolVerdict::AllowWith(_) => {
            let arguments = match (verdict, &slot.stage) {
                (ToolVerdict::AllowWith(arguments), _) => Some(arguments),
                (_, Stage::Approved(arguments) | Stage::Began(arguments) | Stage::Waiting(arguments)) => {
                    arguments.clone()
                }
                _ => None,
            };
            // A call that is continued or executed again after an interruption was counted before.
            let is_counted = slot.started;
            emit_start(slot, &loop_id, out);
            slot.stage = Stage::Began(arguments);
            if let Some(child) = &mut slot.child {
                child.resume();
            }
            if !is_counted {
                budget::spend_tool_call(run);
            }
        }
        ToolVerdict::Deny(result) => {
            close(slot, &loop_id, ToolResult { is_error: true, ..*result }, now, out)
        }
        ToolVerdict::Ask(ToolQuestion { text, arguments, tool }) => {
            let id = question_id(prefix, About::Call(id));
            let call = Some(slot.call_with(arguments.as_ref()));
            let outcome_unknown = slot.started;
            let question = Question { id, text, call, tool, budget: None, outcome_unknown };
            ask(slot, question, arguments, loop_id, out);
        }
        ToolVerdict::OverBudget { refusal, arguments } => {
            if pauses {
                let text = sentence(&format!("{refusal}. Raise it and run {}?", slot.call.name));
                let id = question_id(prefix, About::CallBudget(id));
                let call = Some(slot.call_with(arguments.as_ref()));
                let budget = Some(refusal.clone());
                let outcome_unknown = slot.started;
                let question = Question { id, text, call, tool: None, budget, outcome_unknown };
                ask(slot, question, arguments, loop_id, out);
            } else {
                let text = format!("This call was not run: {refusal}.");
                close(slot, &loop_id, ToolResult::error(text), now, out);
                run.budget.over.get_or_insert_with(|| refusal.clone());
            }
            let key = StepKey::from(format!("tool-{}-{id}", run.turn.index));
            budget::emit_at(run, key, BudgetNote::Refused { refusal }, out);
        }
    }
    settle(run, out);
    Ok(())
}

/// Emits a question about a call, which waits for the answer with these arguments.
fn ask(
    slot: &mut Slot,
    question: Question,
    arguments: Option<Value>,
    loop_id: LoopId,
    out: &mut Vec<AgentEvent>,
) {
    out.push(AgentEvent::QuestionAsked { loop_id, question: question.clone() });
    slot.pending_arguments = arguments;
    slot.stage = Stage::Asked(question);
    // A call about which the run asks again starts anew.
    slot.child = None;
}

pub(super) fn ended(
    run: &mut Run,
    id: &ToolCallId,
    outcome: ToolOutcome,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let (slot, aborting) = open_slot(&mut run.phase, id)?;
    if !matches!(slot.stage, Stage::Began(_)) {
        return Err(format!("the call {id:?} is not running"));
    }
    let ToolOutcome { result, duration_ms, tokens, spent } = outcome;
    run.tool_usage = run.tool_usage.combine(&result.usage.as_deref().copied().unwrap_or_default());
    emit_end(&slot.call, &run.setup.loop_id, &result, duration_ms, out);
    let spent = slot.spent_since(spent.as_deref());
    slot.child = None;
    slot.closed = Some(CallOutcome { result, duration_ms, tokens, at: run.now, change: None });
    slot.stage = if run.setup.gates.after_tool && !aborting { Stage::Ended } else { Stage::Closed };
    budget::spend_by_tool(run, spent.as_ref());
    settle(run, out);
    Ok(())
}

pub(super) fn reviewed(
    run: &mut Run,
    id: &ToolCallId,
    change: ToolChange,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let (slot, _) = open_slot(&mut run.phase, id)?;
    if slot.stage != Stage::Ended {
        return Err(format!("the result of call {id:?} is not up for review"));
    }
    if let Some(closed) = &mut slot.closed {
        closed.change = Some(change);
    }
    slot.stage = Stage::Closed;
    settle(run, out);
    Ok(())
}

pub(super) fn answered(
    run: &mut Run,
    id: &QuestionId,
    answer: Answer,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    if child::answered(run, id, &answer)? {
        return Ok(());
    }
    let (now, loop_id) = (run.now, run.setup.loop_id.clone());
    let Phase::Tools(open) = &mut run.phase else { return Err("no question is open".into()) };
    let found = open.slots.iter_mut().find_map(|slot| match &slot.stage {
        Stage::Asked(question) if question.id == *id => {
            Some((question.budget.clone(), question.tool.clone(), slot))
        }
        _ => None,
    });
    let Some((about, tool, slot)) = found else { return Err(format!("no question {id:?} is open")) };
    if about.is_none() && matches!(answer, Answer::Raise { .. }) {
        return Err("this question is not that of a budget; answer Allow, AllowWith or Deny".into());
    }
    let (question_id, given) = (id.clone(), answer.clone());
    out.push(AgentEvent::QuestionAnswered { loop_id: loop_id.clone(), question_id, answer: given });
    slot.approved = tool.or(slot.approved.take());
    match answer {
        Answer::Allow => {
            slot.forced = about.is_some();
            slot.stage = Stage::Approved(slot.pending_arguments.take());
        }
        Answer::AllowWith(arguments) => {
            slot.forced = about.is_some();
            slot.stage = Stage::Approved(Some(arguments));
        }
        Answer::Raise { by } => {
            slot.stage = Stage::Approved(slot.pending_arguments.take());
            budget::raise(run, about.map_or(0, |refusal| refusal.level), by, out);
        }
        Answer::Deny { reason } => close(slot, &loop_id, ToolResult::error(reason), now, out),
    }
    settle(run, out);
    Ok(())
}

/// Closes every call without a result, with this error.
pub(super) fn close_all(run: &mut Run, text: &str, out: &mut Vec<AgentEvent>) {
    let (now, loop_id) = (run.now, run.setup.loop_id.clone());
    if let Phase::Tools(open) = &mut run.phase {
        for slot in open.slots.iter_mut().filter(|s| !matches!(s.stage, Stage::Closed | Stage::Ended)) {
            close(slot, &loop_id, ToolResult::error(text), now, out);
        }
        for slot in open.slots.iter_mut() {
            slot.stage = Stage::Closed;
        }
    }
    settle(run, out);
}

/// Continues after a decision: steering may skip the rest, and a closed batch enters the history.
pub(super) fn settle(run: &mut Run, out: &mut Vec<AgentEvent>) {
    skip_if_steered(run, out);
    let Phase::Tools(open) = &run.phase else { return };
    if open.is_closed() {
        close_exchange(run, out);
    }
}

/// Skips the calls that have not started if a steering message waits, between two groups or while only questions are
/// open. The user expects an answer to the message.
pub(super) fn skip_if_steered(run: &mut Run, out: &mut Vec<AgentEvent>) {
    let steered = run.setup.policy.steering_policy == SteeringPolicy::SkipRemaining
        && run.queues.has_skipping_steering();
    let (now, loop_id) = (run.now, run.setup.loop_id.clone());
    let Phase::Tools(open) = &mut run.phase else { return };
    if !steered || open.is_closed() {
        return;
    }
    let between = open.current_group().is_none_or(|(_, slots)| slots.iter().all(|s| !s.has_begun()))
        && open.slots.iter().any(Slot::has_begun);
    if between {
        for slot in open.slots.iter_mut().filter(|s| s.stage != Stage::Closed) {
            close(slot, &loop_id, ToolResult::error(SKIPPED), now, out);
        }
        close_exchange(run, out);
    }
}

fn close_exchange(run: &mut Run, out: &mut Vec<AgentEvent>) {
    let taken = std::mem::replace(&mut run.phase, Phase::Calling { started: false, retry: None });
    let Phase::Tools(open) = taken else {
        run.phase = taken;
        return;
    };
    let aborting = open.aborting;
    let cause = Cause::of(&open);
    let (reply, closed) = open.into_parts();
    let turn_id = run.turn_id();
    let terminate = !closed.is_empty() && closed.iter().all(|(_, c)| c.result.terminate);
    let cut = reply.message().as_assistant().is_some_and(|m| m.stop_reason == StopReason::Length);
    let mut entries = Vec::with_capacity(closed.len());
    for (call, closed) in closed {
        let mut result = ToolResultMessage::new(call.id, call.name, closed.result.content);
        result.is_error = closed.result.is_error;
        result.details = closed.result.details;
        result.child_loop_id = closed.result.child_loop_id;
        result.deferred = closed.result.deferred;
        result.duration_ms = closed.duration_ms;
        result.timestamp = closed.at;
        let shared = MessageRef::from(LlmMessage::new(Message::from(result)).in_turn(turn_id.clone()));
        entries.push(Entry::counted(shared, closed.tokens));
    }
    repeats::tell(run, &reply, &mut entries);
    let messages: Vec<MessageRef> = entries.iter().map(|e| e.shared().clone()).collect();
    for entry in &entries {
        run.emit_message(entry, out);
    }
    let reply_message = reply.shared().clone();
    // This cannot fail: there is one closed call per call of the reply, in the same order.
    let _ = run.history.push_exchange(reply, entries);
    run.close_turn(Some(reply_message), messages, out);
    let over = run.budget.over.take();
    if let Some(refusal) = over.filter(|_| !aborting) {
        budget::emit_stop(run, &refusal.to_string(), out);
        run.end(Ended::Budget { refusal }, out);
    } else if aborting {
        cause.end(run, out);
    } else {
        run.phase = Phase::BetweenTurns { results_wanted: cut || !terminate };
    }
}

/// Closes a call that does not run, or no longer runs.
pub(super) fn close(
    slot: &mut Slot,
    loop_id: &LoopId,
    result: ToolResult,
    now: Timestamp,
    out: &mut Vec<AgentEvent>,
) {
    emit_start(slot, loop_id, out);
    emit_end(&slot.call, loop_id, &result, None, out);
    slot.closed = Some(CallOutcome { result, duration_ms: None, tokens: None, at: now, change: None });
    slot.stage = Stage::Closed;
    slot.child = None;
}

fn emit_start(slot: &mut Slot, loop_id: &LoopId, out: &mut Vec<AgentEvent>) {
    if std::mem::replace(&mut slot.started, true) {
        return;
    }
    out.push(AgentEvent::ToolExecutionStart {
        loop_id: loop_id.clone(),
        tool_call_id: slot.call.id.clone(),
        tool_name: slot.call.name.clone(),
        args: slot.call.arguments.clone(),
    });
}

fn emit_end(
    call: &ToolCall,
    loop_id: &LoopId,
    result: &ToolResult,
    duration_ms: Option<u64>,
    out: &mut Vec<AgentEvent>,
) {
    out.push(AgentEvent::ToolExecutionEnd(Box::new(execution_end(call, loop_id, result, duration_ms))));
}

impl Slot {
    fn has_begun(&self) -> bool {
        self.started || !matches!(self.stage, Stage::New)
    }
}

impl OpenCalls {
    /// Prevents further calls from starting and closes those that have not started.
    pub(super) fn abort(&mut self, loop_id: &LoopId, now: Timestamp, out: &mut Vec<AgentEvent>) {
        self.aborting = true;
        for slot in &mut self.slots {
            match slot.stage {
                Stage::New | Stage::Asked(_) | Stage::Approved(_) | Stage::Waiting(_) => {
                    close(slot, loop_id, ToolResult::error(ABORTED), now, out);
                }
                Stage::Ended => slot.stage = Stage::Closed,
                Stage::Began(_) | Stage::Closed => {}
            }
        }
    }
}
