//! Encodes the body of a request. The members always have the same order.
//!
//! Members that do not change during a run come first and the messages last, so that a request begins with the bytes of
//! the previous one. Closed units of history and the tools are encoded once and cached; cache markers are inserted
//! afterwards at recorded offsets, so the cached bytes contain none.

mod messages;

#[cfg(test)]
mod tests;

use agent_core::model::{CacheChanges, PrewarmError};
use agent_core::{
    ApiProtocol, CacheDiagnostics, Encoded, ModelRequest, ProviderError, TOOL_SEARCH, ToolDefinitions,
    ToolLoading, ToolSearchForm, WireKey,
};

use super::config::{controls_binding, is_first_party, is_vendor};
use super::server_tools::Plan;
use super::version::{self, Refused};
use super::{extras, search};
use crate::cache::{self, Lifetimes, marker};
use crate::catalogue::{self, ModelFacts};
use crate::claude::changes::{Changed, takes_system_messages};
use crate::claude::choice::{Choice, choose};
use crate::claude::format::{self, Native};
use crate::claude::limit;
use crate::claude::thinking;
use crate::claude::writer::IDS;
use crate::handoff::Handoff;
use crate::json::{self, Members};
use crate::server_tools::{self, has_tools};
use crate::tool_schema;
use crate::vendor_context;

/// The member of a tool that contains its schema.
const SCHEMA: &str = "input_schema";

/// Returns the lifetimes of what a request caches.
pub(crate) fn lifetimes(request: &ModelRequest) -> Lifetimes {
    Lifetimes::of(&request.options.cache_config, cache::OF_CLAUDE)
}

/// Where a request names its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// In the body. A header names the version of the API.
    InBody,
    /// In the URL. The body names this version of the API.
    #[cfg_attr(not(feature = "vertex"), allow(dead_code, reason = "only Vertex AI has the model in the URL"))]
    InUrl(&'static str),
}

/// Writes the body.
///
/// # Errors
/// Returns an error if the protocol cannot express the request.
pub(crate) fn body(request: &ModelRequest, named: Named) -> Result<Vec<u8>, ProviderError> {
    server_tools::check(request)?;
    let facts = catalogue::find(&request.model.provider, &request.model.id);
    let format = format::choose(request, facts, native(request, facts))?;
    let choice = choose(request, &format, facts)?;
    let most = limit::required(&request.model);
    let plan = thinking::plan(request, facts, Some(most), choice.is_forced(), controls_binding(request));
    let config = &request.options.cache_config;
    let caching = request.model.prompt_cache;
    let prewarms = cache::prewarms(request);
    if prewarms {
        check_prewarm(request, named, &format, &choice)?;
    }
    let changed = changed(request);
    // From here on the request with which the conversation began; only its system prompt and its tools may differ.
    let request = changed.as_ref().map_or(request, |changed| &*changed.first);
    let marked = |marks: bool, ttl| (caching && marks).then(|| marker(ttl));
    let ttl = lifetimes(request);

    let mut out = crate::request::body_buffer(request);
    let mut body = Members::open(&mut out);
    match named {
        Named::InBody => body.field("model", &request.model.id),
        Named::InUrl(version) => body.field("anthropic_version", version),
    };
    let max_tokens = if prewarms { 0 } else { plan.max_tokens.unwrap_or(most) };
    body.field("max_tokens", &max_tokens).field("stream", &!prewarms);
    let sampling = plan.takes_temperature && !version::refuses(&request.model, Refused::Sampling);
    if let Some(temperature) = request.options.temperature.filter(|t| t.is_finite() && sampling) {
        body.field("temperature", &temperature);
    }
    if !(prewarms && plan.has_budget()) {
        plan.write(&mut body);
    }
    write_output_config(&mut body, plan.effort, &format);
    write_choice(&choice, &mut body);
    let stops: Vec<&String> =
        request.options.stop_sequences.iter().filter(|s| !s.trim().is_empty()).collect();
    if !stops.is_empty() {
        body.field("stop_sequences", &stops);
    }
    if has_tools(request) || matches!(format, format::Format::Tool { .. }) {
        write_tools(body.key("tools"), request, &format, marked(config.marks_tools(), ttl.prefix));
    }
    if !request.system_prompt.trim().is_empty() {
        let out = body.key("system");
        out.extend_from_slice(br#"[{"type":"text","text":"#);
        json::write(out, &*request.system_prompt);
        out.extend_from_slice(marked(config.marks_system(), ttl.prefix).unwrap_or_default());
        out.extend_from_slice(b"}]");
    }
    super::server_tools::write_servers(&mut body, request);
    if let Some(container) = container(request) {
        body.field("container", &container);
    }
    if config.diagnostics == CacheDiagnostics::On && caching && is_first_party(&request.model) {
        write_diagnostics(&mut body, request);
    }
    vendor_context::write_edits(&mut body, request);
    let changes = changed.as_ref().map_or(&[][..], |changed| &changed.changes);
    messages::write(body.key("messages"), request, changes, marked(config.marks_messages(), ttl.messages));
    body.close();
    Ok(out)
}

/// Returns the changed instructions that a request appends. Vertex AI and other hosts name their models in the same way, but
/// only the vendor's own API documents tools that are defined within a conversation.
pub(super) fn changed(request: &ModelRequest) -> Option<Changed<'_>> {
    let config = &request.options.cache_config;
    if config.changes != CacheChanges::Append
        || request.model.api != ApiProtocol::AnthropicMessages
        || !takes_system_messages(&request.model.id)
    {
        return None;
    }
    let plan = Plan::of(request);
    Changed::of(request, |first, change| {
        let mut names = change.added.iter().map(|tool| tool.name).chain(change.removed.iter().copied());
        !change.has_tools() || (first.tools().next().is_some() && !names.any(|name| plan.replaces(name)))
    })
}

