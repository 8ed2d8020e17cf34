//! Laws about the executions of tools.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::{AgentEvent, Answer, Effects, LoopId};

use super::Evidence;
use crate::log::{Execution, What};
use crate::script::Action;

/// A call with effects that must happen once is executed again only after the user allowed it.
pub(super) fn once(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for execution in &evidence.log.executions {
        let again = !seen.insert(&execution.idempotency_key);
        if again && execution.effects == Effects::Once && !evidence.log.approved(execution) {
            return Err(format!("{} of {} was executed again", execution.call_id, execution.tool));
        }
    }
    Ok(())
}

/// A call that asks the user is executed after an answer that allows it, with the arguments that were allowed.
pub(super) fn asked(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for execution in &evidence.log.executions {
        let first = seen.insert(&execution.idempotency_key);
        match evidence.log.approval(execution) {
            Some((question, answer)) => {
                let allowed = match answer {
                    Answer::AllowWith(arguments) => Some(arguments),
                    _ => question.call.as_ref().and_then(|call| call.arguments.value().ok()),
                };
                if allowed.is_some_and(|allowed| *allowed != execution.arguments) {
                    return Err(format!(
                        "{} of {} was executed with arguments about which the user did not decide",
                        execution.call_id, execution.tool
                    ));
                }
            }
            None if execution.asks && first => {
                return Err(format!(
                    "{} of {} was executed without an answer",
                    execution.call_id, execution.tool
                ));
            }
            None => {}
        }
    }
    Ok(())
}

/// A call that the user denied is not executed afterwards.
pub(super) fn denied(evidence: &Evidence<'_>) -> Result<(), String> {
    for (at, entry) in evidence.log.entries.iter().enumerate() {
        let What::Answered { question, answer: Answer::Deny { .. } } = &entry.what else { continue };
        let Some(call) = &question.call else { continue };
        let later = |e: &&Execution| e.began > at && e.call_id == call.id && !evidence.log.approved(e);
        // A crash can destroy the record of the denial. The run then asks again.
        let crashed = evidence.log.entries.iter().skip(at).any(|entry| entry.lost);
        if let Some(execution) = evidence.log.executions.iter().find(later)
            && !crashed
        {
            return Err(format!("{} of {} was executed after a denial", execution.call_id, execution.tool));
        }
    }
    Ok(())
}

/// A tool does not receive arguments of the model that do not fit its schema.
pub(super) fn fitting(evidence: &Evidence<'_>) -> Result<(), String> {
    let unfit = evidence.log.executions.iter().find(|execution| !execution.fits);
    match unfit {
        Some(execution) if !replaced(evidence, execution) => Err(format!(
            "{} of {} was executed with {}, which does not fit the schema",
            execution.call_id, execution.tool, execution.arguments
        )),
        _ => Ok(()),
    }
}

/// Returns whether a hook or the user replaced the arguments of the model.
fn replaced(evidence: &Evidence<'_>, execution: &Execution) -> bool {
    let sent = evidence.log.events().find_map(|event| match event {
        AgentEvent::ToolExecutionStart { tool_call_id, args, .. } if *tool_call_id == execution.call_id => {
            args.value().ok()
        }
        _ => None,
    });
    sent.is_none_or(|sent| *sent != execution.arguments)
}

/// After an abort, a run calls no model and begins to execute no tool.
pub(super) fn aborted(evidence: &Evidence<'_>) -> Result<(), String> {
    let members = evidence.members();
    // The open loops of the conversation, with the position of their abort.
    let mut open: BTreeMap<&LoopId, Option<usize>> = BTreeMap::new();
    for (at, entry) in evidence.log.entries.iter().enumerate() {
        match &entry.what {
            What::Recorded(event) if event.depth == 0 && !members.contains(event.event.loop_id()) => {
                let id = event.event.loop_id();
                match &event.event {
                    AgentEvent::AgentEnd(_) | AgentEvent::RunSuspended { .. } => {
                        open.remove(id);
                    }
                    AgentEvent::AgentStart(_) => {
                        open.insert(id, None);
                    }
                    _ => {
                        open.entry(id).or_insert(None);
                    }
                }
            }
            What::Acted(Action::Abort) => open.values_mut().for_each(|aborted| *aborted = Some(at)),
            What::Started => open.clear(),
            What::Executed(index) => {
                if let Some(execution) = evidence.log.executions.get(*index)
                    && let Some(Some(aborted)) = open.get(&execution.loop_id)
                    && *aborted < execution.called
                {
                    return Err(format!("{} was executed after the abort", execution.call_id));
                }
            }
            What::ModelCalled(_) => {
                if let Some((id, _)) = open.iter().find(|(_, aborted)| aborted.is_some()) {
                    return Err(format!("{id} called the model after the abort"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
