//! The call of the model: a reply, a failure, a retry, an overflow, a compaction.

use std::time::Duration;

use super::input::{Failure, PartialReply, Reply};
use super::open::Open;
use super::{CompactionTask, Phase, Retry, Run, tools};
use crate::event::{AgentEvent, CompactionEnded, CompactionReason, Ended, RetryNote};
use crate::history::{Entry, MessageRef, Splice};
use crate::identity::Timestamp;
use crate::message::{AssistantMessage, LlmMessage, Message, StopReason, Usage};
use crate::prefix::CacheBreak;
use crate::provider::ErrorKind;

type Refusal = String;

/// Of the window, when the provider says that the conversation is too long: what the history is shortened to.
const OVERFLOW_SHARE_PERCENT: u64 = 75;

pub(super) fn started(run: &mut Run, now: Timestamp, out: &mut Vec<AgentEvent>) -> Result<(), Refusal> {
    match &mut run.phase {
        Phase::Calling { started: true, .. } => Err("the reply has already begun".into()),
        Phase::Calling { started, .. } => {
            *started = true;
            run.now = now;
            run.say_reply_start(out);
            Ok(())
        }
        _ => Err("no model is being called".into()),
    }
}

pub(super) fn slept(run: &mut Run, now: Timestamp) -> Result<(), Refusal> {
    let Phase::Backoff(retry) = &run.phase else { return Err("no wait is open".into()) };
    let retry = Some(retry.clone());
    run.now = now;
    run.await_call(retry);
    Ok(())
}

pub(super) fn cache_broke(
    run: &mut Run,
    now: Timestamp,
    found: Box<CacheBreak>,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::Calling { .. } = &run.phase else { return Err("no model is being called".into()) };
    run.now = now;
    out.push(AgentEvent::CacheBroken(found));
    Ok(())
}

pub(super) fn replied(
    run: &mut Run,
    now: Timestamp,
    reply: Reply,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::Calling { started, retry } = &run.phase else { return Err("no model is being called".into()) };
    let (started, retry) = (*started, retry.clone());
    run.now = now;
    let (message, tokens) = reply.into_parts();
    run.settle_call(message.usage, true, tokens.unwrap_or_default(), out);
    if run.is_silent_overflow(&message) && run.setup.policy.context.is_some() {
        let failure =
            Failure::new(ErrorKind::ContextOverflow, "the model was shown less than the whole conversation");
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
    run.close_retry(retry, None, out);
    run.take_reply(started, message, tokens, out);
    Ok(())
}

pub(super) fn failed(
    run: &mut Run,
    now: Timestamp,
    failure: &Failure,
    partial: Option<Box<PartialReply>>,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::Calling { started, retry } = &run.phase else { return Err("no model is being called".into()) };
    if failure.kind == ErrorKind::Cancelled {
        return Err("a call that the caller cancelled is an Abort".into());
    }
    let (started, retry) = (*started, retry.clone());
    run.now = now;
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
    now: Timestamp,
    splices: Vec<Splice>,
    usage: Usage,
    fallback: Option<String>,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::Compacting(task) = run.phase else { return Err("no compaction is open".into()) };
    let history = run.history.spliced(&splices).map_err(|e| e.to_string())?;
    run.now = now;
    let (messages_before, tokens_before) = (run.history.len(), run.context_tokens());
    run.history = history;
    run.context.reset();
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
        timestamp: now,
    })));
    run.await_call(None);
    Ok(())
}

pub(super) fn compaction_failed(
    run: &mut Run,
    now: Timestamp,
    message: String,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    if !matches!(run.phase, Phase::Compacting(_)) {
        return Err("no compaction is open".into());
    }
    run.now = now;
    run.phase = Phase::Calling { started: false, retry: None };
    let text = match &run.turn.overflow {
        Some(said) => format!("{said} (and the conversation cannot be shortened: {message})"),
        None => message,
    };
    run.give_up(&Failure::new(ErrorKind::ContextOverflow, text.clone()), text, false, None, out);
    Ok(())
}

