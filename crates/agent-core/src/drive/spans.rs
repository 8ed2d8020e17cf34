//! The tracing spans of a run, with all their names and fields.
//!
//! The names and the fields that begin with `gen_ai` are those of the OpenTelemetry conventions for generative AI; the
//! others begin with `looptree`. Without a subscriber that wants them, no span is created.

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::event::{AgentEvent, Ended};
use crate::identity::{GroupRole, StepKey};
use crate::message::{ToolCall, Usage};
use crate::model::ModelConfig;
use crate::run::{CompactionTask, Input, Run, Step};

/// The span of a loop and of its open turn. Exists only if the span of the loop is enabled.
pub(super) struct Spans {
    run: Span,
    turn: Span,
}

/// Creates the span of a loop. The name is a part of the callsite, so each name has its own.
macro_rules! loop_span {
    ($name:literal, $setup:expr) => {
        info_span!(
            target: "looptree",
            $name,
            otel.name = format!("{} {}", $name, $setup.agent_id),
            gen_ai.operation.name = "invoke_agent",
            gen_ai.provider.name = %$setup.config.provider,
            gen_ai.request.model = %$setup.config.model,
            gen_ai.agent.id = %$setup.agent_id,
            gen_ai.conversation.id = %$setup.session_id,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            error.type = Empty,
            looptree.loop.id = %$setup.loop_id,
            looptree.loop.parent_id = $setup.parent_loop_id.as_ref().map(tracing::field::display),
            looptree.loop.end = Empty,
        )
    };
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
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            looptree.turn.index = index,
        );
    }

    /// Returns the span of the open turn, or that of the loop between turns.
    fn current(&self) -> &Span {
        if self.turn.is_disabled() { &self.run } else { &self.turn }
    }

    /// Opens and closes the span of a turn, and records the end of the loop.
    pub(super) fn follow(&mut self, events: &[AgentEvent]) {
        for event in events {
            match event {
                AgentEvent::TurnStart { turn_index, .. } => self.open_turn(*turn_index),
                AgentEvent::TurnEnd { usage, .. } => {
                    record_usage(&self.turn, usage);
                    self.turn = Span::none();
                }
                AgentEvent::AgentEnd(end) => {
                    record_usage(&self.run, &end.usage);
                    let name = end.ended.name();
                    self.run.record("looptree.loop.end", name);
                    if matches!(end.ended, Ended::Error { .. } | Ended::Interrupted { .. }) {
                        self.run.record("error.type", name);
                    }
                    self.turn = Span::none();
                }
                _ => {}
            }
        }
    }
}

/// Returns the span that the next step belongs to; disabled without a subscriber.
pub(super) fn current(spans: Option<&Spans>) -> Span {
    spans.map_or_else(Span::none, |spans| spans.current().clone())
}

/// Opens the span of a model call.
pub(super) fn model_call(spans: Option<&Spans>, run: &Run, model: &ModelConfig, key: &StepKey) -> Span {
    let Some(spans) = spans else { return Span::none() };
    info_span!(
        target: "looptree",
        parent: spans.current(),
        "chat",
        otel.name = format!("chat {}", model.id),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = %model.provider,
        gen_ai.request.model = %model.id,
        gen_ai.conversation.id = %run.setup().session_id,
        gen_ai.response.id = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        error.type = Empty,
        looptree.loop.id = %run.loop_id(),
        looptree.step = %key,
    )
}

/// Records the result of a model call.
pub(super) fn record_reply(span: &Span, input: &Input) {
    if span.is_disabled() {
        return;
    }
    match input {
        Input::ModelReplied { reply } => {
            let reply = reply.message();
            record_usage(span, &reply.usage);
            span.record("gen_ai.response.finish_reasons", tracing::field::debug(reply.stop_reason));
            if let Some(id) = &reply.response_id {
                span.record("gen_ai.response.id", id.as_str());
            }
        }
        Input::ModelFailed { failure, partial } => {
            if let Some(partial) = partial {
                record_usage(span, &partial.usage);
            }
            span.record("error.type", tracing::field::debug(failure.kind));
        }
        Input::Abort { .. } => {
            span.record("error.type", "aborted");
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
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = %call.name,
        gen_ai.tool.call.id = %call.id,
        gen_ai.tool.type = "function",
        error.type = Empty,
        looptree.step = %key,
    )
}

/// Records that a tool call ended with an error.
pub(super) fn record_tool_error(span: &Span) {
    span.record("error.type", "tool_error");
}

/// Opens the span of a compaction.
pub(super) fn compaction(spans: Option<&Spans>, task: &CompactionTask) -> Span {
    let Some(spans) = spans else { return Span::none() };
    info_span!(
        target: "looptree",
        parent: spans.current(),
        "compaction",
        looptree.compaction.reason = ?task.reason,
        looptree.compaction.budget_tokens = task.budget,
    )
}

fn record_usage(span: &Span, usage: &Usage) {
    span.record("gen_ai.usage.input_tokens", usage.prompt_tokens());
    span.record("gen_ai.usage.output_tokens", usage.output);
    span.record("gen_ai.usage.cache_read.input_tokens", usage.cache_read);
}
