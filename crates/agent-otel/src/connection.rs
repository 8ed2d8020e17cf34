//! Connects runs to OpenTelemetry: the identities of spans, and content.

use agent_core::drive::{SpanContent, Telemetry};
use agent_core::trace::{TraceContext, names};
use opentelemetry::trace::TraceContextExt as _;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::content::{self, Content};

/// The connection that an agent gets from [`Telemetry::connection`](crate::Telemetry::connection).
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) content: Content,
}

impl Telemetry for Connection {
    fn context(&self, span: &Span) -> Option<TraceContext> {
        if span.is_disabled() { context_of(&Span::current()) } else { context_of(span) }
    }

    fn content(&self, span: &Span, content: SpanContent<'_>) {
        if self.content == Content::Omitted || !span.context().span().is_recording() {
            return;
        }
        match content {
            SpanContent::Request(request) => {
                if let Some(text) = content::instructions(&request.system_prompt) {
                    span.set_attribute(names::SYSTEM_INSTRUCTIONS, text);
                }
                span.set_attribute(names::INPUT_MESSAGES, content::messages(request.messages()));
            }
            SpanContent::Reply(reply) => {
                span.set_attribute(names::OUTPUT_MESSAGES, content::reply(reply));
            }
            SpanContent::Arguments(arguments) => {
                span.set_attribute(names::TOOL_ARGUMENTS, content::value(arguments));
            }
            SpanContent::Result(result) => {
                span.set_attribute(names::TOOL_RESULT, content::blocks(&result.content));
            }
            _ => {}
        }
    }
}

/// Returns the identity of a span that a subscriber with a layer of this crate records.
fn context_of(span: &Span) -> Option<TraceContext> {
    let context = span.context();
    let identity = context.span().span_context().clone();
    if !identity.is_valid() {
        return None;
    }
    let flags = identity.trace_flags().to_u8();
    let parent = format!("00-{}-{}-{flags:02x}", identity.trace_id(), identity.span_id());
    Some(TraceContext::new(&parent)?.with_state(&identity.trace_state().header()))
}
