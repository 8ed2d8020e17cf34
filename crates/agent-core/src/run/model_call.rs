//! Handles the inputs of a model call: a reply, a failure, the end of a delay, a cache break, a compaction.

use super::input::{Failure, PartialReply, Reply};
use super::{Phase, Refusal, Retry, Run, budget, refused};
use crate::event::{AgentEvent, CompactionEnded};
use crate::history::Splice;
use crate::message::{AssistantMessage, Usage};
use crate::prefix::CacheBreak;
use crate::provider::ErrorKind;

pub(super) fn started(run: &mut Run, out: &mut Vec<AgentEvent>) -> Result<(), Refusal> {
    match &mut run.phase {
        Phase::Calling { started: true, .. } => Err("the reply has already begun".into()),
        Phase::Calling { started, .. } => {
            *started = true;
            run.emit_reply_start(out);
            Ok(())
        }
        _ => Err("no model is being called".into()),
    }
}

pub(super) fn slept(run: &mut Run) -> Result<(), Refusal> {
    let Phase::Backoff(retry) = &run.phase else { return Err("no wait is open".into()) };
    let retry = Some(retry.clone());
    budget::await_call(run, retry);
    Ok(())
}

pub(super) fn cache_broke(
    run: &mut Run,
    found: Box<CacheBreak>,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::Calling { .. } = &run.phase else { return Err("no model is being called".into()) };
    out.push(AgentEvent::CacheBroken(found));
    Ok(())
}

pub(super) fn replied(run: &mut Run, reply: Reply, out: &mut Vec<AgentEvent>) -> Result<(), Refusal> {
    let Phase::Calling { started, retry } = &run.phase else { return Err("no model is being called".into()) };
    let (started, retry) = (*started, retry.clone());
    let (message, tokens) = reply.into_parts();
    budget::settle_call(run, message.usage, true, tokens.unwrap_or_default(), out);
    if run.is_silent_overflow(&message) && run.setup.policy.context.is_some() {
        let failure =
            Failure::new(ErrorKind::ContextOverflow, "the model received only a part of the conversation");
        let partial = PartialReply::new(message.content, message.usage, message.response_id);
        run.close_retry(retry, Some(&failure.message), out);
        if run.turn.overflow.is_some() {
            run.fail_turn(failure.kind, failure.message, Some(partial), out);
        } else {
            run.supersede(started, Some(partial), &failure, out);
            run.recover_overflow(failure.message, out);
        }
        return Ok(());
    }
    if run.is_empty_answer(&message) {
        return repeat_empty(run, (started, retry), message, out);
    }
    run.close_retry(retry, None, out);
    run.apply_reply(started, message, tokens, out);
    Ok(())
}

/// Repeats the call once after an empty reply to the results of tools, and then ends the run.
fn repeat_empty(
    run: &mut Run,
    (started, retry): (bool, Option<Retry>),
    message: AssistantMessage,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let text = if run.turn.emptied {
        "the model answered the results of its tools with an empty reply, also when it was called again"
    } else {
        "the model answered the results of its tools with an empty reply"
    };
    let failure = Failure::new(ErrorKind::Other, text);
    let partial = Some(PartialReply::new(message.content, message.usage, message.response_id));
    run.close_retry(retry, Some(&failure.message), out);
    if run.turn.emptied {
        run.give_up(&failure, failure.message.clone(), started, partial, out);
        return Ok(());
    }
    run.supersede(started, partial, &failure, out);
    run.turn.emptied = true;
    run.turn.attempt += 1;
    budget::await_call(run, None);
    Ok(())
}

pub(super) fn failed(
    run: &mut Run,
    failure: &Failure,
    partial: Option<Box<PartialReply>>,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::Calling { started, retry } = &run.phase else { return Err("no model is being called".into()) };
    if failure.kind == ErrorKind::Cancelled {
        return Err("a call that the caller cancelled is an Abort".into());
    }
    let (started, retry) = (*started, retry.clone());
    run.settle_partial(partial.as_deref(), out);
    let partial = partial.map(|p| *p);
    run.close_retry(retry, Some(&failure.message), out);
    if failure.kind == ErrorKind::ContextOverflow
        && run.turn.overflow.is_none()
        && run.setup.policy.context.is_some()
    {
        run.supersede(started, partial, failure, out);
        run.recover_overflow(failure.message.clone(), out);
        return Ok(());
    }
    if refused::applies(run, failure) {
        run.supersede(started, partial, failure, out);
        refused::replace(run, failure, out);
        return Ok(());
    }
    match run.next_retry(failure) {
        Ok(retry) => {
            out.push(AgentEvent::RetryStart(Box::new(run.retry_note(&retry, Some(&failure.message)))));
            run.supersede(started, partial, failure, out);
            run.turn.retries += 1;
            run.turn.attempt += 1;
            run.phase = Phase::Backoff(retry);
        }
        Err(message) => run.give_up(failure, message, started, partial, out),
    }
    Ok(())
}

pub(super) fn compacted(
    run: &mut Run,
    splices: Vec<Splice>,
    usage: Usage,
    fallback: Option<String>,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::Compacting(task) = run.phase else { return Err("no compaction is open".into()) };
    let history = run.history.spliced(&splices).map_err(|e| e.to_string())?;
    let (messages_before, tokens_before) = (run.history.len(), run.context_tokens());
    run.history = history;
    run.context.reset();
    // A summary is paid like a reply, and belongs to the turn that needs it.
    run.turn.usage = run.turn.usage.combine(&usage);
    out.push(AgentEvent::CompactionEnded(Box::new(CompactionEnded {
        loop_id: run.setup.loop_id.clone(),
        reason: task.reason,
        splices,
        messages_before,
        messages_after: run.history.len(),
        estimated_tokens_before: tokens_before,
        estimated_tokens_after: run.history.tokens(),
        usage,
        fallback,
        timestamp: run.now,
    })));
    budget::await_call(run, None);
    Ok(())
}

pub(super) fn compaction_failed(
    run: &mut Run,
    message: String,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    if !matches!(run.phase, Phase::Compacting(_)) {
        return Err("no compaction is open".into());
    }
    run.phase = Phase::Calling { started: false, retry: None };
    let text = match &run.turn.overflow {
        Some(reported) => format!("{reported} (and the conversation cannot be shortened: {message})"),
        None => message,
    };
    run.give_up(&Failure::new(ErrorKind::ContextOverflow, text.clone()), text, false, None, out);
    Ok(())
}
