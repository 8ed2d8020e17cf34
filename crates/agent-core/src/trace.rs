//! Trace contexts, and the names of spans, attributes and metrics.
//!
//! A [`TraceContext`] identifies a span in the form of the W3C recommendation *Trace Context*. A run passes it to tools, to
//! MCP servers and to model servers if the program connects a tracing system with
//! [`Telemetry`](crate::drive::Telemetry); otherwise nothing is passed. The crate `looptree-otel` connects OpenTelemetry.
//!
//! ```
//! use agent_core::trace::TraceContext;
//!
//! let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
//! let context = TraceContext::new(parent).ok_or("not a traceparent")?;
//! assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
//! assert_eq!(context.span_id(), "00f067aa0ba902b7");
//! assert!(TraceContext::new("00-0-0-01").is_none());
//! # Ok::<(), &'static str>(())
//! ```

pub mod names;

#[cfg(test)]
mod tests;

use std::sync::Arc;

/// The length of a `traceparent` of version 00.
const PARENT_LEN: usize = 55;

/// The maximum length of a `tracestate` in bytes. The recommendation requires that senders forward at least this much.
pub const MAX_STATE_LEN: usize = 512;

/// The identity of a span, as other processes receive it. A clone increments two reference counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: Arc<str>,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// Creates a context from the value of a `traceparent` header. Returns `None` if the value is not of version 00 or
    /// one of its ids is zero.
    #[must_use]
    pub fn new(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let lengths = [2, 32, 16, 2];
        let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let valid = traceparent.len() == PARENT_LEN
            && lengths.iter().all(|len| parts.next().is_some_and(|part| part.len() == *len && hex(part)))
            && parts.next().is_none()
            && traceparent.starts_with("00-");
        let context = valid.then(|| Self { parent: traceparent.into(), state: None })?;
        let zero = |id: &str| id.bytes().all(|b| b == b'0');
        (!zero(context.trace_id()) && !zero(context.span_id())).then_some(context)
    }

    /// Adds the value of a `tracestate` header. A value that is empty, is longer than [`MAX_STATE_LEN`], or contains other
    /// characters than printable ASCII is left out.
    #[must_use]
    pub fn with_state(mut self, tracestate: &str) -> Self {
        let fits = !tracestate.is_empty() && tracestate.len() <= MAX_STATE_LEN;
        let printable = tracestate.bytes().all(|b| (b' '..=b'~').contains(&b));
        self.state = (fits && printable).then(|| tracestate.into());
        self
    }

    /// Returns the value of the `traceparent` header.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.parent
    }

    /// Returns the value of the `tracestate` header, if there is one.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns the id of the trace: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        self.parent.get(3..35).unwrap_or_default()
    }

    /// Returns the id of the span: 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(&self) -> &str {
        self.parent.get(36..52).unwrap_or_default()
    }

    /// Returns whether the sender records the span.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let flags = self.parent.get(53..).and_then(|flags| u8::from_str_radix(flags, 16).ok());
        flags.is_some_and(|flags| flags & 1 == 1)
    }
}
