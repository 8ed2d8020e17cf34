//! Writes the request: a head that says everything but the conversation, then the conversation.
//!
//! The messages stand last and each unit of the history is encoded once, so a later request of the same run begins
//! with the bytes of the earlier one (invariant 4). Keys stand in a fixed order; no tree is built.

mod unit;

#[cfg(test)]
mod tests;

use agent_core::{Encoded, ProviderError, StreamConfig, UnitKind};
use http::header::{self, HeaderName, HeaderValue};

use super::dialect::{Auth, Dialect};
use super::options;
use crate::answer_words;
use crate::handoff::{Handoff, wire_key};
use crate::json::{Members, write};
use crate::protocol::HttpRequest;
use crate::request;
use crate::tool_schema::declared;

/// What an assistant says between tool results and a user message, where a server wants that.
const BRIDGE: &[u8] = br#"{"role":"assistant","content":"I have the results of the tools."}"#;

/// What is put in at a mark to make the message before it the end of a cached prefix.
const CACHE_MARKER: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

pub(super) fn request(request: &StreamConfig) -> Result<HttpRequest, ProviderError> {
    let model = &request.model;
    let dialect = Dialect::of(model);
    let url = request::endpoint(model, dialect.base, "/chat/completions")?;
    let mut headers = request::json_headers();
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let key = request.key().filter(|k| !k.is_empty());
    match (dialect.auth, key) {
        (Auth::ApiKey, Some(key)) => {
            headers.insert(HeaderName::from_static("api-key"), request::credential(model, "", key)?);
        }
        (Auth::Bearer | Auth::OptionalBearer, Some(key)) => {
            headers.insert(header::AUTHORIZATION, request::credential(model, "Bearer ", key)?);
        }
        (Auth::OptionalBearer, None) => {}
        (Auth::Bearer | Auth::ApiKey, None) => {
            if !request::sets_header(request, "authorization") && !request::sets_header(request, "api-key") {
                return Err(request::key_missing(model));
            }
        }
    }
    Ok(HttpRequest { url, headers, body: body(request, &dialect) })
}

fn body(request: &StreamConfig, dialect: &Dialect) -> Vec<u8> {
    let mut out = Vec::with_capacity(request::room(request));
    let mut members = Members::open(&mut out);
    members.field("model", &request.model.id).field("stream", &true);
    options::write(&mut members, request, dialect);
    tools(&mut members, request, dialect);
    messages(members.key("messages"), request, dialect);
    members.close();
    out
}

fn tools(members: &mut Members<'_>, request: &StreamConfig, dialect: &Dialect) {
    if request.tools.is_empty() {
        return;
    }
    let marked = dialect.cache_markers && request.cache_config.marks_tools();
    let key = wire_key(request, &["chat tools", if dialect.strict_tools { "strict" } else { "" }]);
    let out = members.key("tools");
    let make = || {
        let mut bytes = vec![b'['];
        let mut end = 0;
        for tool in request.tools.definitions() {
            if bytes.len() > 1 {
                bytes.push(b',');
            }
            let mut wrapper = Members::open(&mut bytes);
            wrapper.field("type", "function");
            let mut function = Members::open(wrapper.key("function"));
            function.field("name", &tool.name).field("description", &tool.description);
            function.field("parameters", &declared(&tool.parameters));
            if dialect.strict_tools {
                function.field("strict", &false);
            }
            function.close();
            end = bytes.len();
            bytes.push(b'}');
        }
        bytes.push(b']');
        Encoded::new(bytes, [u32::try_from(end).unwrap_or(u32::MAX)])
    };
    request.tools.wire().with(key, make, |encoded| {
        let mark = encoded.marks().first().copied().filter(|_| marked);
        extend_marked(out, encoded, mark);
    });
}

fn messages(out: &mut Vec<u8>, request: &StreamConfig, dialect: &Dialect) {
    out.push(b'[');
    let start = out.len();
    system(out, request, dialect);
    let encoder = unit::UnitEncoder::new(request, dialect);
    let key = dialect.unit_key(request);
    let breakpoint = if dialect.cache_markers && request.cache_config.marks_messages() {
        breakpoint(request, &encoder, key)
    } else {
        None
    };
    let mut after_results = false;
    for (n, unit) in request.history.units().enumerate().filter(|(_, u)| Handoff::shows(u)) {
        let is_exchange = unit.kind() == UnitKind::Exchange;
        let bridge = dialect.assistant_after_tool_result && after_results && unit.reply().is_none();
        unit.wire().with(
            key,
            || encoder.encode(unit),
            |encoded| {
                if encoded.bytes().is_empty() {
                    return;
                }
                if bridge {
                    comma(out, start);
                    out.extend_from_slice(BRIDGE);
                }
                comma(out, start);
                let mark = breakpoint.filter(|(unit, _)| *unit == n).map(|(_, mark)| mark);
                extend_marked(out, encoded, mark);
                after_results = is_exchange;
            },
        );
    }
    out.push(b']');
}

fn system(out: &mut Vec<u8>, request: &StreamConfig, dialect: &Dialect) {
    let told = if dialect.json_schema { None } else { answer_words::of(&request.response_format) };
    let prompt = &*answer_words::behind(&request.system_prompt, told);
    if prompt.trim().is_empty() {
        return;
    }
    let mut message = Members::open(out);
    message.field("role", if options::wants_developer(request, dialect) { "developer" } else { "system" });
    if dialect.cache_markers {
        let parts = message.key("content");
        parts.extend_from_slice(br#"[{"type":"text","text":"#);
        write(parts, prompt);
        if request.cache_config.marks_system() {
            parts.extend_from_slice(CACHE_MARKER);
        }
        parts.extend_from_slice(b"}]");
    } else {
        message.field("content", prompt);
    }
    message.close();
}

/// Where the marker of the second-to-last message goes: the unit, and the offset in its bytes. Only messages whose
/// content is a list can carry it; the nearest earlier one takes its place.
fn breakpoint(
    request: &StreamConfig,
    encoder: &unit::UnitEncoder<'_>,
    key: agent_core::WireKey,
) -> Option<(usize, u32)> {
    let mut marks: Vec<(usize, u32)> = Vec::new();
    for (n, unit) in request.history.units().enumerate().filter(|(_, u)| Handoff::shows(u)) {
        unit.wire().with(key, || encoder.encode(unit), |e| marks.extend(e.marks().iter().map(|m| (n, *m))));
    }
    marks.pop();
    marks.into_iter().rev().find(|(_, mark)| *mark != unit::NO_MARK)
}

fn extend_marked(out: &mut Vec<u8>, encoded: &Encoded, mark: Option<u32>) {
    let bytes = encoded.bytes();
    match mark.and_then(|m| usize::try_from(m).ok()).and_then(|m| bytes.split_at_checked(m)) {
        Some((before, after)) => {
            out.extend_from_slice(before);
            out.extend_from_slice(CACHE_MARKER);
            out.extend_from_slice(after);
        }
        None => out.extend_from_slice(bytes),
    }
}

fn comma(out: &mut Vec<u8>, start: usize) {
    if out.len() > start {
        out.push(b',');
    }
}
