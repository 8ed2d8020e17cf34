//! A request as a cassette holds it: what the model sees, without keys, times and whatever else it does not.

use serde_json::{Map, Value, json};

use agent_core::ModelRequest;
use agent_core::{Encoded, WireKey};
use agent_core::{ResponseFormat, ThinkingLevel, ToolChoice};
use agent_core::{Unit, UnitKind};

/// Fields of a message that no model sees.
const NOT_SEEN: [&str; 4] = ["timestamp", "durationMs", "usage", "details"];

/// Everything but the messages, as one line of JSON. What is as usual is left out: an option that a later version adds is
/// no difference to a cassette that does not know it.
pub(super) fn setup(request: &ModelRequest) -> String {
    let mut said = Map::new();
    let mut say = |name: &str, value: Value| {
        said.insert(name.to_owned(), value);
    };
    say("provider", json!(request.model.provider));
    say("model", json!(request.model.id));
    say("systemPrompt", json!(&*request.system_prompt));
    say("tools", json!(request.tools.definitions()));
    if request.options.thinking_level != ThinkingLevel::Off {
        say("thinkingLevel", json!(request.options.thinking_level));
        say("thinkingBudgets", json!(request.options.thinking_budgets));
    }
    if let Some(tokens) = request.options.max_tokens {
        say("maxTokens", json!(tokens));
    }
    if let Some(temperature) = request.options.temperature {
        say("temperature", json!(temperature));
    }
    if request.options.tool_choice != ToolChoice::Auto {
        say("toolChoice", json!(request.options.tool_choice));
    }
    if request.options.response_format != ResponseFormat::Text {
        say("responseFormat", json!(request.options.response_format));
    }
    if !request.options.stop_sequences.is_empty() {
        say("stopSequences", json!(request.options.stop_sequences));
    }
    Value::from(said).to_string()
}

/// Calls `see` with each message of the request as one line of JSON. Each is made once and kept beside it.
pub(super) fn each_message(request: &ModelRequest, mut see: impl FnMut(&str)) {
    let key = WireKey::new(&["recording"]);
    for unit in request.history.units().filter(|unit| unit.kind() != UnitKind::Failed) {
        unit.wire().with(
            key,
            || Encoded::new(lines(unit).into_bytes(), Vec::new()),
            |encoded| {
                // JSON has no line end inside a text.
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
