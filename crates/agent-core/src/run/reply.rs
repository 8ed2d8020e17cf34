//! Model replies: applying a complete reply, superseding a failed attempt, retries, routes and context overflow.

use std::collections::BTreeSet;
use std::time::Duration;

use super::input::{Failure, PartialReply};
use super::open_calls::OpenCalls;
use super::{CompactionTask, Phase, Retry, Run, budget, tool_calls};
use crate::event::{AgentEvent, CompactionReason, Ended, RetryNote, RouteChange};
use crate::history::{Entry, MessageRef};
use crate::identity::{Timestamp, ToolCallId, stable_hash};
use crate::message::{AgentMessage, AssistantMessage, Content, LlmMessage, Message, StopReason, Usage};
use crate::provider::ErrorKind;
use crate::route::{RouteName, RouteSetup};

/// The share of the history, in percent, to which it is compacted after a context overflow.
const OVERFLOW_SHARE_PERCENT: u64 = 75;

/// Returns milliseconds as seconds, rounded up.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000)
}

impl Run {
    /// Counts the cost of a call that failed.
    pub(super) fn settle_partial(&mut self, partial: Option<&PartialReply>, out: &mut Vec<AgentEvent>) {
        let Phase::Calling { started, .. } = self.phase else { return };
        self.settle_open_call(partial, started, out);
    }

    /// Counts the cost of a call that was aborted. The provider may have begun to work on the prompt.
    pub(super) fn settle_aborted(&mut self, partial: Option<&PartialReply>, out: &mut Vec<AgentEvent>) {
        if matches!(self.phase, Phase::Calling { .. }) {
            self.settle_open_call(partial, true, out);
        }
    }

    fn settle_open_call(
        &mut self,
        partial: Option<&PartialReply>,
        answered: bool,
        out: &mut Vec<AgentEvent>,
    ) {
        let (usage, output) =
            partial.map_or((Usage::default(), 0), |p| (p.usage, crate::context::content_tokens(&p.content)));
        budget::settle_call(self, usage, answered || output > 0, output, out);
    }

    /// Emits `MessageStart` with an empty reply.
    pub(super) fn emit_reply_start(&mut self, out: &mut Vec<AgentEvent>) {
        let message = self.build_reply(StopReason::Stop, None, PartialReply::default());
        out.push(AgentEvent::MessageStart { loop_id: self.setup.loop_id.clone(), message });
    }