impl Run {
    /// The call that is open ends without a whole reply.
    pub(super) fn settle_partial(&mut self, partial: Option<&PartialReply>, out: &mut Vec<AgentEvent>) {
        let Phase::Calling { started, .. } = self.phase else { return };
        let (usage, output) =
            partial.map_or((Usage::default(), 0), |p| (p.usage, crate::context::content_tokens(&p.content)));
        self.settle_call(usage, started || output > 0, output, out);
    }

    /// An empty reply, which a `MessageStart` shows.
    fn say_reply_start(&mut self, out: &mut Vec<AgentEvent>) {
        let message = self.own_reply(StopReason::Stop, None, PartialReply::default());
        out.push(AgentEvent::MessageStart { loop_id: self.setup.loop_id.clone(), message });
    }

    /// A reply that the run makes itself.
    pub(super) fn own_reply(
        &self,
        stop: StopReason,
        error: Option<String>,
        partial: PartialReply,
    ) -> MessageRef {
        let route = self.route_name(self.turn.route);
        let mut message = AssistantMessage::new(route.provider, route.model, stop);
        message.api = self.route().map_or(self.setup.api, |r| r.api);
        message.content = partial.content;
        message.usage = partial.usage;
        message.response_id = partial.response_id;
        message.error_message = error;
        message.timestamp = self.now;
        MessageRef::from(LlmMessage::new(Message::from(message)).in_turn(self.turn_id()))
    }

    fn take_reply(
        &mut self,
        started: bool,
        mut message: AssistantMessage,
        tokens: Option<u64>,
        out: &mut Vec<AgentEvent>,
    ) {
        self.name_calls(&mut message);
        if message.timestamp == Timestamp::default() {
            message.timestamp = self.now;
        }
        let (stop, usage) = (message.stop_reason, message.usage);
        let calls = message.tool_calls().count();
        self.turn.usage = self.turn.usage.combine(&usage);
        let shared = MessageRef::from(LlmMessage::new(Message::from(message)).in_turn(self.turn_id()));
        let entry = match tokens {
            Some(tokens) => Entry::new(shared.clone(), tokens),
            None => Entry::from(shared.clone()),
        };
        if !started {
            out.push(AgentEvent::MessageStart {
                loop_id: self.setup.loop_id.clone(),
                message: shared.clone(),
            });
        }
        self.say_message_end(&entry, out);
        if calls > 0 {
            // What the provider reports covers the history and this reply; results come on top.
            self.context.record_usage(&usage, &self.history, &entry);
            let sequential = shared
                .as_llm()
                .and_then(Message::as_assistant)
                .is_some_and(|m| m.tool_calls().any(|c| self.setup.sequential_tools.contains(&c.name)));
            let group = if sequential { 1 } else { self.setup.policy.tool_execution.group_size(calls) };
            self.phase = Phase::Tools(Box::new(Open::new(entry).grouped(group)));
            if stop == StopReason::Length {
                tools::close_all(self, tools::LENGTH_CUT, out);
            }
            return;
        }
        self.context.record_usage(&usage, &self.history, &entry);
        // A reply without calls that did not fail: its door is open by construction.
        let _ = self.history.push_entry(entry);
        self.close_turn(Some(shared), Vec::new(), out);
        self.after_turn(false, out);
    }

    /// Stop with more prompt than the window, or a length stop without a word at its edge (B-161).
    fn is_silent_overflow(&self, message: &AssistantMessage) -> bool {
        let window = self.route().map_or(self.setup.context_window, |r| r.context_window);
        let Some(window) = window.map(u64::from) else { return false };
        let prompt = message.usage.input.saturating_add(message.usage.cache_read);
        match message.stop_reason {
            StopReason::Stop => prompt > window,
            StopReason::Length => {
                message.usage.output == 0 && prompt.saturating_mul(100) >= window.saturating_mul(99)
            }
            StopReason::ToolUse | StopReason::Error | StopReason::Aborted => false,
        }
    }

