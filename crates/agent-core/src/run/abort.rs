//! Aborts a run in any phase.

use super::input::PartialReply;
use super::{GateAt, Phase, Run, tool_calls};
use crate::event::{AgentEvent, Ended};
use crate::message::StopReason;

/// The error message of an aborted reply.
const ABORTED_REPLY: &str = "Request was aborted";

pub(super) fn abort(
    run: &mut Run,
    partial: Option<Box<PartialReply>>,
    interrupted: Option<String>,
    out: &mut Vec<AgentEvent>,
) {
    let ended = match &interrupted {
        Some(reason) => Ended::Interrupted { reason: reason.clone() },
        None => Ended::Aborted,
    };
    let (now, loop_id) = (run.now, run.setup.loop_id.clone());
    match &mut run.phase {
        Phase::Done(_) => {}
        Phase::Gate(gate) | Phase::GateAsked { gate, .. } => {
            if *gate == GateAt::Turn {
                run.enter_prompts(out);
            }
            run.end(ended, out);
        }
        // The turn is complete. If nothing would follow it, the run has completed its work.
        Phase::BetweenTurns { results_wanted } => {
            let results_wanted = *results_wanted;
            let completed = interrupted.is_none() && !run.has_next_turn(results_wanted);
            run.end(if completed { Ended::Completed } else { ended }, out);
        }
        Phase::Compacting(_)
        | Phase::Reserving { .. }
        | Phase::BudgetAsked(_)
        | Phase::Calling { .. }
        | Phase::Backoff(_) => {
            let retry = match &run.phase {
                Phase::Calling { retry, .. } | Phase::Reserving { retry, .. } => retry.clone(),
                Phase::BudgetAsked(asked) => asked.retry.clone(),
                Phase::Backoff(retry) => Some(retry.clone()),
                _ => None,
            };
            run.settle_partial(partial.as_deref(), out);
            let text = interrupted.as_deref().unwrap_or(ABORTED_REPLY).to_owned();
            run.close_retry(retry, Some(&text), out);
            run.end_with_reply(StopReason::Aborted, text, partial.map(|p| *p), out);
            run.end(ended, out);
        }
        // Running calls get a grace period to end; a second abort closes them.
        Phase::Tools(open) if !open.aborting => {
            open.interrupted = interrupted;
            open.abort(&loop_id, now, out);
            tool_calls::settle(run, out);
        }
        Phase::Tools(_) => tool_calls::close_all(run, tool_calls::ABORTED, out),
    }
}