/// Checks that a request can fill the cache without a reply.
///
/// # Errors
/// Returns an error whose source is a [`PrewarmError`] if the API refuses the combination.
fn check_prewarm(
    request: &ModelRequest,
    named: Named,
    format: &format::Format<'_>,
    choice: &Choice<'_>,
) -> Result<(), ProviderError> {
    let config = &request.options.cache_config;
    let marks = config.marks_tools() || config.marks_system() || config.marks_messages();
    let error = match (named, format) {
        // The endpoint of Vertex AI only streams, which excludes such a request.
        (Named::InUrl(_), _) => PrewarmError::Protocol { protocol: request.model.api },
        (_, format::Format::Native(_) | format::Format::Tool { .. }) => {
            PrewarmError::Setting { name: "response_format" }
        }
        _ if choice.is_forced() => PrewarmError::Setting { name: "tool_choice" },
        _ if request.options.vendor_context.is_some() => PrewarmError::Setting { name: "vendor_context" },
        _ if !request.model.prompt_cache || !marks => PrewarmError::Model,
        _ => return Ok(()),
    };
    Err(cache::not_prewarmed(request, error))
}

/// Returns the container of the last reply, or the one that the caller named.
fn container(request: &ModelRequest) -> Option<String> {
    let of_reply = extras::container(request, &Handoff::new(request, IDS));
    of_reply.or_else(|| super::server_tools::container(request).map(str::to_owned))
}

/// Asks the vendor to compare the prompt with that of the last reply. Without an id, a later request can name this one.
fn write_diagnostics(body: &mut Members<'_>, request: &ModelRequest) {
    let id = Handoff::new(request, IDS).last_response_id();
    let mut member = Members::open(body.key("diagnostics"));
    member.field("previous_message_id", &id.filter(|id| id.starts_with("msg_")));
    member.close();
}

fn write_choice(choice: &Choice<'_>, body: &mut Members<'_>) {
    let name = match choice {
        Choice::Auto => return,
        Choice::Never => "none",
        Choice::Any => "any",
        Choice::Tool(_) => "tool",
    };
    let mut member = Members::open(body.key("tool_choice"));
    member.field("type", name);
    if let Choice::Tool(tool) = choice {
        member.field("name", tool);
    }
    member.close();
}

/// Returns whether the API can enforce a schema for the model. A model of the vendor that the catalogue lacks is probably
/// new, and the vendor's new models support it.
fn native(request: &ModelRequest, facts: Option<&ModelFacts>) -> Native {
    Native::of(facts, is_vendor(&request.model))
}

/// Returns the name of the tool whose arguments are the answer, if this request has one.
pub(super) fn response_tool(request: &ModelRequest) -> Option<String> {
    let facts = catalogue::find(&request.model.provider, &request.model.id);
    format::response_tool(request, native(request, facts))
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
fn write_tools(
    out: &mut Vec<u8>,
    request: &ModelRequest,
    format: &format::Format<'_>,
    marker: Option<&'static [u8]>,
) {
    out.push(b'[');
    let start = out.len();
    let plan = Plan::of(request);
    plan.write(out);
    let of_vendor = (out.len() > start).then(|| out.len().saturating_sub(1));
    let key = plan.key(WireKey::new(&[request.model.api.as_str(), "tools"]));
    let last = request.tools.wire().with(
        key,
        || encode_tools(&request.tools, &plan),
        |encoded| {
            if out.len() > start && !encoded.bytes().is_empty() {
                out.push(b',');
            }
            let base = out.len();
            out.extend_from_slice(encoded.bytes());
            encoded.marks().last().map(|m| base + *m as usize)
        },
    );
    let last = last.or(of_vendor);
    if let Some((at, marker)) = last.zip(marker) {
        out.splice(at..at, marker.iter().copied());
    }
    if let format::Format::Tool { name, schema, description } = format {
        if out.len() > start {
            out.push(b',');
        }
        tool_schema::write_declaration(out, name, description, SCHEMA, schema);
    }
    out.push(b']');
}

fn encode_tools(tools: &ToolDefinitions, plan: &Plan<'_>) -> Encoded {
    let mut out = Vec::new();
    // A cached prefix ends with the last tool that the model sees; a deferred one cannot have a marker.
    let mut shown = 0;
    for definition in tools.definitions().iter().filter(|definition| !plan.replaces(&definition.name)) {
        let searches = tools.search() == ToolSearchForm::Vendor && definition.name == TOOL_SEARCH;
        if searches && plan.searches() {
            continue;
        }
        if !out.is_empty() {
            out.push(b',');
        }
        if searches {
            search::write_tool(&mut out);
        } else {
            tool_schema::write_declaration(
                &mut out,
                &definition.name,
                &definition.description,
                SCHEMA,
                &definition.parameters,
            );
            plan.write_callers(&mut out, definition.callers);
        }
        if definition.loading == ToolLoading::Deferred {
            out.pop();
            out.extend_from_slice(br#","defer_loading":true}"#);
        } else {
            shown = out.len();
        }
    }
    let mark = u32::try_from(shown.saturating_sub(1)).ok().filter(|_| shown > 0);
    Encoded::new(out, mark.into_iter().collect::<Vec<u32>>())
}
