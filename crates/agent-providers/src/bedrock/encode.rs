//! Encodes the body of a request. The members always have the same order.
//!
//! Members that do not change during a run come first and the messages last, so that a request begins with the bytes of
//! the previous one. Closed units of history and the tools are encoded once and cached; cache points are inserted
//! afterwards at recorded offsets, so the cached bytes contain none.

mod fields;
mod files;
mod messages;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use agent_core::model::CacheChanges;
use agent_core::model::ServerTool;
use agent_core::provider::RecordedTool;
use agent_core::{
    CacheTtl, Content, Encoded, ErrorKind, ModelRequest, ProviderError, ResponseFormat, ToolDefinition,
    WireKey,
};
use serde_json::{Value, json};

use super::family::Family;
use crate::cache::Lifetimes;
use crate::catalogue::{self, ModelFacts};
use crate::claude::changes::{Changed, takes_system_messages};
use crate::claude::choice::{Choice, choose};
use crate::claude::format::{self, Format, Native};
use crate::claude::thinking;
use crate::handoff::{self, Handoff};
use crate::json::{self, Members};
use crate::request::refuse;
use crate::server_tools::{self, has_tools};
use crate::tool_schema::declared;

/// Returns the block that ends a cacheable prefix. It follows the last block of the prefix.
fn cache_point(ttl: CacheTtl) -> &'static [u8] {
    match ttl {
        CacheTtl::OneHour => br#",{"cachePoint":{"type":"default","ttl":"1h"}}"#,
        _ => br#",{"cachePoint":{"type":"default"}}"#,
    }
}

/// Returns the cache points that a request may have: of its tools, its system prompt and its messages, with their lifetimes.
pub(super) fn lifetimes(request: &ModelRequest) -> Option<Lifetimes> {
    let model = &*request.model;
    let family = Family::of(model);
    let caching = model.prompt_cache && family.caches(model);
    caching.then(|| Lifetimes::of(&request.options.cache_config, family.lifetimes()))
}

/// The description of a tool that the conversation contains but the request no longer offers.
const GONE: &str = "This tool can no longer be called.";

/// Writes the body.
///
/// # Errors
/// Returns an error if the protocol cannot express the request.
pub(super) fn body(request: &ModelRequest) -> Result<Vec<u8>, ProviderError> {
    server_tools::check(request)?;
    crate::cache::refuse_prewarm(request)?;
    let model = &*request.model;
    let family = Family::of(model);
    let facts = catalogue::find(&model.provider, &model.id);
    let format = format::choose(request, facts, native(facts))?;
    let choice = choose(request, &format, facts)?;
    let plan = thinking::plan(request, facts, model.max_tokens, choice.is_forced(), false);
    let changed = changed(request);
    // From here on the request with which the conversation began; only its system prompt and its tools may differ.
    let request = changed.as_ref().map_or(request, |changed| &*changed.first);
    let config = &request.options.cache_config;
    let ttl = lifetimes(request);
    let prefix = ttl.map(|ttl| cache_point(ttl.prefix));
    let fields = fields::plan(request, family, &plan);

    let mut out = crate::request::body_buffer(request);
    let mut body = Members::open(&mut out);
    write_inference(&mut body, request, &fields, &plan);
    fields.write(&mut body, &plan);
    let stops = stop_sequences(request);
    if family == Family::Claude && !stops.is_empty() {
        // Without this member the reply does not name the matched stop sequence.
        body.field("additionalModelResponseFieldPaths", &["/stop_sequence"]);
    }
    write_format(&mut body, request, &format);
    let of_tools = prefix.filter(|_| config.marks_tools() && family.caches_tools(model));
    write_tools(&mut body, request, &format, &choice, of_tools)?;
    if !request.system_prompt.trim().is_empty() {
        let out = body.key("system");
        out.extend_from_slice(br#"[{"text":"#);
        json::write(out, &*request.system_prompt);
        out.push(b'}');
        out.extend_from_slice(prefix.filter(|_| config.marks_system()).unwrap_or_default());
        out.push(b']');
    }
    messages::write(
        body.key("messages"),
        request,
        changed.as_ref().map_or(&[], |changed| &changed.changes),
        family,
        ttl.filter(|_| config.marks_messages()).map(|ttl| cache_point(ttl.messages)),
    );
    body.close();
    Ok(out)
}

/// Returns the changed instructions that a request appends. The API has no definitions of tools within a conversation: a tool
/// can only be removed, and added again as it was defined at the beginning.
fn changed(request: &ModelRequest) -> Option<Changed<'_>> {
    let config = &request.options.cache_config;
    if config.changes != CacheChanges::Append || !takes_system_messages(&request.model.id) {
        return None;
    }
    let forbidden = request.options.tool_choice == agent_core::ToolChoice::None;
    Changed::of(request, |first, change| {
        let is_defined = |tool: &RecordedTool<'_>| first.tools().any(|known| known == *tool);
        !forbidden && change.added.iter().all(is_defined)
    })
}

