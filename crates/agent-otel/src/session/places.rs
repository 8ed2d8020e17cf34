//! The place of each recorded loop: its trace, and the span above it.

use std::collections::BTreeMap;

use agent_session::{LoopRecord, Session};
use opentelemetry::trace::{SpanId, TraceId};

use super::ids;

/// The place of a loop or of a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) trace: TraceId,
    /// The span above it; invalid at the beginning of a trace.
    pub(super) above: SpanId,
}

/// Finds the trace and the parent of each loop.
pub(super) fn places<'a>(sessions: &[&'a Session]) -> BTreeMap<&'a str, Place> {
    let mut above: BTreeMap<&str, (&str, SpanId)> = BTreeMap::new();
    let loops = || sessions.iter().flat_map(|session| &session.loops);
    for record in loops() {
        for child in &record.child_loop_refs {
            let call = ids::span(record.loop_id.as_str(), child.tool_call_id.as_str());
            above.insert(child.child_loop_id.as_str(), (record.loop_id.as_str(), call));
        }
    }
    // A group inside of a sub-agent is not recorded with its call, so a group is the beginning of a trace.
    let root_of = |record: &'a LoopRecord| {
        let (mut root, mut steps) = (record.loop_id.as_str(), 0);
        while let Some((parent, _)) = above.get(root) {
            root = parent;
            steps += 1;
            // A record that was edited by hand could contain a circle.
            if steps > above.len() {
                break;
            }
        }
        let first = loops().find(|record| record.loop_id.as_str() == root);
        first.and_then(|first| first.group.as_ref()).map_or(root, |member| member.group_id.as_str())
    };
    loops()
        .map(|record| {
            let id = record.loop_id.as_str();
            let group = record.group.as_ref().map(|member| ids::span(member.group_id.as_str(), "group"));
            let call = above.get(id).map(|(_, call)| *call);
            let above = group.or(call).unwrap_or(SpanId::INVALID);
            (id, Place { trace: ids::trace(root_of(record)), above })
        })
        .collect()
}
