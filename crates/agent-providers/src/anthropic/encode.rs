//! Writes the body of a request, byte by byte and always in the same order.
//!
//! What stays the same over a run stands first, the messages last, so that a later request begins with the bytes of
//! an earlier one. A closed unit of history and the tools are encoded once and kept; cache markers are put in
//! afterwards, at offsets that were remembered, so what is kept holds none.

mod format;
mod messages;
mod thinking;

#[cfg(test)]
mod tests;

use agent_core::{Encoded, ErrorKind, ProviderError, StreamConfig, ToolChoice, ToolDefinition, WireKey};

use super::config::refuse;
use crate::catalogue::{self, ModelFacts};
use crate::declaration;
use crate::json::{self, Members};

pub(super) use format::response_tool;

/// The member of a tool that holds its schema.
const SCHEMA: &str = "input_schema";

/// What marks the end of a cacheable prefix. It goes in before the closing brace of a block.
const MARKER: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

/// Writes the body.
///
/// # Errors
/// When the request cannot be said in this protocol.
pub(super) fn body(request: &StreamConfig) -> Result<Vec<u8>, ProviderError> {
    let facts = catalogue::find(&request.model.provider, &request.model.id);
    let format = format::choose(request, facts)?;
    let choice = choice(request, &format, facts)?;
    let plan = thinking::plan(request, facts, choice.is_forced());
    let caching = request.model.prompt_cache;

    let mut out = Vec::with_capacity(4 * 1_024);
    let mut body = Members::open(&mut out);
    body.field("model", &request.model.id).field("max_tokens", &plan.max_tokens).field("stream", &true);
    if let Some(temperature) = request.temperature.filter(|t| t.is_finite() && plan.takes_temperature) {
        body.field("temperature", &temperature);
    }
    plan.write(&mut body);
    write_output_config(&mut body, plan.effort, &format);
    choice.write(&mut body);
    let stops: Vec<&String> = request.stop_sequences.iter().filter(|s| !s.trim().is_empty()).collect();
    if !stops.is_empty() {
        body.field("stop_sequences", &stops);
    }
    if !request.tools.is_empty() || matches!(format, format::Format::Tool { .. }) {
        write_tools(body.key("tools"), request, &format, caching && request.cache_config.marks_tools());
    }
    if !request.system_prompt.trim().is_empty() {
        let out = body.key("system");
        out.extend_from_slice(br#"[{"type":"text","text":"#);
        json::write(out, &*request.system_prompt);
        if caching && request.cache_config.marks_system() {
            out.extend_from_slice(MARKER);
        }
        out.extend_from_slice(b"}]");
    }
    messages::write(body.key("messages"), request, caching && request.cache_config.marks_messages());
    body.close();
    Ok(out)
}

/// Which tools the model must, may or must not call.
#[derive(Debug, PartialEq)]
enum Choice<'r> {
    Auto,
    Never,
    Any,
    Tool(&'r str),
}

impl Choice<'_> {
    /// Whether it leaves the model no other way than a call, which the API does not combine with thinking.
    fn is_forced(&self) -> bool {
        matches!(self, Self::Any | Self::Tool(_))
    }

    fn write(&self, body: &mut Members<'_>) {
        let name = match self {
            Self::Auto => return,
            Self::Never => "none",
            Self::Any => "any",
            Self::Tool(_) => "tool",
        };
        let mut choice = Members::open(body.key("tool_choice"));
        choice.field("type", name);
        if let Self::Tool(tool) = self {
            choice.field("name", tool);
        }
        choice.close();
    }
}

fn choice<'r>(
    request: &'r StreamConfig,
    format: &'r format::Format<'r>,
    facts: Option<&ModelFacts>,
) -> Result<Choice<'r>, ProviderError> {
    let none = request.tools.is_empty();
    let choice = match (&request.tool_choice, format) {
        (ToolChoice::Tool(name), _) if !none => Choice::Tool(name),
        (ToolChoice::Auto | ToolChoice::Required, format::Format::Tool { .. }) if !none => Choice::Any,
        (_, format::Format::Tool { name, .. }) => Choice::Tool(name),
        (ToolChoice::Required, _) if !none => Choice::Any,
        (ToolChoice::None, _) if !none => Choice::Never,
        (ToolChoice::Required | ToolChoice::Tool(_), _) => {
            let message = "the request demands a tool call and names no tools";
            let advice = "give it tools, or leave the choice to the model";
            return Err(refuse(&request.model, ErrorKind::Other, message, advice));
        }
        _ => Choice::Auto,
    };
    if choice.is_forced() && facts.is_some_and(|f| !f.forced_tools) {
        let message = "this model does not take a demand for a tool call";
        let advice = "leave the choice to the model and say in the prompt which tool to call";
        return Err(refuse(&request.model, ErrorKind::Other, message, advice));
    }
    Ok(choice)
}

fn write_output_config(body: &mut Members<'_>, effort: Option<&str>, format: &format::Format<'_>) {
    let schema = match format {
        format::Format::Native(schema) => Some(schema),
        format::Format::Free | format::Format::Tool { .. } => None,
    };
    if effort.is_none() && schema.is_none() {
        return;
    }
    let mut config = Members::open(body.key("output_config"));
    if let Some(effort) = effort {
        config.field("effort", effort);
    }
    if let Some(schema) = schema {
        let mut format = Members::open(config.key("format"));
        format.field("type", "json_schema").field("schema", schema);
        format.close();
    }
    config.close();
}

/// The tools do not depend on the model, so all models of this protocol share their encoded form.
fn write_tools(out: &mut Vec<u8>, request: &StreamConfig, format: &format::Format<'_>, marked: bool) {
    out.push(b'[');
    let key = WireKey::new(&[request.model.api.as_str(), "tools"]);
    let start = out.len();
    let last = request.tools.wire().with(
        key,
        || encode_tools(request.tools.definitions()),
        |encoded| {
            out.extend_from_slice(encoded.bytes());
            encoded.marks().last().map(|m| start + *m as usize)
        },
    );
    if let Some(at) = last.filter(|_| marked) {
        out.splice(at..at, MARKER.iter().copied());
    }
    if let format::Format::Tool { name, schema, description } = format {
        if out.len() > start {
            out.push(b',');
        }
        declaration::write(out, name, description, SCHEMA, schema);
    }
    out.push(b']');
}

fn encode_tools(definitions: &[ToolDefinition]) -> Encoded {
    let mut out = Vec::new();
    for definition in definitions {
        if !out.is_empty() {
            out.push(b',');
        }
        declaration::write(
            &mut out,
            &definition.name,
            &definition.description,
            SCHEMA,
            &definition.parameters,
        );
    }
    let mark = u32::try_from(out.len().saturating_sub(1)).ok().filter(|_| !out.is_empty());
    Encoded::new(out, mark.into_iter().collect::<Vec<u32>>())
}
