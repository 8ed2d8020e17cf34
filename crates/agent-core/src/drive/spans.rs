//! The tracing spans of a run, with all their fields, and what the tracing system adds to calls.
//!
//! The names of the fields are those of [`names`]. Without a subscriber that wants them, no span is created.

use serde_json::Value;
use tracing::field::{Empty, debug};
use tracing::{Span, info_span};

use super::config::Services;
use super::telemetry::SpanContent;
use crate::event::{AgentEvent, Ended};
use crate::identity::{GroupRole, StepKey};
use crate::message::{CostConfig, ToolCall, Usage};
use crate::model::ModelConfig;
use crate::provider::ModelRequest;
use crate::run::{CompactionTask, Input, Run, Step};
use crate::tool::{ToolContext, ToolResult};
use crate::trace::names;

/// The span of a loop and of its open turn. Exists only if the span of the loop is enabled.
pub(super) struct Spans {
    run: Span,
    turn: Span,
}

/// Creates the span of a loop. The name is a part of the callsite, so each name has its own.
macro_rules! loop_span {
    ($name:literal, $setup:expr) => {{
        let agent = $setup.spawned_by.as_ref().map(|call| call.tool_name.as_str());
        info_span!(
            target: "looptree",
            $name,
            otel.name = agent.map_or_else(|| $name.to_owned(), |agent| format!("{} {agent}", $name)),
            { names::OPERATION } = names::INVOKE_AGENT,
            { names::PROVIDER } = names::provider(&$setup.config.provider),
            { names::REQUEST_MODEL } = %$setup.config.model,
            { names::AGENT_NAME } = agent,
            { names::CONVERSATION } = %$setup.session_id,
            { names::INPUT_TOKENS } = Empty,
            { names::OUTPUT_TOKENS } = Empty,
            { names::CACHE_READ } = Empty,
            { names::CACHE_WRITE } = Empty,
            { names::REASONING } = Empty,
            { names::ERROR_TYPE } = Empty,
            { names::AGENT_ID } = %$setup.agent_id,
            { names::LOOP } = %$setup.loop_id,
            { names::LOOP_PARENT } = $setup.parent_loop_id.as_ref().map(display),
            { names::LOOP_END } = Empty,
        )
    }};
}

impl Spans {
    /// Opens the span of a loop as a child of the caller's current span. `None` if no subscriber wants it.
    pub(super) fn open(run: &Run) -> Option<Box<Self>> {
        let setup = run.setup();
        let span = match setup.group.as_ref().map(|member| member.role) {
            None => loop_span!("invoke_agent", setup),
            Some(GroupRole::Branch { .. }) => loop_span!("branch", setup),
            Some(GroupRole::Judge) => loop_span!("judge", setup),
        };
        (!span.is_disabled()).then(|| {
            let mut spans = Box::new(Self { run: span, turn: Span::none() });
            // The events of the start, or of an earlier driver, may have opened a turn.
            if !matches!(run.next(), Step::Gate { .. } | Step::ReadQueues { .. } | Step::Done(_)) {
                spans.open_turn(run.turn_index());
            }
            spans
        })
    }

    fn open_turn(&mut self, index: u32) {
        self.turn = info_span!(
            target: "looptree",
            parent: &self.run,
            "turn",
            { names::INPUT_TOKENS } = Empty,
            { names::OUTPUT_TOKENS } = Empty,
            { names::CACHE_READ } = Empty,
            { names::CACHE_WRITE } = Empty,
            { names::REASONING } = Empty,
            { names::TURN } = i64::from(index),
        );
    }

    /// Returns the span of the open turn, or that of the loop between turns.
    fn current(&self) -> &Span {
        if self.turn.is_disabled() { &self.run } else { &self.turn }
    }

    /// Opens and closes the span of a turn, and records the end of the loop.
    pub(super) fn follow(&mut self, event: &AgentEvent) {
        match event {
            // The turn of a run that was opened in it is open.
            AgentEvent::TurnStart { turn_index, .. } if self.turn.is_disabled() => {
                self.open_turn(*turn_index)
            }
            AgentEvent::TurnEnd { usage, .. } => {
                record_usage(&self.turn, usage);
                self.turn = Span::none();
            }
            AgentEvent::AgentEnd(end) => {
                record_usage(&self.run, &end.usage);
                let name = end.ended.name();
                self.run.record(names::LOOP_END, name);
                if matches!(end.ended, Ended::Error { .. } | Ended::Interrupted { .. }) {
                    self.run.record(names::ERROR_TYPE, name);
                }
                self.turn = Span::none();
            }
            _ => {}
        }
    }
}

/// Opens the span of a group of parallel loops.
pub(crate) fn group(group: &str, session: &str) -> Span {
    info_span!(
        target: "looptree",
        "group",
        otel.name = names::INVOKE_WORKFLOW,
        { names::OPERATION } = names::INVOKE_WORKFLOW,
        { names::CONVERSATION } = session,
        { names::GROUP } = group,
    )
}

/// Returns the span that the next step belongs to; disabled without a subscriber.
pub(super) fn current(spans: Option<&Spans>) -> Span {
    spans.map_or_else(Span::none, |spans| spans.current().clone())
}

