//! What a reply contains besides its content, so that it can be sent back.
//!
//! In programmatic tool calling, code in a container of the vendor calls the tools. The vendor accepts the results only
//! with the `caller` of each call and the id of the container. The members of a call become its signature, as a small JSON
//! object, and the container becomes an opaque block, which is sent as a member of the request.

use agent_core::{AssistantMessage, Content, ModelRequest};
use serde_json::{Map, Value};

use crate::handoff::Handoff;

/// The kind of the opaque block of a container.
pub(super) const CONTAINER: &str = "container";

/// The members of a call that its other forms contain, or that belong to a request.
const KNOWN: [&str; 6] = ["type", "id", "name", "input", "cache_control", "index"];

/// Returns the mark of a call: its members besides id, name and input. A call by the model itself has none, because
/// `direct` is the vendor's default.
pub(super) fn of_call(block: &str) -> Option<String> {
    let mut members: Map<String, Value> = serde_json::from_str(block).ok()?;
    members.retain(|name, value| {
        let direct = name == "caller" && value.get("type").and_then(Value::as_str) == Some("direct");
        !KNOWN.contains(&name.as_str()) && !value.is_null() && !direct
    });
    (!members.is_empty()).then(|| Value::Object(members).to_string())
}

/// Parses a mark. Returns nothing if the text is not a mark.
pub(super) fn read(mark: &str) -> Map<String, Value> {
    serde_json::from_str(mark).unwrap_or_default()
}

/// Returns the container in which the last reply ran, if the request sends the results of its calls or continues it.
pub(super) fn container(request: &ModelRequest, rules: &Handoff<'_>) -> Option<String> {
    let reply: &AssistantMessage = request.history.last_reply()?;
    if reply.tool_calls().next().is_none() && request.continued_reply().is_none() {
        return None;
    }
    let found = reply.content.iter().rev().find_map(|content| match content {
        Content::Opaque(block) if block.kind == CONTAINER => rules.opaque(reply, block)?.get("id")?.as_str(),
        _ => None,
    });
    found.map(str::to_owned)
}