/// Returns whether the API can enforce a schema for the model. Models without an entry in the catalogue use the tool that
/// carries the answer, which every model with tools supports.
fn native(facts: Option<&ModelFacts>) -> Native {
    Native::of(facts, false)
}

/// Returns the name of the tool whose arguments are the answer, if this request has one.
pub(super) fn response_tool(request: &ModelRequest) -> Option<String> {
    format::response_tool(request, native(catalogue::find(&request.model.provider, &request.model.id)))
}

fn stop_sequences(request: &ModelRequest) -> Vec<&String> {
    request.options.stop_sequences.iter().filter(|s| !s.trim().is_empty()).collect()
}

fn write_inference(
    body: &mut Members<'_>,
    request: &ModelRequest,
    fields: &fields::Fields,
    plan: &thinking::Plan,
) {
    let mut config = Members::open(body.key("inferenceConfig"));
    if let Some(limit) = fields.max_tokens(request, plan) {
        config.field("maxTokens", &limit);
    }
    if let Some(temperature) =
        request.options.temperature.filter(|t| t.is_finite() && fields.takes_temperature(plan))
    {
        config.field("temperature", &temperature);
    }
    let stops = stop_sequences(request);
    if !stops.is_empty() {
        config.field("stopSequences", &stops);
    }
    config.close();
}

fn write_format(body: &mut Members<'_>, request: &ModelRequest, format: &Format<'_>) {
    let Format::Native(schema) = format else { return };
    let mut config = Members::open(body.key("outputConfig"));
    let mut text = Members::open(config.key("textFormat"));
    text.field("type", "json_schema");
    let mut structure = Members::open(text.key("structure"));
    let mut definition = Members::open(structure.key("jsonSchema"));
    if let ResponseFormat::JsonSchema { name, .. } = &request.options.response_format
        && !name.is_empty()
    {
        definition.field("name", name);
    }
    // The API expects the schema as a JSON string.
    definition.field("schema", &schema.to_string());
    definition.close();
    structure.close();
    text.close();
    config.close();
}

fn write_tools(
    body: &mut Members<'_>,
    request: &ModelRequest,
    format: &Format<'_>,
    choice: &Choice<'_>,
    cache_point: Option<&'static [u8]>,
) -> Result<(), ProviderError> {
    let called = called(request);
    if *choice == Choice::Never && called.is_empty() {
        // The API cannot forbid calls, but without tools none is possible.
        return Ok(());
    }
    if *choice == Choice::Never {
        let message = "Bedrock cannot forbid calls in a conversation that holds calls already";
        let advice = "leave the choice to the model";
        return Err(refuse(&request.model, ErrorKind::Other, message, advice));
    }
    let by_tool = matches!(format, Format::Tool { .. });
    if !has_tools(request) && !by_tool && called.is_empty() {
        return Ok(());
    }
    if let Some(bad) = request.tools.definitions().iter().find(|d| !is_name(&d.name)) {
        let message = format!("Bedrock does not take a tool of the name {:?}", bad.name);
        let advice = "use letters, digits, _ and -, at most 64 of them";
        return Err(refuse(&request.model, ErrorKind::Other, &message, advice));
    }
    let mut config = Members::open(body.key("toolConfig"));
    write_list(config.key("tools"), request, format, &called, cache_point);
    write_choice(&mut config, choice);
    config.close();
    Ok(())
}