    /// Closes what was shown of an attempt that is tried again. It enters no history (D9).
    pub(super) fn supersede(
        &mut self,
        started: bool,
        partial: Option<PartialReply>,
        failure: &Failure,
        out: &mut Vec<AgentEvent>,
    ) {
        let partial = partial.unwrap_or_default();
        self.turn.usage = self.turn.usage.combine(&partial.usage);
        if started {
            let message = self.own_reply(StopReason::Error, Some(failure.message.clone()), partial);
            let loop_id = self.setup.loop_id.clone();
            let tokens = Entry::from(message.clone()).tokens();
            out.push(AgentEvent::MessageEnd { loop_id, message, tokens, superseded: true });
        }
        if let Phase::Calling { started, .. } = &mut self.phase {
            *started = false;
        }
    }

    fn recover_overflow(&mut self, said: String, out: &mut Vec<AgentEvent>) {
        self.turn.overflow = Some(said);
        self.turn.compacted = true;
        self.turn.attempt += 1;
        let shorter = self.history.tokens().saturating_mul(OVERFLOW_SHARE_PERCENT) / 100;
        let budget = self.setup.policy.context.as_ref().map_or(shorter, |c| c.budget().min(shorter));
        self.start_compaction(CompactionTask { reason: CompactionReason::Overflow, budget }, out);
    }

    /// The wait before the next attempt, or why there is none.
    fn next_retry(&self, failure: &Failure) -> Result<Retry, String> {
        let config = &self.setup.policy.retry;
        if !failure.kind.is_retryable() {
            return Err(failure.message.clone());
        }
        let max_retries = self.max_retries();
        if self.turn.retries >= max_retries {
            let tries = u64::from(max_retries) + 1;
            let note = if tries > 1 { format!(" (gave up after {tries} attempts)") } else { String::new() };
            return Err(format!("{}{note}", failure.message));
        }
        let attempt = self.turn.retries + 1;
        let unit = crate::retry::jitter(&self.setup.loop_id, &self.model_key());
        let asked = failure.retry_after_ms;
        let Some(delay) = config.wait_for(attempt, asked.map(Duration::from_millis), unit) else {
            return Err(format!(
                "{} (the provider asks to wait {} ms, longer than the {} ms that max_retry_delay_ms allows)",
                failure.message,
                asked.unwrap_or_default(),
                config.max_retry_delay_ms
            ));
        };
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Ok(Retry { attempt, delay_ms })
    }

    fn retry_note(&self, retry: &Retry, error: Option<&str>) -> RetryNote {
        RetryNote {
            loop_id: self.setup.loop_id.clone(),
            attempt: retry.attempt,
            max_attempts: self.max_retries(),
            delay_ms: retry.delay_ms,
            error: error.map(str::to_owned),
        }
    }

    /// Says what became of an announced retry.
    pub(super) fn close_retry(
        &mut self,
        retry: Option<Retry>,
        error: Option<&str>,
        out: &mut Vec<AgentEvent>,
    ) {
        if let Some(retry) = retry {
            out.push(AgentEvent::RetryEnd(Box::new(self.retry_note(&retry, error))));
        }
        if let Phase::Calling { retry, .. } = &mut self.phase {
            *retry = None;
        }
    }

    /// The turn's error: a reply that says so, then the end.
    pub(super) fn fail_turn(
        &mut self,
        kind: ErrorKind,
        text: String,
        partial: Option<PartialReply>,
        out: &mut Vec<AgentEvent>,
    ) {
        self.end_with_reply(StopReason::Error, text.clone(), partial, out);
        self.end(Ended::Error { kind, message: text }, out);
    }

    /// A failed reply with its events, and the end of the turn.
    pub(super) fn end_with_reply(
        &mut self,
        stop: StopReason,
        text: String,
        partial: Option<PartialReply>,
        out: &mut Vec<AgentEvent>,
    ) {
        let started = matches!(self.phase, Phase::Calling { started: true, .. });
        let partial = partial.unwrap_or_default();
        self.turn.usage = self.turn.usage.combine(&partial.usage);
        let message = self.own_reply(stop, Some(text), partial);
        if !started {
            let loop_id = self.setup.loop_id.clone();
            out.push(AgentEvent::MessageStart { loop_id, message: message.clone() });
        }
        let entry = Entry::from(message.clone());
        self.say_message_end(&entry, out);
        // It failed by construction.
        let _ = self.history.push_failed(entry);
        self.close_turn(Some(message), Vec::new(), out);
    }
}
