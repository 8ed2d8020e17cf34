//! The form of a request in a cassette: what the model receives, without keys, times and local fields.

use serde_json::{Map, Value, json};

use agent_core::ModelRequest;
use agent_core::{Encoded, WireKey};
use agent_core::{ResponseFormat, ThinkingLevel, ToolChoice};
use agent_core::{Unit, UnitKind};

/// The fields of a message that are not sent to models.
const NOT_SEEN: [&str; 4] = ["timestamp", "durationMs", "usage", "details"];

/// Returns everything except the messages as one line of JSON. Options with default values are left out, so that an option
/// that a later version adds is no difference for an older cassette.
pub(super) fn setup(request: &ModelRequest) -> String {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    add("provider", json!(request.model.provider));
    add("model", json!(request.model.id));
    add("systemPrompt", json!(&*request.system_prompt));
    add("tools", json!(request.tools.definitions()));
    if request.options.thinking_level != ThinkingLevel::Off {
        add("thinkingLevel", json!(request.options.thinking_level));
        add("thinkingBudgets", json!(request.options.thinking_budgets));
    }
    if let Some(tokens) = request.options.max_tokens {
        add("maxTokens", json!(tokens));
    }
    if let Some(temperature) = request.options.temperature {
        add("temperature", json!(temperature));
    }
    if request.options.tool_choice != ToolChoice::Auto {
        add("toolChoice", json!(request.options.tool_choice));
    }
    if request.options.response_format != ResponseFormat::Text {
        add("responseFormat", json!(request.options.response_format));
    }
    if !request.options.stop_sequences.is_empty() {
        add("stopSequences", json!(request.options.stop_sequences));
    }
    if !request.options.server_tools.is_empty() {
        add("serverTools", json!(request.options.server_tools));
    }
    Value::from(fields).to_string()
}

/// Calls `see` with each message of the request as one line of JSON. The encoded form is cached beside its unit.
pub(super) fn each_message(request: &ModelRequest, mut see: impl FnMut(&str)) {
    let key = WireKey::new(&["recording"]);
    for unit in request.history.units().filter(|unit| unit.kind() != UnitKind::Failed) {
        unit.wire().with(
            key,
            || Encoded::new(lines(unit).into_bytes(), Vec::new()),
            |encoded| {
                // Encoded JSON contains no line feeds, so each line is one message.
                String::from_utf8_lossy(encoded.bytes()).lines().for_each(&mut see);
            },
        );
    }
}

fn lines(unit: &Unit) -> String {
    let messages = unit.entries().iter().filter_map(|entry| entry.message().as_llm());
    messages
        .map(|message| seen(serde_json::to_value(message).unwrap_or_default()).to_string() + "\n")
        .collect()
}

fn seen(mut message: Value) -> Value {
    if let Some(fields) = message.as_object_mut() {
        fields.retain(|name, _| !NOT_SEEN.contains(&name.as_str()));
    }
    message
}
