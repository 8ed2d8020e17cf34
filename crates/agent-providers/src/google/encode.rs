//! Encodes the body of a request. The members always have the same order.
//!
//! Members that do not change during a run come first and the messages last, so that a request begins with the bytes of
//! the previous one. Closed units of history and the tools are encoded once and cached. The vendor caches prefixes
//! without markers.

mod contents;
mod format;
mod server_tools;
mod thinking;

#[cfg(test)]
mod tests;

use agent_core::{Encoded, ErrorKind, ModelRequest, ProviderError, ToolChoice, WireKey};

use super::computer;
use super::generation::Known;
use crate::json::{self, Members};
use crate::request::refuse;
use crate::tool_schema;
use format::Format;

pub(super) use format::answer_tool;

/// The member of a function for its schema. It accepts JSON Schema; the older `parameters` accepts a dialect of
/// OpenAPI.
const SCHEMA: &str = "parametersJsonSchema";

/// Writes the body.
///
/// # Errors
/// Returns an error if the protocol cannot express the request.
pub(crate) fn body(request: &ModelRequest) -> Result<Vec<u8>, ProviderError> {
    crate::server_tools::check(request)?;
    crate::cache::refuse_prewarm(request)?;
    let known = Known::of(&request.model.id);
    let format = format::choose(request, known);
    let choice = choice(request, &format)?;
    let mut out = crate::request::body_buffer(request);
    let mut body = Members::open(&mut out);
    if !request.system_prompt.trim().is_empty() {
        let out = body.key("systemInstruction");
        out.extend_from_slice(br#"{"parts":[{"text":"#);
        json::write(out, &*request.system_prompt);
        out.extend_from_slice(b"}]}");
    }
    write_tools(&mut body, request, &format);
    choice.write(&mut body, server_tools::shows_calls(request));
    write_config(&mut body, request, known, &format);
    let continued = contents::continued(request);
    let left_out = continued.map_or(0, |paused| paused.units);
    contents::write(body.key("contents"), request, left_out, known);
    if let Some(paused) = continued {
        body.field("continuationToken", paused.token);
    }
    body.close();
    Ok(out)
}

/// Which functions the model must, may or must not call.
#[derive(Debug, PartialEq)]
enum Choice<'r> {
    Auto,
    Never,
    Any,
    Tool(&'r str),
}

impl Choice<'_> {
    /// Writes the choice, and whether the reply contains the calls of the vendor's tools.
    fn write(&self, body: &mut Members<'_>, shows_calls: bool) {
        let mode = match self {
            Self::Auto if !shows_calls => return,
            Self::Auto => None,
            Self::Never => Some("NONE"),
            Self::Any | Self::Tool(_) => Some("ANY"),
        };
        let mut config = Members::open(body.key("toolConfig"));
        if let Some(mode) = mode {
            let mut calling = Members::open(config.key("functionCallingConfig"));
            calling.field("mode", mode);
            if let Self::Tool(name) = self {
                calling.field("allowedFunctionNames", &[name]);
            }
            calling.close();
        }
        if shows_calls {
            config.field("includeServerSideToolInvocations", &true);
        }
        config.close();
    }
}

fn choice<'r>(request: &'r ModelRequest, format: &'r Format<'r>) -> Result<Choice<'r>, ProviderError> {
    let none = request.tools.is_empty();
    if computer::is_in(request)
        && matches!(&request.options.tool_choice, ToolChoice::Tool(name) if name.as_str() == computer::TOOL)
    {
        let message = "the vendor's tool has a function for each action, so no call of it can be demanded";
        let advice = "leave the choice to the model, or demand a call of any tool";
        return Err(refuse(&request.model, ErrorKind::Other, message, advice));
    }
    Ok(match (&request.options.tool_choice, format) {
        (ToolChoice::Tool(name), _) if !none => Choice::Tool(name),
        (ToolChoice::None, Format::Tool { name, .. }) => Choice::Tool(name),
        (_, Format::Tool { .. }) => Choice::Any,
        (ToolChoice::Required, _) if !none => Choice::Any,
        (ToolChoice::None, _) if !none => Choice::Never,
        (ToolChoice::Required | ToolChoice::Tool(_), _) => {
            let message = "the request demands a tool call and names no tools";
            return Err(refuse(
                &request.model,
                ErrorKind::Other,
                message,
                "give it tools, or leave the choice to the model",
            ));
        }
        _ => Choice::Auto,
    })
}

fn write_config(body: &mut Members<'_>, request: &ModelRequest, known: Known, format: &Format<'_>) {
    let plan = thinking::plan(request, known);
    let mut config = Members::open(body.key("generationConfig"));
    if let Some(limit) = plan.max_tokens {
        config.field("maxOutputTokens", &limit);
    }
    if let Some(temperature) = request.options.temperature.filter(|t| t.is_finite()) {
        config.field("temperature", &temperature);
    }
    let stops: Vec<&String> = request.options.stop_sequences.iter().filter(|s| !s.is_empty()).collect();
    if !stops.is_empty() {
        config.field("stopSequences", &stops);
    }
    if let Format::Native(schema) = format {
        config.field("responseMimeType", "application/json");
        if let Some(schema) = schema {
            config.field("responseJsonSchema", schema);
        }
    }
    plan.write(&mut config);
    config.close();
}

fn write_tools(body: &mut Members<'_>, request: &ModelRequest, format: &Format<'_>) {
    let by_tool = matches!(format, Format::Tool { .. });
    let has_functions = computer::declared(request).next().is_some() || by_tool;
    if !has_functions && request.options.server_tools.is_empty() {
        return;
    }
    let out = body.key("tools");
    out.push(b'[');
    if has_functions {
        write_functions(out, request, format);
    }
    server_tools::write(out, request, has_functions);
    out.push(b']');
}

fn write_functions(out: &mut Vec<u8>, request: &ModelRequest, format: &Format<'_>) {
    out.extend_from_slice(br#"{"functionDeclarations":["#);
    let start = out.len();
    request.tools.wire().with(
        WireKey::new(&[
            "google function declarations",
            if computer::is_in(request) { "computer" } else { "" },
        ]),
        || {
            let mut out = Vec::new();
            for tool in computer::declared(request) {
                if !out.is_empty() {
                    out.push(b',');
                }
                tool_schema::write_declaration(
                    &mut out,
                    &tool.name,
                    &tool.description,
                    SCHEMA,
                    &tool.parameters,
                );
            }
            Encoded::new(out, [])
        },
        |encoded| out.extend_from_slice(encoded.bytes()),
    );
    if let Format::Tool { name, schema } = format {
        if out.len() > start {
            out.push(b',');
        }
        tool_schema::write_declaration(out, name, crate::answer_format::TOOL_DESCRIPTION, SCHEMA, schema);
    }
    out.extend_from_slice(b"]}");
}
