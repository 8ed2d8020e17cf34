//! Reads the lists of models of the vendors. What a list does not state is unknown.

use agent_core::{CostConfig, ModelConfig, ThinkingForm, ThinkingLevel};
use reqwest::Url;
use serde_json::Value;

use crate::catalogue::{ModelFacts, ThinkingOff};

/// Returns the models of one page. Entries without an id are left out.
pub(super) fn models(model: &ModelConfig, as_of: &str, source: &str, body: &Value) -> Vec<ModelFacts> {
    // Together's list is the array itself.
    let list = body.get("data").or_else(|| body.get("models")).unwrap_or(body).as_array();
    list.into_iter().flatten().filter_map(|entry| facts(model, as_of, source, entry)).collect()
}

/// Returns the address of the following page, if there is one.
pub(super) fn next_page(url: &Url, body: &Value) -> Option<Url> {
    let text = |key: &str| body.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (name, value) = match text("nextPageToken") {
        Some(token) => ("pageToken", token),
        None if body.get("has_more") == Some(&Value::Bool(true)) => ("after_id", text("last_id")?),
        None => return None,
    };
    let mut next = url.clone();
    next.query_pairs_mut().append_pair(name, value);
    Some(next)
}

fn facts(model: &ModelConfig, as_of: &str, source: &str, entry: &Value) -> Option<ModelFacts> {
    let text = |keys: &[&str]| keys.iter().find_map(|key| entry.get(key)?.as_str());
    let number = |pointers: &[&str]| {
        let found = pointers.iter().find_map(|at| entry.pointer(at)?.as_u64().filter(|n| *n > 0));
        found.and_then(|n| u32::try_from(n).ok())
    };
    let id = text(&["id", "name", "model"])?;
    let id = id.strip_prefix("models/").unwrap_or(id);
    let capability = |name: &str| entry.pointer(&format!("/capabilities/{name}/supported"))?.as_bool();
    let (thinking, thinking_levels, takes_budget) = thinking(entry);
    Some(ModelFacts {
        provider: model.provider.clone(),
        id: id.to_owned(),
        name: text(&["display_name", "displayName", "name"]).unwrap_or(id).to_owned(),
        api: model.api,
        context_window: number(&[
            "/max_input_tokens",
            "/inputTokenLimit",
            "/context_window",
            "/context_length",
            "/max_context_length",
            "/max_model_len",
        ]),
        max_tokens: number(&[
            "/max_tokens",
            "/outputTokenLimit",
            "/max_completion_tokens",
            "/top_provider/max_completion_tokens",
        ]),
        images: capability("image_input").or_else(|| modalities(entry)),
        thinking,
        thinking_levels,
        thinking_off: ThinkingOff::Unsaid,
        thinking_budget: takes_budget.unwrap_or(true),
        thinking_bound: false,
        forced_tools: true,
        sampling: true,
        json_schema: capability("structured_outputs"),
        cost: CostConfig::default(),
        as_of: as_of.to_owned(),
        source: source.to_owned(),
    })
}

/// Returns whether a model accepts images, from the input modalities that some servers list.
fn modalities(entry: &Value) -> Option<bool> {
    let list = entry.pointer("/architecture/input_modalities")?.as_array()?;
    Some(list.iter().any(|kind| kind == "image"))
}

/// Returns the form in which requests control the thinking of Claude, the levels of effort, and whether it accepts a budget.
fn thinking(entry: &Value) -> (Option<ThinkingForm>, Vec<ThinkingLevel>, Option<bool>) {
    let flag = |pointer: &str| entry.pointer(pointer).and_then(Value::as_bool);
    let Some(thinks) = flag("/capabilities/thinking/supported") else { return (None, Vec::new(), None) };
    let budget = flag("/capabilities/thinking/types/enabled/supported");
    let form = if !thinks {
        ThinkingForm::None
    } else if flag("/capabilities/thinking/types/adaptive/supported") == Some(true) {
        ThinkingForm::Adaptive
    } else {
        ThinkingForm::Budget
    };
    use ThinkingLevel::{High, Low, Max, Medium, XHigh};
    let supports = |level: &ThinkingLevel| {
        flag(&format!("/capabilities/effort/{}/supported", level.as_str())) == Some(true)
    };
    let levels = [Low, Medium, High, XHigh, Max].into_iter().filter(supports).collect();
    (Some(form), if form == ThinkingForm::Adaptive { levels } else { Vec::new() }, budget)
}