    /// Creates a reply that the run itself produces, such as a failed one.
    pub(super) fn build_reply(
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

    pub(super) fn apply_reply(
        &mut self,
        started: bool,
        mut message: AssistantMessage,
        tokens: Option<u64>,
        out: &mut Vec<AgentEvent>,
    ) {
        self.assign_call_ids(&mut message);
        if message.timestamp == Timestamp::default() {
            message.timestamp = self.now;
        }
        let (stop, usage) = (message.stop_reason, message.usage);
        let calls = message.tool_calls().count();
        self.turn.usage = self.turn.usage.combine(&usage);
        let shared = MessageRef::from(LlmMessage::new(Message::from(message)).in_turn(self.turn_id()));
        let entry = Entry::counted(shared.clone(), tokens);
        if !started {
            out.push(AgentEvent::MessageStart {
                loop_id: self.setup.loop_id.clone(),
                message: shared.clone(),
            });
        }
        self.emit_message_end(&entry, out);
        // The reported usage covers the history and this reply; results are added to it.
        self.context.record_usage(&usage, &self.history, &entry);
        if calls > 0 {
            let in_turn = |m: &AssistantMessage| {
                m.tool_calls().any(|call| self.setup.sequential_tools.contains(&call.name))
            };
            let sequential = shared.as_assistant().is_some_and(in_turn);
            let group = if sequential { 1 } else { self.setup.policy.tool_execution.group_size(calls) };
            self.phase = Phase::Tools(Box::new(OpenCalls::new(entry, group)));
            if stop == StopReason::Length {
                tool_calls::close_all(self, tool_calls::LENGTH_CUT, out);
            }
            return;
        }
        // This cannot fail, because the reply has no calls and did not fail.
        let _ = self.history.push_entry(entry);
        if stop == StopReason::Paused {
            self.continue_turn(shared, out);
            return;
        }
        self.close_turn(Some(shared), Vec::new(), out);
        self.phase = Phase::BetweenTurns { results_wanted: false };
    }

    /// Returns whether a reply says nothing to the results of tools: no text, no thinking, no call and nothing of the vendor's.
    pub(super) fn is_empty_answer(&self, message: &AssistantMessage) -> bool {
        let says = |content: &Content| match content {
            Content::Text(text) => !text.text.trim().is_empty(),
            Content::Thinking(thinking) => thinking.redacted || !thinking.thinking.trim().is_empty(),
            _ => true,
        };
        let is_result = |message: &AgentMessage| message.role() == "toolResult";
        message.stop_reason == StopReason::Stop
            && !message.content.iter().any(says)
            && self.history.last().is_some_and(is_result)
    }

    /// Returns whether the model silently truncated the prompt: a prompt longer than the window, or an empty reply
    /// that reached the limit at the edge of the window.
    pub(super) fn is_silent_overflow(&self, message: &AssistantMessage) -> bool {
        let window = self.route().map_or(self.setup.context_window, |r| r.context_window);
        let Some(window) = window.map(u64::from) else { return false };
        let prompt = message.usage.prompt_tokens();
        match message.stop_reason {
            StopReason::Stop | StopReason::Paused => prompt > window,
            StopReason::Length => {
                message.usage.output == 0 && prompt.saturating_mul(100) >= window.saturating_mul(99)
            }
            StopReason::ToolUse | StopReason::Error | StopReason::Aborted => false,
        }
    }

    /// Closes the visible part of an attempt that will be repeated. It enters no history.
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
            let message = self.build_reply(StopReason::Error, Some(failure.message.clone()), partial);
            let loop_id = self.setup.loop_id.clone();
            let tokens = Entry::from(message.clone()).tokens();
            out.push(AgentEvent::MessageEnd { loop_id, message, tokens, superseded: true });
        }
        if let Phase::Calling { started, .. } = &mut self.phase {
            *started = false;
        }
    }

    pub(super) fn recover_overflow(&mut self, reported: String, out: &mut Vec<AgentEvent>) {
        self.turn.overflow = Some(reported);
        self.turn.compacted = true;
        self.turn.attempt += 1;
        let shorter = self.history.tokens().saturating_mul(OVERFLOW_SHARE_PERCENT) / 100;
        let budget = self.context_limits().map_or(shorter, |limits| limits.budget().min(shorter));
        self.start_compaction(CompactionTask { reason: CompactionReason::Overflow, budget }, out);
    }

    /// Returns the next retry, or the error text if there is none.
    pub(super) fn next_retry(&self, failure: &Failure) -> Result<Retry, String> {
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
        let requested = failure.retry_after_ms;
        let Some(delay) = config.wait_for(attempt, requested.map(Duration::from_millis), unit) else {
            let (asked, most) = (seconds(requested.unwrap_or_default()), seconds(config.max_retry_delay_ms));
            return Err(format!(
                "{} (the provider asks to wait {asked} s, longer than the {most} s that are waited for; try again \
                 later, or set a longer wait: --max-retry-wait, in the library max_retry_delay_ms)",
                failure.message,
            ));
        };
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Ok(Retry { attempt, delay_ms })
    }

    pub(super) fn retry_note(&self, retry: &Retry, error: Option<&str>) -> RetryNote {
        RetryNote {
            loop_id: self.setup.loop_id.clone(),
            attempt: retry.attempt,
            max_attempts: self.max_retries(),
            delay_ms: retry.delay_ms,
            error: error.map(str::to_owned),
        }
    }

    /// Emits the result of an announced retry.
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

    /// Ends the turn with an error: a failed reply, then the end of the run.
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

    /// Emits a failed reply and ends the turn.
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
        let message = self.build_reply(stop, Some(text), partial);
        if !started {
            let loop_id = self.setup.loop_id.clone();
            out.push(AgentEvent::MessageStart { loop_id, message: message.clone() });
        }
        let entry = Entry::from(message.clone());
        self.emit_message_end(&entry, out);
        // This cannot fail, because the reply failed.
        let _ = self.history.push_failed(entry);
        self.close_turn(Some(message), Vec::new(), out);
    }

    /// Makes the call ids of a reply non-empty and unique in the whole history.
    pub(super) fn assign_call_ids(&self, message: &mut AssistantMessage) {
        let mut seen = BTreeSet::new();
        let calls = message.content.iter_mut().filter_map(|c| match c {
            Content::ToolCall(call) => Some(call),
            _ => None,
        });
        let mut calls = calls.enumerate().peekable();
        while let Some((n, call)) = calls.next() {
            let mut salt = 0_u32;
            while call.id.as_str().trim().is_empty()
                || seen.contains(&call.id)
                || self.history.has_call(call.id.as_str())
            {
                let place = format!("{n}/{salt}");
                let key = self.model_key();
                let hash = stable_hash(&[self.setup.loop_id.as_str(), key.as_str(), &place]);
                call.id = ToolCallId::from(format!("call_{:012x}", hash >> 16));
                salt += 1;
            }
            if calls.peek().is_some() {
                seen.insert(call.id.clone());
            }
        }
    }

    /// Gives up this route: switches to the next one, or fails the turn with `message`.
    pub(super) fn give_up(
        &mut self,
        failure: &Failure,
        message: String,
        started: bool,
        partial: Option<PartialReply>,
        out: &mut Vec<AgentEvent>,
    ) {
        self.lost_routes.note(self.turn.route, failure.kind);
        match self.lost_routes.after(&self.setup.routes, self.turn.route, failure.kind) {
            Some(next) => self.switch_route(next, started, partial, failure, out),
            None => self.fail_turn(failure.kind, message, partial, out),
        }
    }

    /// Switches to another route. Closes what was visible of this attempt.
    pub(super) fn switch_route(
        &mut self,
        next: u32,
        started: bool,
        partial: Option<PartialReply>,
        failure: &Failure,
        out: &mut Vec<AgentEvent>,
    ) {
        out.push(AgentEvent::RouteChanged(Box::new(RouteChange {
            loop_id: self.setup.loop_id.clone(),
            from: self.route_name(self.turn.route),
            to: self.route_name(next),
            kind: failure.kind,
            error: failure.message.clone(),
        })));
        self.supersede(started, partial, failure, out);
        self.turn.route = next;
        self.turn.attempt += 1;
        self.turn.retries = 0;
        // The other model has its own window, so the conversation may have to be compacted again.
        self.turn.overflow = None;
        self.turn.compacted = false;
        self.prepare_call(out);
    }

    /// Returns the route that is called; `None` for the run's own model.
    pub(super) fn route(&self) -> Option<&RouteSetup> {
        let at = usize::try_from(self.turn.route.checked_sub(1)?).ok()?;
        self.setup.routes.get(at)
    }

    pub(super) fn route_name(&self, index: u32) -> RouteName {
        let config = &self.setup.config;
        let at = index.checked_sub(1).and_then(|n| usize::try_from(n).ok());
        match at.and_then(|at| self.setup.routes.get(at)) {
            Some(route) => RouteName { index, provider: route.provider.clone(), model: route.model.clone() },
            None => RouteName { index, provider: config.provider.clone(), model: config.model.clone() },
        }
    }

    /// Returns the maximum number of retries on this route.
    pub(super) fn max_retries(&self) -> u32 {
        self.route().and_then(|r| r.max_retries).unwrap_or(self.setup.policy.retry.max_retries)
    }
}
