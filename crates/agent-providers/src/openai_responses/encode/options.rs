//! All settings of a request except the conversation and the tools: limits, thinking, format of the reply, caching.

use agent_core::model::{PrewarmError, ReasoningContext, ReasoningMode, ServerTool};
use agent_core::{
    CacheDiagnostics, CacheTtl, ErrorKind, ModelRequest, ProviderError, ResponseFormat, ThinkingForm,
    ThinkingLevel, ToolChoice,
};
use serde::Serialize;
use serde_json::json;

use super::server_tools;
use crate::cache::{self, OpenAiCache};
use crate::catalogue::{self, ModelFacts, ThinkingOff};
use crate::handoff::{Handoff, IdRule};
use crate::json::Members;
use crate::openai_responses::config::is_vendor;
use crate::openai_responses::local_tools::{LocalForm, is_preview};
use crate::request::{effort, output_limit, prompt_cache_key, refuse};
use crate::server_tools::has_tools;

/// The minimum output limit that the API accepts.
const MIN_OUTPUT: u32 = 16;

/// The `reasoning` member.
#[derive(Default, PartialEq, Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<ReasoningMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<ReasoningContext>,
}

/// Writes them.
///
/// # Errors
/// Returns an error if the protocol cannot express the request.
pub(super) fn write(body: &mut Members<'_>, request: &ModelRequest) -> Result<(), ProviderError> {
    let model = &request.model;
    let facts = facts(request);
    let thinks = model.thinking != ThinkingForm::None
        && facts.is_none_or(|facts| facts.thinking != Some(ThinkingForm::None));
    if request.options.stop_sequences.iter().any(|s| !s.is_empty()) {
        let message = "the Responses API knows no stop sequences";
        return Err(refuse(model, ErrorKind::Other, message, "leave them out, or use Chat Completions"));
    }
    if model.dialect.store != Some(false) {
        body.field("store", &false);
    }
    if thinks {
        // Models that do not think refuse it.
        match server_tools::results(request) {
            [] => body.key("include").extend_from_slice(br#"["reasoning.encrypted_content"]"#),
            results => {
                let mut include = vec!["reasoning.encrypted_content"];
                include.extend(results);
                body.field("include", &include);
            }
        }
    } else if let results @ [_, ..] = server_tools::results(request) {
        body.field("include", results);
    }
    if let Some(limit) = output_limit(request) {
        body.field("max_output_tokens", &limit.max(MIN_OUTPUT));
    }
    let level = request.options.thinking_level.clamp_to(&model.thinking_levels);
    let asked = thinks && level != ThinkingLevel::Off;
    let sampling = facts.is_none_or(|facts| facts.sampling);
    if let Some(temperature) = request.options.temperature.filter(|t| t.is_finite() && !asked && sampling) {
        body.field("temperature", &temperature);
    }
    if thinks {
        let off = facts.is_some_and(|facts| facts.thinking_off == ThinkingOff::Disabled);
        let effort = if asked { Some(effort(model, level)) } else { off.then_some("none") };
        let wanted = &request.options.reasoning;
        let reasoning = Reasoning {
            effort,
            summary: asked.then_some("auto"),
            mode: wanted.mode,
            context: wanted.context,
        };
        if reasoning != Reasoning::default() {
            body.field("reasoning", &reasoning);
        }
    }
    format(body, &request.options.response_format);
    choice(body, request)?;
    let is_computer = |tool: &ServerTool| matches!(tool, ServerTool::ComputerUse(_));
    if is_preview(model) && request.options.server_tools.iter().any(is_computer) {
        // The older tool requires it.
        body.field("truncation", "auto");
    }
    if model.prompt_cache
        && model.dialect.prompt_cache_key != Some(false)
        && request.options.cache_config.enabled
        && let Some(key) = prompt_cache_key(request)
    {
        body.field("prompt_cache_key", &key);
    }
    let cache = cache(request);
    if cache::prewarms(request) && cache.is_none() {
        return Err(cache::not_prewarmed(request, PrewarmError::Model));
    }
    if let Some(cache) = cache {
        let asks = request.options.cache_config.diagnostics == CacheDiagnostics::On;
        let compared = asks.then(|| Handoff::new(request, IdRule::word(64)).last_response_id()).flatten();
        cache.write(body, compared);
    }
    crate::vendor_context::write_threshold(body, request);
    Ok(())
}

/// Returns the options of the prompt cache, where the vendor has them.
pub(crate) fn cache(request: &ModelRequest) -> Option<OpenAiCache> {
    let is_vendor = is_vendor(&request.model);
    OpenAiCache::of(request, &[CacheTtl::ThirtyMinutes, CacheTtl::TwelveHours]).filter(|_| is_vendor)
}

/// Returns the catalogue's facts about the model. A deployment on Azure often has the name of its model.
fn facts(request: &ModelRequest) -> Option<&'static ModelFacts> {
    let model = &request.model;
    let provider = if model.provider.starts_with("azure") { "openai" } else { &model.provider };
    catalogue::find(&model.provider, &model.id).or_else(|| catalogue::find(provider, &model.id))
}

fn format(body: &mut Members<'_>, format: &ResponseFormat) {
    match format {
        ResponseFormat::JsonObject => {
            body.field("text", &json!({"format": {"type": "json_object"}}));
        }
        ResponseFormat::JsonSchema { name, schema, strict } => {
            let out = body.key("text");
            out.extend_from_slice(br#"{"format":"#);
            let mut inner = Members::open(out);
            inner.field("type", "json_schema").field("name", name).field("schema", schema);
            inner.field("strict", strict);
            inner.close();
            out.push(b'}');
        }
        _ => {}
    }
}

fn choice(body: &mut Members<'_>, request: &ModelRequest) -> Result<(), ProviderError> {
    match &request.options.tool_choice {
        ToolChoice::Required | ToolChoice::Tool(_) if !has_tools(request) => {
            let message = "the request demands a tool call and names no tools";
            let advice = "give it tools, or leave the choice to the model";
            return Err(refuse(&request.model, ErrorKind::Other, message, advice));
        }
        ToolChoice::None if has_tools(request) => {
            body.field("tool_choice", "none");
        }
        ToolChoice::Required => {
            body.field("tool_choice", "required");
        }
        ToolChoice::Tool(name) => {
            let mut forms = request.options.server_tools.iter().filter_map(LocalForm::of_tool);
            let choice = match forms.find(|form| form.tool_name() == name.as_str()) {
                Some(form) => json!({"type": form.tool_type(&request.model)}),
                None => json!({"type": "function", "name": name}),
            };
            body.field("tool_choice", &choice);
        }
        _ => {}
    }
    Ok(())
}
