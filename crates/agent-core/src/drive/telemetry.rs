//! The connection of runs to a tracing system.

use std::fmt;

use serde_json::Value;
use tracing::Span;

use crate::message::AssistantMessage;
use crate::provider::ModelRequest;
use crate::tool::ToolResult;
use crate::trace::TraceContext;

/// Connects runs to a tracing system, which knows the identities of spans. `looptree-otel` implements it for OpenTelemetry.
///
/// The driver creates the spans with the crate `tracing`, whether or not there is a `Telemetry`. It calls these methods for
/// spans that a subscriber wants, and for others with a disabled span. They must not block.
pub trait Telemetry: Send + Sync + fmt::Debug {
    /// Returns the identity of the span, which is passed to the tool, the MCP server or the model server that the span
    /// covers. `None` sends nothing.
    fn context(&self, span: &Span) -> Option<TraceContext>;

    /// Receives the content that belongs to a span. The default drops it.
    fn content(&self, span: &Span, content: SpanContent<'_>) {
        let _ = (span, content);
    }
}

/// Text of the conversation that belongs to a span.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum SpanContent<'a> {
    /// The request of a model call, before it is sent.
    Request(&'a ModelRequest),
    /// The reply to it.
    Reply(&'a AssistantMessage),
    /// The arguments of a tool call, before it is executed.
    Arguments(&'a Value),
    /// The result of the call.
    Result(&'a ToolResult),
}
