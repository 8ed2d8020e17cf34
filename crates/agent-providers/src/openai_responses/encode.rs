//! Encodes the body of a request. The members always have the same order.
//!
//! Members that do not change during a run come first and the input last, so that a request begins with the bytes of
//! the previous one. Each unit of the history and the tools are encoded once and cached.

mod deferred;
mod items;
mod options;
mod server_tools;

#[cfg(test)]
mod tests;

use agent_core::{Encoded, ModelRequest, ProviderError, TOOL_SEARCH, ToolDefinitions, ToolSearchForm, Unit};

pub(super) use options::cache;

use crate::cache::OpenAiCache;
use crate::handoff::{Handoff, wire_key};
use crate::json::{self, Members};
use crate::marks::Marks;
use crate::openai_responses::config::{SystemPrompt, system_prompt};
use crate::openai_responses::local_tools::LocalForms;
use crate::openai_responses::search;
use crate::server_tools::{has_tools, runs_code};
use crate::tool_schema::declared;

/// Writes the body.
///
/// # Errors
/// Returns an error if the protocol cannot express the request.
pub(crate) fn body(request: &ModelRequest) -> Result<Vec<u8>, ProviderError> {
    crate::server_tools::check(request)?;
    let mut out = crate::request::body_buffer(request);
    let mut body = Members::open(&mut out);
    body.field("model", &request.model.id).field("stream", &true);
    rest(&mut body, request)?;
    body.close();
    Ok(out)
}

/// Writes the members of a body without `stream`, which connections do not take. Returns the position of the input's value.
///
/// # Errors
/// Returns an error if the protocol cannot express the request.
#[cfg(feature = "openai-responses-ws")]
pub(super) fn unstreamed(request: &ModelRequest) -> Result<(Vec<u8>, usize), ProviderError> {
    let mut out = crate::request::body_buffer(request);
    let mut body = Members::open(&mut out);
    body.field("model", &request.model.id);
    let at = rest(&mut body, request)?;
    body.close();
    Ok((out, at))
}

/// Returns the items of a reply as a later request contains them; `None` if that request leaves out items which the server
/// has, except reasoning.
#[cfg(feature = "openai-responses-ws")]
pub(super) fn reply(request: &ModelRequest, reply: &agent_core::AssistantMessage) -> Option<Vec<u8>> {
    let cache = options::cache(request).filter(|cache| cache.is_explicit());
    items::Writer::new(request, cache.is_some()).whole_reply(reply)
}

/// Returns a message of the user as a later request contains it; `None` if later requests write it in another way, because
/// their input depends on the reply before it.
#[cfg(feature = "openai-responses-ws")]
pub(super) fn steering(request: &ModelRequest, message: &agent_core::AgentMessage) -> Option<Vec<u8>> {
    let depends = options::cache(request).is_some_and(OpenAiCache::is_explicit)
        || request.options.cache_config.diagnostics != agent_core::CacheDiagnostics::Off
        || request.options.request_hook.is_some();
    let mut history = agent_core::History::new();
    history.push(message.clone()).ok().filter(|()| !depends)?;
    let form = items::Writer::new(request, false).unit(history.units().next()?);
    form.bytes().starts_with(br#"{"role":"user""#).then(|| form.bytes().to_vec())
}

/// Writes the members after those that differ between the transports. Returns the position of the input's value.
fn rest(body: &mut Members<'_>, request: &ModelRequest) -> Result<usize, ProviderError> {
    options::write(body, request)?;
    tools(body, request);
    let prompt = Some(&*request.system_prompt).filter(|prompt| !prompt.trim().is_empty());
    let cache = options::cache(request).filter(|cache| cache.is_explicit());
    let first = match (prompt, system_prompt(&request.model)) {
        // Instructions have no breakpoint.
        (Some(prompt), SystemPrompt::Instructions) if cache.is_none() => {
            body.field("instructions", prompt);
            None
        }
        (prompt, _) => prompt,
    };
    let out = body.key("input");
    let at = out.len();
    input(out, request, first, cache);
    Ok(at)
}

fn tools(body: &mut Members<'_>, request: &ModelRequest) {
    if !has_tools(request) {
        return;
    }
    let strict = request.model.dialect.strict_tools != Some(false);
    let late = deferred::names(request);
    let mut parts = vec!["responses tools", if strict { "strict" } else { "" }];
    parts.extend(late.iter().copied());
    let local = LocalForms::of(request);
    parts.extend(local.keys());
    let key = wire_key(request, &parts);
    let out = body.key("tools");
    out.push(b'[');
    let start = out.len();
    server_tools::write(out, request);
    let by_code = request.tools.are_called_by_code() && runs_code(request);
    let make = || Encoded::new(encode_tools(&request.tools, strict, &late, local, by_code), []);
    request.tools.wire().with(key, make, |encoded| {
        if out.len() > start && !encoded.bytes().is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(encoded.bytes());
    });
    out.push(b']');
}

fn encode_tools(
    tools: &ToolDefinitions,
    strict: bool,
    late: &[&str],
    local: LocalForms,
    by_code: bool,
) -> Vec<u8> {
    let mut out = Vec::new();
    for definition in tools.definitions().iter().filter(|definition| !local.replaces(&definition.name)) {
        if !out.is_empty() {
            out.push(b',');
        }
        if tools.search() == ToolSearchForm::FromResults && definition.name == TOOL_SEARCH {
            search::write_tool(&mut out, definition);
            continue;
        }
        let mut tool = Members::open(&mut out);
        tool.field("type", "function").field("name", &definition.name);
        tool.field("description", &definition.description)
            .field("parameters", &declared(&definition.parameters));
        if strict {
            // Unsaid, it is true, and a schema that is not made for that is refused or changed.
            tool.field("strict", &false);
        }
        if late.contains(&definition.name.as_str()) {
            tool.field("async", &true);
        }
        if by_code && let Some(callers) = server_tools::callers(definition.callers) {
            tool.field("allowed_callers", callers);
        }
        tool.close();
    }
    out
}

/// Writes the conversation after this system prompt, with the breakpoints of an explicit cache.
fn input(out: &mut Vec<u8>, request: &ModelRequest, system: Option<&str>, cache: Option<OpenAiCache>) {
    let writer = items::Writer::new(request, cache.is_some());
    let key = writer.key(request);
    out.push(b'[');
    let start = out.len();
    if let Some(prompt) = system {
        let mut item = Members::open(out);
        item.field("role", "system");
        match cache {
            Some(cache) => {
                let parts = item.key("content");
                parts.extend_from_slice(br#"[{"type":"input_text","text":"#);
                json::write(parts, prompt);
                parts.extend_from_slice(cache.of_system(request));
                parts.extend_from_slice(b"}]");
            }
            None => {
                item.field("content", prompt);
            }
        }
        item.close();
    }
    let mut marks = Marks::default();
    let read = |form: &Encoded| {
        if out.len() > start {
            out.push(b',');
        }
        let base = out.len();
        out.extend_from_slice(form.bytes());
        marks.extend(form, base);
    };
    if writer.defers() {
        deferred::each_form(&request.history, &writer, key, read);
    } else {
        Handoff::each_form(&request.history, key, |unit: &Unit| writer.unit(unit), read);
    }
    let breakpoint = cache.map(|cache| cache.of_messages(request)).unwrap_or_default();
    if let Some(at) = marks.before_last().filter(|_| !breakpoint.is_empty()) {
        out.splice(at..at, breakpoint.iter().copied());
    }
    out.push(b']');
}