/// Opens the span of a model call.
pub(super) fn model_call(
    spans: Option<&Spans>,
    run: &Run,
    model: &ModelConfig,
    key: &StepKey,
    attempt: u32,
) -> Span {
    let Some(spans) = spans else { return Span::none() };
    info_span!(
        target: "looptree",
        parent: spans.current(),
        "chat",
        otel.name = format!("chat {}", model.id),
        otel.kind = "client",
        { names::OPERATION } = names::CHAT,
        { names::PROVIDER } = names::provider(&model.provider),
        { names::REQUEST_MODEL } = %model.id,
        { names::REQUEST_MAX_TOKENS } = Empty,
        { names::CONVERSATION } = %run.setup().session_id,
        { names::RESPONSE_ID } = Empty,
        { names::FINISH_REASONS } = Empty,
        { names::FIRST_CHUNK } = Empty,
        { names::INPUT_TOKENS } = Empty,
        { names::OUTPUT_TOKENS } = Empty,
        { names::CACHE_READ } = Empty,
        { names::CACHE_WRITE } = Empty,
        { names::REASONING } = Empty,
        { names::ERROR_TYPE } = Empty,
        { names::LOOP } = %run.loop_id(),
        { names::STEP } = %key,
        { names::ATTEMPT } = i64::from(attempt),
        { names::COST } = Empty,
        { names::QUEUE } = Empty,
    )
}

/// Adds the trace context to a request, and passes its content to the tracing system.
pub(super) fn connect_request(services: &Services, span: &Span, request: &mut ModelRequest) {
    if !span.is_disabled()
        && let Some(max) = request.options.max_tokens.or(request.model.max_tokens)
    {
        span.record(names::REQUEST_MAX_TOKENS, i64::from(max));
    }
    if let Some(telemetry) = &services.telemetry {
        request.trace = telemetry.context(span).map(Box::new);
        telemetry.content(span, SpanContent::Request(request));
    }
}

/// Records that the first piece of the reply arrived `ms` milliseconds after the request.
pub(super) fn record_first_chunk(span: &Span, ms: u64) {
    span.record(names::FIRST_CHUNK, seconds(ms));
}

/// Records the result of a model call.
pub(super) fn record_reply(services: &Services, span: &Span, input: &Input, model: &ModelConfig) {
    if span.is_disabled() {
        return;
    }
    match input {
        Input::ModelReplied { reply } => {
            let reply = reply.message();
            record_usage(span, &reply.usage);
            record_cost(span, &reply.usage, &model.cost);
            span.record(names::FINISH_REASONS, names::finish_reason(reply.stop_reason));
            if let Some(id) = &reply.response_id {
                span.record(names::RESPONSE_ID, id.as_str());
            }
            if let Some(telemetry) = &services.telemetry {
                telemetry.content(span, SpanContent::Reply(reply));
            }
        }
        Input::ModelFailed { failure, partial } => {
            if let Some(partial) = partial {
                record_usage(span, &partial.usage);
                record_cost(span, &partial.usage, &model.cost);
            }
            span.record(names::ERROR_TYPE, debug(failure.kind));
        }
        Input::Abort { .. } => {
            span.record(names::ERROR_TYPE, "aborted");
        }
        _ => {}
    }
}

/// Opens the span of a tool call below `parent`.
pub(super) fn tool_call(parent: &Span, call: &ToolCall, key: &StepKey) -> Span {
    if parent.is_disabled() {
        return Span::none();
    }
    info_span!(
        target: "looptree",
        parent: parent,
        "execute_tool",
        otel.name = format!("execute_tool {}", call.name),
        { names::OPERATION } = names::EXECUTE_TOOL,
        { names::TOOL_NAME } = %call.name,
        { names::TOOL_CALL } = %call.id,
        { names::TOOL_TYPE } = names::FUNCTION,
        { names::ERROR_TYPE } = Empty,
        { names::STEP } = %key,
    )
}

/// Adds the trace context to a tool call, and passes its arguments to the tracing system.
pub(super) fn connect_tool(services: &Services, span: &Span, ctx: &mut ToolContext, arguments: &Value) {
    if let Some(telemetry) = &services.telemetry {
        ctx.trace = telemetry.context(span).map(Box::new);
        telemetry.content(span, SpanContent::Arguments(arguments));
    }
}

/// Records the end of a tool call.
pub(super) fn record_tool(services: &Services, span: &Span, result: &ToolResult) {
    if result.is_error {
        span.record(names::ERROR_TYPE, names::TOOL_ERROR);
    }
    if let Some(telemetry) = &services.telemetry {
        telemetry.content(span, SpanContent::Result(result));
    }
}

/// Opens the span of a compaction.
pub(super) fn compaction(spans: Option<&Spans>, task: &CompactionTask) -> Span {
    let Some(spans) = spans else { return Span::none() };
    info_span!(
        target: "looptree",
        parent: spans.current(),
        "compaction",
        { names::COMPACTION_REASON } = ?task.reason,
        { names::COMPACTION_BUDGET } = signed(task.budget),
    )
}

fn record_usage(span: &Span, usage: &Usage) {
    span.record(names::INPUT_TOKENS, signed(usage.prompt_tokens()));
    span.record(names::OUTPUT_TOKENS, signed(usage.output));
    span.record(names::CACHE_READ, signed(usage.cache_read));
    span.record(names::CACHE_WRITE, signed(usage.cache_write));
    span.record(names::REASONING, signed(usage.reasoning));
}

fn record_cost(span: &Span, usage: &Usage, prices: &CostConfig) {
    if let Some(dollars) = names::dollars(usage, prices) {
        span.record(names::COST, dollars);
    }
}

/// Converts a count for tracing systems that have signed integers only.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts milliseconds to seconds, exactly up to 285,000 years.
#[expect(clippy::cast_precision_loss, reason = "durations have fewer than 53 bits")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}
