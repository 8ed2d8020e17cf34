//! Taking an input in: each is checked whole before anything changes.

use super::{Input, Misplaced, Phase, Run, abort, budget, call, gate, tools};
use crate::event::AgentEvent;
use crate::history::History;
use crate::identity::Timestamp;

pub(super) fn apply(
    run: &mut Run,
    now: Timestamp,
    input: Input,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Misplaced> {
    let name = input.name();
    let refuse = |reason: String| Misplaced { input: name, reason };
    if let Phase::Done(_) = run.phase {
        return Err(refuse("the run has ended".into()));
    }
    match input {
        Input::Queue { queued } => {
            History::may_enter_alone(&queued.entry).map_err(|e| refuse(e.to_string()))?;
            run.now = now;
            run.queues.push(queued);
            tools::skip_if_steered(run, out);
            Ok(())
        }
        Input::ClearQueue { kind } => {
            run.now = now;
            run.queues.clear(kind);
            Ok(())
        }
        Input::SetQueueMode { kind, mode } => {
            run.now = now;
            run.queues.set_mode(kind, mode);
            Ok(())
        }
        Input::Abort { partial, interrupted } => {
            run.now = now;
            abort::abort(run, partial, interrupted, out);
            Ok(())
        }
        Input::GateDecided { verdict } => gate::decided(run, now, verdict, out).map_err(refuse),
        Input::Filtered { verdict } => gate::filtered(run, now, verdict, out).map_err(refuse),
        Input::BudgetDecided { verdict } => budget::decided(run, now, verdict, out).map_err(refuse),
        Input::ReplyStarted => call::started(run, now, out).map_err(refuse),
        Input::CacheBroke { found } => call::cache_broke(run, now, found, out).map_err(refuse),
        Input::ModelReplied { reply } => call::replied(run, now, reply, out).map_err(refuse),
        Input::ModelFailed { failure, partial } => {
            call::failed(run, now, &failure, partial, out).map_err(refuse)
        }
        Input::Slept => call::slept(run, now).map_err(refuse),
        Input::ToolBegan { id, verdict } => tools::began(run, now, &id, verdict, out).map_err(refuse),
        Input::ToolEnded { id, outcome } => tools::ended(run, now, &id, *outcome, out).map_err(refuse),
        Input::ToolReviewed { id, change } => tools::reviewed(run, now, &id, *change, out).map_err(refuse),
        Input::Compacted { splices, usage, fallback } => {
            call::compacted(run, now, splices, usage, fallback, out).map_err(refuse)
        }
        Input::CompactionFailed { message } => {
            call::compaction_failed(run, now, message, out).map_err(refuse)
        }
        Input::Answer { question_id, answer } => match &run.phase {
            Phase::GateAsked { .. } => gate::answered(run, now, &question_id, answer, out).map_err(refuse),
            Phase::BudgetAsked(_) => budget::answered(run, now, &question_id, answer, out).map_err(refuse),
            Phase::Tools(_) => tools::answered(run, now, &question_id, answer, out).map_err(refuse),
            _ => Err(refuse("nothing is asked".into())),
        },
    }
}
