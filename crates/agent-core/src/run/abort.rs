//! Aborts a run in any phase.

use super::input::PartialReply;
use super::open_calls::OpenCalls;
use super::{GateAt, Phase, Run, budget, tool_calls};
use crate::event::{AgentEvent, Ended};
use crate::limits::LimitReason;
use crate::message::StopReason;

/// The error message of an aborted reply.
const ABORTED_REPLY: &str = "Request was aborted";

/// Why a run is aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// The caller aborted the run.
    Caller,
    /// The run was interrupted, for this reason.
    Interrupted(String),
    /// The run reached its maximum duration.
    TimeUp,
}

impl Cause {
    /// Returns the cause for which the open calls are aborted.
    pub(super) fn of(open: &OpenCalls) -> Self {
        match &open.interrupted {
            Some(reason) => Self::Interrupted(reason.clone()),
            None if open.timed_out => Self::TimeUp,
            None => Self::Caller,
        }
    }

    /// Ends the run for this cause. The turn must be closed.
    pub(super) fn end(self, run: &mut Run, out: &mut Vec<AgentEvent>) {
        let ended = match self {
            Self::Caller => Ended::Aborted,
            Self::Interrupted(reason) => Ended::Interrupted { reason },
            Self::TimeUp => {
                let reason = LimitReason::Duration.to_string();
                budget::emit_stop(run, &reason, out);
                Ended::Limit { reason }
            }
        };
        run.end(ended, out);
    }
}

pub(super) fn abort(
    run: &mut Run,
    partial: Option<Box<PartialReply>>,
    cause: Cause,
    out: &mut Vec<AgentEvent>,
) {
    let (now, loop_id) = (run.now, run.setup.loop_id.clone());
    match &mut run.phase {
        Phase::Done(_) => {}
        Phase::Gate(gate) | Phase::GateAsked { gate, .. } => {
            if *gate == GateAt::Turn {
                run.enter_prompts(out);
            }
            cause.end(run, out);
        }
        // The turn is complete. If nothing would follow it, the run has completed its work.
        Phase::BetweenTurns { results_wanted } => {
            let results_wanted = *results_wanted;
            if matches!(cause, Cause::Interrupted(_)) || run.has_next_turn(results_wanted) {
                cause.end(run, out);
            } else {
                run.end(Ended::Completed, out);
            }
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
            run.settle_aborted(partial.as_deref(), out);
            let text = match &cause {
                Cause::Caller => ABORTED_REPLY.to_owned(),
                Cause::Interrupted(reason) => reason.clone(),
                Cause::TimeUp => LimitReason::Duration.to_string(),
            };
            run.close_retry(retry, Some(&text), out);
            run.end_with_reply(StopReason::Aborted, text, partial.map(|p| *p), out);
            cause.end(run, out);
        }
        // Running calls get a grace period to end; a second abort closes them.
        Phase::Tools(open) if !open.aborting => {
            open.timed_out = cause == Cause::TimeUp;
            open.interrupted = match cause {
                Cause::Interrupted(reason) => Some(reason),
                Cause::Caller | Cause::TimeUp => None,
            };
            open.abort(&loop_id, now, out);
            tool_calls::settle(run, out);
        }
        Phase::Tools(_) => tool_calls::close_all(run, tool_calls::ABORTED, out),
    }
}
