//! The `api.json` of models.dev: `{"anthropic": {"models": {"claude-...": {"limit", "cost", "modalities"}}}}`.

use serde_json::{Map, Value, json};

use super::{Entry, differs, name};

/// Where the facts come from.
const SOURCE: &str = "https://models.dev/api.json";

/// Providers that go by another name there.
const NAMES: &[(&str, &str)] = &[
    ("bedrock", "amazon-bedrock"),
    ("google_vertex", "google-vertex"),
    ("together", "togetherai"),
    ("fireworks", "fireworks-ai"),
    ("moonshot", "moonshotai"),
];

/// Takes window, limit, pictures and prices of the models that we have.
pub(super) fn take(
    entries: &mut [Entry],
    providers: &Map<String, Value>,
    day: &str,
    changes: &mut Vec<String>,
) {
    for entry in entries {
        let Some(model) = find(entry, providers) else { continue };
        let name = name(entry);
        let before = changes.len();
        for (key, value) in facts(model) {
            set(entry, &name, key, value, changes);
        }
        if let Some(cost) = cost(model, entry.get("cost")) {
            set(entry, &name, "cost", cost, changes);
        }
        if changes.len() > before {
            entry.insert("asOf".into(), json!(day));
            entry.insert("source".into(), json!(SOURCE));
        }
    }
}

fn find<'m>(entry: &Entry, providers: &'m Map<String, Value>) -> Option<&'m Value> {
    let provider = entry.get("provider")?.as_str()?;
    let theirs = NAMES.iter().find(|(ours, _)| *ours == provider).map_or(provider, |(_, theirs)| theirs);
    providers.get(theirs)?.get("models")?.get(entry.get("id")?.as_str()?)
}

fn facts(model: &Value) -> Vec<(&'static str, Value)> {
    let number =
        |pointer: &str| model.pointer(pointer).filter(|v| v.as_u64().is_some_and(|n| n > 0)).cloned();
    let inputs = model.pointer("/modalities/input").and_then(Value::as_array);
    let images = inputs.map(|list| json!(list.iter().any(|kind| kind == "image")));
    let all = [
        ("contextWindow", number("/limit/context")),
        ("maxTokens", number("/limit/output")),
        ("images", images),
    ];
    all.into_iter().filter_map(|(key, value)| value.map(|v| (key, v))).collect()
}

/// Prices in micro-units; dollars there. What is not said stays as it was.
fn cost(model: &Value, old: Option<&Value>) -> Option<Value> {
    let said = model.get("cost")?.as_object()?;
    let mut cost = old.and_then(Value::as_object).cloned().unwrap_or_default();
    for (ours, theirs) in
        [("input", "input"), ("output", "output"), ("cacheRead", "cache_read"), ("cacheWrite", "cache_write")]
    {
        if let Some(micro) = said.get(theirs).and_then(micro) {
            cost.insert(ours.into(), json!(micro));
        } else {
            cost.entry(ours).or_insert(json!(0));
        }
    }
    Some(Value::Object(cost))
}

/// Dollars as whole micro-dollars, from the digits: a float would lose some.
fn micro(dollars: &Value) -> Option<u64> {
    let text = dollars.as_number()?.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let digits: String = part.chars().chain("000000".chars()).take(6).collect();
    if part.len() > 6 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(digits.parse().ok()?)
}

fn set(entry: &mut Entry, name: &str, key: &str, value: Value, changes: &mut Vec<String>) {
    if entry.get(key) != Some(&value) {
        changes.push(differs(name, key, entry.get(key), &value));
        entry.insert(key.to_owned(), value);
    }
}
