//! Derives the ids of traces and spans from the ids of loops and steps.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use sha2::{Digest as _, Sha256};

fn hash(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        // Ids contain no zero byte, so no two lists of parts have the same bytes.
        hash.update([0]);
    }
    hash.finalize().into()
}

/// Returns the id of the trace that begins with this loop or group.
pub(super) fn trace(root: &str) -> TraceId {
    let mut id = [0; 16];
    id.iter_mut().zip(hash(&["trace", root])).for_each(|(to, from)| *to = from);
    TraceId::from_bytes(id)
}

/// Returns the id of the span of a part of a loop.
pub(super) fn span(of_loop: &str, part: &str) -> SpanId {
    let mut id = [0; 8];
    id.iter_mut().zip(hash(&["span", of_loop, part])).for_each(|(to, from)| *to = from);
    SpanId::from_bytes(id)
}

/// Returns the identity of a span.
pub(super) fn context(trace: TraceId, span: SpanId) -> SpanContext {
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::default())
}