/// Returns the names of the tools that were called in the conversation if the request has no tools, because the API
/// requires tools in every conversation with calls. The calls of Amazon's own tools, which go back to their model, count.
fn called(request: &ModelRequest) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let none = request.tools.is_empty() || request.options.tool_choice == agent_core::ToolChoice::None;
    if !none {
        return names;
    }
    for unit in request.history.units().filter(|u| Handoff::shows(u)) {
        for content in unit.reply().into_iter().flat_map(|reply| &reply.content) {
            match content {
                Content::ToolCall(call) => _ = names.insert(handoff::tool_name(call.name.as_str())),
                Content::Opaque(block) if !has_tools(request) => {
                    let own = unit.reply().is_some_and(|reply| reply.is_by(&request.model));
                    let name = block.data.get("toolUse").and_then(|call| call.get("name")?.as_str());
                    names.extend(name.filter(|_| own).map(handoff::tool_name));
                }
                _ => {}
            }
        }
    }
    names
}

/// The tools depend only on the model's family, so all models of one share their encoded form.
fn write_list(
    out: &mut Vec<u8>,
    request: &ModelRequest,
    format: &Format<'_>,
    called: &BTreeSet<String>,
    cache_point: Option<&'static [u8]>,
) {
    out.push(b'[');
    let start = out.len();
    let family = Family::of(&request.model);
    let root = if family == Family::Nova { "tools of three members" } else { "tools" };
    let key = WireKey::new(&[request.model.api.as_str(), root]);
    request.tools.wire().with(
        key,
        || encode_tools(request.tools.definitions(), family),
        |encoded| out.extend_from_slice(encoded.bytes()),
    );
    if out.len() > start {
        out.extend_from_slice(cache_point.unwrap_or_default());
    }
    write_server_tools(out, request);
    for name in called.iter().filter(|_| request.tools.is_empty()) {
        write_tool(out, name, GONE, &Value::Null, family);
    }
    if let Format::Tool { name, schema, description } = format {
        write_tool(out, name, description, schema, family);
    }
    out.push(b']');
}

/// Writes the tools that Amazon defines for its models.
fn write_server_tools(out: &mut Vec<u8>, request: &ModelRequest) {
    for tool in &request.options.server_tools {
        let definition = match tool {
            ServerTool::WebSearch(_) => json!({"systemTool": {"name": "nova_grounding"}}),
            ServerTool::CodeExecution(_) => json!({"systemTool": {"name": "nova_code_interpreter"}}),
            ServerTool::Vendor(definition) => definition.clone(),
            _ => continue,
        };
        if out.last() == Some(&b'}') {
            out.push(b',');
        }
        json::write(out, &definition);
    }
}

fn encode_tools(definitions: &[ToolDefinition], family: Family) -> Encoded {
    let mut out = Vec::new();
    for definition in definitions {
        write_tool(&mut out, &definition.name, &definition.description, &definition.parameters, family);
    }
    Encoded::new(out, [])
}

/// Writes a tool, preceded by a comma unless it is the first.
fn write_tool(out: &mut Vec<u8>, name: &str, description: &str, parameters: &Value, family: Family) {
    if out.last() == Some(&b'}') {
        out.push(b',');
    }
    let mut tool = Members::open(out);
    let mut spec = Members::open(tool.key("toolSpec"));
    spec.field("name", name);
    if !description.trim().is_empty() {
        spec.field("description", description);
    }
    let mut input = Members::open(spec.key("inputSchema"));
    let mut schema = declared(parameters);
    if family == Family::Nova
        && let Some(members) = schema.as_object_mut()
    {
        // Nova accepts only these three members at the root.
        members.retain(|key, _| matches!(key.as_str(), "type" | "properties" | "required"));
    }
    input.field("json", &schema);
    input.close();
    spec.close();
    tool.close();
}

fn write_choice(config: &mut Members<'_>, choice: &Choice<'_>) {
    match choice {
        Choice::Auto | Choice::Never => {}
        Choice::Any => config.key("toolChoice").extend_from_slice(br#"{"any":{}}"#),
        Choice::Tool(name) => {
            let mut choice = Members::open(config.key("toolChoice"));
            let mut tool = Members::open(choice.key("tool"));
            tool.field("name", name);
            tool.close();
            choice.close();
        }
    }
}

/// Returns whether a name matches `[a-zA-Z0-9_-]{1,64}`.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}
