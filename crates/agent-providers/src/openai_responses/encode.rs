//! Encodes the body of a request. The members always have the same order.
//!
//! Members that do not change during a run come first and the input last, so that a request begins with the bytes of
//! the previous one. Each unit of the history and the tools are encoded once and cached.

mod items;
mod options;
mod server_tools;

#[cfg(test)]
mod tests;

use agent_core::{Encoded, ModelRequest, ProviderError, ToolDefinition, Unit};

pub(super) use options::cache;

use crate::cache::OpenAiCache;
use crate::handoff::{Handoff, wire_key};
use crate::json::{self, Members};
use crate::marks::Marks;
use crate::openai_responses::config::{SystemPrompt, system_prompt};
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
    options::write(&mut body, request)?;
    tools(&mut body, request);
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
    input(body.key("input"), request, first, cache);
    body.close();
    Ok(out)
}

fn tools(body: &mut Members<'_>, request: &ModelRequest) {
    if !has_tools(request) {
        return;
    }
    let strict = request.model.dialect.strict_tools != Some(false);
    let key = wire_key(request, &["responses tools", if strict { "strict" } else { "" }]);
    let out = body.key("tools");
    out.push(b'[');
    let start = out.len();
    server_tools::write(out, request);
    let by_code = request.tools.are_called_by_code() && runs_code(request);
    let make = || Encoded::new(encode_tools(request.tools.definitions(), strict, by_code), []);
    request.tools.wire().with(key, make, |encoded| {
        if out.len() > start && !encoded.bytes().is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(encoded.bytes());
    });
    out.push(b']');
}

fn encode_tools(definitions: &[ToolDefinition], strict: bool, by_code: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for definition in definitions {
        if !out.is_empty() {
            out.push(b',');
        }
        let mut tool = Members::open(&mut out);
        tool.field("type", "function").field("name", &definition.name);
        tool.field("description", &definition.description)
            .field("parameters", &declared(&definition.parameters));
        if strict {
            // Unsaid, it is true, and a schema that is not made for that is refused or changed.
            tool.field("strict", &false);
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
    Handoff::each_form(
        &request.history,
        key,
        |unit: &Unit| writer.unit(unit),
        |form| {
            if out.len() > start {
                out.push(b',');
            }
            let base = out.len();
            out.extend_from_slice(form.bytes());
            marks.extend(form, base);
        },
    );
    let breakpoint = cache.map(|cache| cache.of_messages(request)).unwrap_or_default();
    if let Some(at) = marks.before_last().filter(|_| !breakpoint.is_empty()) {
        out.splice(at..at, breakpoint.iter().copied());
    }
    out.push(b']');
}
