//! All settings of a request except the conversation and the tools: limits, thinking, format of the reply, caching.

use agent_core::model::ServerTool;
use agent_core::{ModelRequest, ResponseFormat, ThinkingForm, ThinkingFormat, ThinkingLevel, ToolChoice};
use serde_json::{Value, json};

use super::dialect::Dialect;
use crate::json::Members;
use crate::request::{effort, output_limit, prompt_cache_key};
use crate::server_tools::{Definition, location};

/// The smallest thinking budget that the models behind OpenRouter accept.
const MIN_BUDGET: u32 = 1_024;

/// Returns whether the system prompt has the role `developer`, which only reasoning models accept.
pub(super) fn wants_developer(request: &ModelRequest, dialect: &Dialect) -> bool {
    match request.model.dialect.developer_role {
        Some(set) => set,
        None => dialect.developer_role && request.model.thinking != ThinkingForm::None,
    }
}

pub(super) fn write(members: &mut Members<'_>, request: &ModelRequest, dialect: &Dialect) {
    if dialect.usage_in_stream {
        members.key("stream_options").extend_from_slice(br#"{"include_usage":true}"#);
    }
    if dialect.store {
        members.field("store", &false);
    }
    if let Some(limit) = output_limit(request) {
        members.named(&dialect.max_tokens, &limit);
    }
    let level = request.options.thinking_level.clamp_to(&request.model.thinking_levels);
    let thinks = level != ThinkingLevel::Off && request.model.thinking != ThinkingForm::None;
    if let Some(temperature) = request.options.temperature.filter(|t| t.is_finite() && !thinks) {
        members.field("temperature", &temperature);
    }
    thinking(members, request, dialect, level);
    if !request.options.stop_sequences.is_empty() {
        members.field("stop", &request.options.stop_sequences);
    }
    response_format(members, &request.options.response_format, dialect);
    tool_choice(members, request);
    web_search(members, request);
    if dialect.prompt_cache_key
        && request.options.cache_config.enabled
        && let Some(key) = prompt_cache_key(request)
    {
        members.field("prompt_cache_key", &key);
    }
    if let Some(cache) = super::encode::cache(request) {
        cache.write(members, None);
    }
}

fn thinking(members: &mut Members<'_>, request: &ModelRequest, dialect: &Dialect, level: ThinkingLevel) {
    let form = request.model.thinking;
    if form == ThinkingForm::None {
        return;
    }
    let on = level != ThinkingLevel::Off;
    match dialect.thinking {
        ThinkingFormat::OpenAi if on && dialect.reasoning_effort => {
            members.field("reasoning_effort", effort(&request.model, level));
        }
        ThinkingFormat::OpenRouter if on => {
            let budget =
                request.options.thinking_budgets.for_level(level).filter(|_| form == ThinkingForm::Budget);
            match budget {
                Some(budget) => members.field("reasoning", &json!({"max_tokens": budget.max(MIN_BUDGET)})),
                None => members.field("reasoning", &json!({"effort": effort(&request.model, level)})),
            };
        }
        ThinkingFormat::Zai => {
            members.field("thinking", &json!({"type": if on { "enabled" } else { "disabled" }}));
        }
        ThinkingFormat::Qwen => {
            members.field("enable_thinking", &on);
        }
        ThinkingFormat::QwenTemplate => {
            members.field("chat_template_kwargs", &json!({"enable_thinking": on}));
        }
        _ => {}
    }
}

fn response_format(members: &mut Members<'_>, format: &ResponseFormat, dialect: &Dialect) {
    match format {
        ResponseFormat::JsonSchema { .. } if !dialect.json_schema => {
            members.field("response_format", &json!({"type": "json_object"}));
        }
        ResponseFormat::JsonObject => {
            members.field("response_format", &json!({"type": "json_object"}));
        }
        ResponseFormat::JsonSchema { name, schema, strict } => {
            let out = members.key("response_format");
            out.extend_from_slice(br#"{"type":"json_schema","json_schema":"#);
            let mut inner = Members::open(out);
            inner.field("name", name).field("schema", schema).field("strict", strict);
            inner.close();
            out.push(b'}');
        }
        _ => {}
    }
}

/// Writes the options of the vendor's search of the web, the only tool of the vendor that the protocol has.
fn web_search(members: &mut Members<'_>, request: &ModelRequest) {
    let search = request.options.server_tools.iter().find_map(|tool| match tool {
        ServerTool::WebSearch(search) => Some(search),
        _ => None,
    });
    let Some(search) = search else { return };
    let place = search.user_location.as_ref();
    let place = place.map(|place| json!({"type": "approximate", "approximate": location(place).build()}));
    let options = Definition::default()
        .with("search_context_size", search.context.and_then(|context| serde_json::to_value(context).ok()))
        .with("user_location", place);
    members.field("web_search_options", &options.build());
}

/// Returns the definitions in the vendor's own form.
pub(super) fn vendor_tools(request: &ModelRequest) -> impl Iterator<Item = &Value> {
    request.options.server_tools.iter().filter_map(|tool| match tool {
        ServerTool::Vendor(definition) => Some(definition),
        _ => None,
    })
}

/// Writes the definitions in the vendor's own form, separated by commas.
pub(super) fn write_vendor_tools(out: &mut Vec<u8>, request: &ModelRequest) {
    for (at, definition) in vendor_tools(request).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        crate::json::write(out, definition);
    }
}

fn tool_choice(members: &mut Members<'_>, request: &ModelRequest) {
    if request.tools.is_empty() {
        return;
    }
    match &request.options.tool_choice {
        ToolChoice::None => {
            members.field("tool_choice", "none");
        }
        ToolChoice::Required => {
            members.field("tool_choice", "required");
        }
        ToolChoice::Tool(name) => {
            members.field("tool_choice", &json!({"type": "function", "function": {"name": name}}));
        }
        _ => {}
    }
}
