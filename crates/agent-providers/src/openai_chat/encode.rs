//! Encodes a request: first all other members, then the conversation.
//!
//! Each unit of the history is encoded once and the messages come last, so that a request begins with the bytes of the
//! previous one of the same run. The keys have a fixed order, and no tree is built.

mod joined;
mod unit;

#[cfg(test)]
mod tests;

use std::time::Duration;

use agent_core::{CacheTtl, Encoded, ModelRequest, ProviderError, UnitKind, WireKey};
use http::header::{self, HeaderName};

use super::dialect::{Auth, Dialect};
use super::options;
use crate::answer_format;
use crate::cache::{Lifetimes, OF_CLAUDE, OpenAiCache, marker};
use crate::handoff::{Handoff, wire_key};
use crate::json::{Members, write};
use crate::marks::Marks;
use crate::protocol::HttpRequest;
use crate::request;
use crate::server_tools;
use crate::tool_schema::declared;

/// The assistant text between tool results and a user message, for servers that require one.
const BRIDGE: &[u8] = br#"{"role":"assistant","content":"I have the results of the tools."}"#;

/// The texts that are inserted at marks to make the preceding part of a request the end of a cached prefix. Empty texts
/// mark nothing.
#[derive(Debug, Clone, Copy, Default)]
struct Markers {
    tools: &'static [u8],
    system: &'static [u8],
    messages: &'static [u8],
}

impl Markers {
    fn of(request: &ModelRequest, dialect: &Dialect) -> Self {
        let config = &request.options.cache_config;
        if dialect.cache_markers {
            let ttl = Lifetimes::of(config, OF_CLAUDE);
            let marker = |marks: bool, ttl| if marks { marker(ttl) } else { b"" };
            return Self {
                tools: marker(config.marks_tools(), ttl.prefix),
                system: marker(config.marks_system(), ttl.prefix),
                messages: marker(config.marks_messages(), ttl.messages),
            };
        }
        cache(request).map_or_else(Self::default, |cache| Self {
            tools: b"",
            system: cache.of_system(request),
            messages: cache.of_messages(request),
        })
    }
}

/// Returns the options of OpenAI's prompt cache, if the request goes to OpenAI.
pub(super) fn cache(request: &ModelRequest) -> Option<OpenAiCache> {
    let model = &request.model;
    let is_vendor = || model.provider == "openai" || request::https_host(model) == Some("api.openai.com");
    OpenAiCache::of(request, &[CacheTtl::ThirtyMinutes]).filter(|_| is_vendor())
}

/// Returns whether the request places the breakpoints of OpenAI's cache.
pub(super) fn places_breakpoints(request: &ModelRequest) -> bool {
    cache(request).is_some_and(OpenAiCache::is_explicit)
}

/// Returns how long the vendor keeps what a request caches.
pub(super) fn cache_lifetime(request: &ModelRequest) -> Option<Duration> {
    let config = &request.options.cache_config;
    if Dialect::marks_caches(&request.model) {
        return Lifetimes::of(config, OF_CLAUDE).shortest(config);
    }
    cache(request).map(OpenAiCache::lifetime)
}

pub(super) fn request(request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
    server_tools::check(request)?;
    crate::cache::refuse_prewarm(request)?;
    let model = &request.model;
    let dialect = Dialect::of(model);
    let url = request::endpoint(model, dialect.base, "/chat/completions")?;
    let mut headers = request::stream_headers();
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

fn body(request: &ModelRequest, dialect: &Dialect) -> Vec<u8> {
    let mut out = request::body_buffer(request);
    let mut members = Members::open(&mut out);
    members.field("model", &request.model.id).field("stream", &true);
    options::write(&mut members, request, dialect);
    let markers = Markers::of(request, dialect);
    tools(&mut members, request, dialect, markers.tools);
    messages(members.key("messages"), request, dialect, markers);
    members.close();
    out
}

fn tools(members: &mut Members<'_>, request: &ModelRequest, dialect: &Dialect, marker: &[u8]) {
    if request.tools.is_empty() {
        if options::vendor_tools(request).next().is_some() {
            let out = members.key("tools");
            out.push(b'[');
            options::write_vendor_tools(out, request);
            out.push(b']');
        }
        return;
    }
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
        extend_marked(out, encoded, marker);
    });
    if options::vendor_tools(request).next().is_some() {
        out.pop();
        out.push(b',');
        options::write_vendor_tools(out, request);
        out.push(b']');
    }
}

fn messages(out: &mut Vec<u8>, request: &ModelRequest, dialect: &Dialect, markers: Markers) {
    out.push(b'[');
    let start = out.len();
    system(out, request, dialect, markers.system);
    let encoder = unit::UnitEncoder::new(request, dialect);
    let key = dialect.unit_key(request);
    let marked = !markers.messages.is_empty();
    let mut marks = Marks::default();
    let mut write = |out: &mut Vec<u8>, form: &Encoded| {
        comma(out, start);
        let base = out.len();
        out.extend_from_slice(form.bytes());
        if marked {
            marks.extend(form, base);
        }
    };
    if dialect.assistant_after_tool_result {
        bridged(out, request, (key, &encoder), write);
    } else if dialect.joins_user_messages && !marked {
        joined::write(out, request, (key, &encoder));
    } else {
        Handoff::each_form(&request.history, key, |unit| encoder.encode(unit), |form| write(out, form));
    }
    // The marker belongs to the second-to-last message. If its content is not a list, the nearest earlier one gets it.
    if let Some(at) = marks.before_last() {
        out.splice(at..at, markers.messages.iter().copied());
    }
    out.push(b']');
}

/// Writes the conversation, with a short assistant message between the results of tools and a user message.
fn bridged(
    out: &mut Vec<u8>,
    request: &ModelRequest,
    (key, encoder): (WireKey, &unit::UnitEncoder<'_>),
    mut write: impl FnMut(&mut Vec<u8>, &Encoded),
) {
    let mut after_results = false;
    for unit in request.history.units().filter(|u| Handoff::shows(u)) {
        unit.wire().with(
            key,
            || encoder.encode(unit),
            |form| {
                if form.bytes().is_empty() {
                    return;
                }
                if after_results && unit.reply().is_none() {
                    // Results precede the unit.
                    out.push(b',');
                    out.extend_from_slice(BRIDGE);
                }
                write(out, form);
                after_results = unit.kind() == UnitKind::Exchange;
            },
        );
    }
}

fn system(out: &mut Vec<u8>, request: &ModelRequest, dialect: &Dialect, marker: &[u8]) {
    let told =
        if dialect.json_schema { None } else { answer_format::instruction(&request.options.response_format) };
    let prompt = &*answer_format::with_instruction(&request.system_prompt, told);
    if prompt.trim().is_empty() {
        return;
    }
    let mut message = Members::open(out);
    message.field("role", if options::wants_developer(request, dialect) { "developer" } else { "system" });
    if dialect.cache_markers || !marker.is_empty() {
        let parts = message.key("content");
        parts.extend_from_slice(br#"[{"type":"text","text":"#);
        write(parts, prompt);
        parts.extend_from_slice(marker);
        parts.extend_from_slice(b"}]");
    } else {
        message.field("content", prompt);
    }
    message.close();
}

fn extend_marked(out: &mut Vec<u8>, encoded: &Encoded, marker: &[u8]) {
    let bytes = encoded.bytes();
    let mark = encoded.marks().first().copied();
    match mark.and_then(|m| usize::try_from(m).ok()).and_then(|m| bytes.split_at_checked(m)) {
        Some((before, after)) => {
            out.extend_from_slice(before);
            out.extend_from_slice(marker);
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
