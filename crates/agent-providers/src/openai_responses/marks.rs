//! The data that is stored with an item besides its text, so that it can be sent back unchanged.
//!
//! The vendor gives each item an id and expects the ids again: a reasoning item belongs to the item after it by id. The
//! id and the phase of a message, and the id and the other members of a call, become the signatures of their blocks, as
//! small JSON objects. A reasoning item becomes an opaque block of kind `reasoning`, which contains the item without
//! its texts and its encrypted form, followed by a thinking block for each text. The last one has the encrypted form as
//! its signature.

#[cfg(test)]
mod tests;

use agent_core::ThinkingContent;
use serde_json::{Map, Value};

use super::local_tools::LocalForm;
use super::search;

/// The kind of the opaque block of a reasoning item.
pub(super) const REASONING: &str = "reasoning";

/// The members of a reasoning item that are lists of texts, in the order in which the vendor writes them.
pub(super) const TEXTS: [&str; 2] = ["summary", "content"];

/// The member with the encrypted form of reasoning.
const ENCRYPTED: &str = "encrypted_content";

/// The maximum length of an item id that the API accepts, in bytes.
const MAX_ID: usize = 64;

/// The mark of a message: its name and its phase. `None` when it has neither.
pub(super) fn of_message(id: &str, phase: &str) -> Option<String> {
    let members = [("id", id), ("phase", phase)].into_iter().filter(|(_, value)| !value.is_empty());
    written(members.map(|(key, value)| (key.to_owned(), Value::from(value))).collect())
}

/// The mark of a call: the members of its item except call id, name and arguments. The type is included if it is not
/// the usual one.
pub(super) fn of_call(mut item: Map<String, Value>) -> Option<String> {
    for member in ["call_id", "name", "arguments", "input", "status"] {
        item.remove(member);
    }
    if let Some(form) = item.get("type").and_then(Value::as_str).and_then(LocalForm::of_type) {
        form.retain_members(&mut item);
    }
    if item.get("type").is_some_and(|kind| kind == search::CALL) {
        item.retain(|key, _| matches!(key.as_str(), "type" | "id"));
    }
    item.retain(|key, value| !value.is_null() && (key != "type" || value != "function_call"));
    written(item)
}

fn written(mark: Map<String, Value>) -> Option<String> {
    (!mark.is_empty()).then(|| Value::Object(mark).to_string())
}

/// Parses a mark. Returns nothing if the text is not a mark.
pub(super) fn read(signature: &str) -> Map<String, Value> {
    serde_json::from_str(signature).unwrap_or_default()
}

/// Returns whether the output of a call may come in a later request.
pub(super) fn is_async(mark: &Map<String, Value>) -> bool {
    mark.get("async").is_some_and(|value| *value == Value::Bool(true))
}

/// Returns the id in a mark if the API accepts it.
pub(super) fn id<'m>(mark: &'m Map<String, Value>, prefix: &str) -> Option<&'m str> {
    let id = mark.get("id").and_then(Value::as_str)?;
    (id.starts_with(prefix) && id.len() <= MAX_ID).then_some(id)
}

/// Returns the stored form of a reasoning item whose texts are in these thinking blocks, in this order.
pub(super) fn of_reasoning(mut item: Map<String, Value>, blocks: &[&str]) -> Map<String, Value> {
    item.remove(ENCRYPTED);
    item.retain(|_, value| !value.is_null());
    for list in TEXTS {
        if let Some(Value::Array(parts)) = item.get_mut(list) {
            parts.retain(|part| text(part).is_none_or(|t| !t.is_empty()));
        }
    }
    let said = TEXTS.iter().filter_map(|list| item.get(*list)?.as_array()).flatten();
    if said.map(text).eq(blocks.iter().map(|block| Some(*block))) {
        let lists = item.iter_mut().filter(|(key, _)| TEXTS.contains(&key.as_str()));
        for part in lists.filter_map(|(_, list)| list.as_array_mut()).flatten() {
            if let Some(part) = part.as_object_mut() {
                part.remove("text");
            }
        }
    }
    item
}

fn text(part: &Value) -> Option<&str> {
    part.get("text").and_then(Value::as_str)
}

/// Returns the reasoning item of these blocks. Without `kept` it has no id, which the API accepts. `None` when the
/// blocks are not those of the item.
pub(super) fn reasoning(
    kept: Option<&Map<String, Value>>,
    blocks: &[&ThinkingContent],
) -> Option<Map<String, Value>> {
    let mut texts = blocks.iter().map(|block| block.thinking.as_str()).filter(|text| !text.is_empty());
    let mut item = match kept {
        Some(kept) => kept.clone(),
        None => {
            let part = |text: &str| {
                let members = [("type", "summary_text"), ("text", text)];
                Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), Value::from(v))).collect())
            };
            let summary = Value::Array(texts.by_ref().map(part).collect());
            [("type".to_owned(), Value::from(REASONING)), ("summary".to_owned(), summary)]
                .into_iter()
                .collect()
        }
    };
    for list in TEXTS {
        for part in item.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(part) = part.as_object_mut().filter(|part| !part.contains_key("text")) {
                part.insert("text".to_owned(), Value::from(texts.next()?));
            }
        }
    }
    let encrypted = blocks.last().and_then(|block| block.signature.as_deref()).filter(|s| !s.is_empty());
    if let Some(encrypted) = encrypted {
        item.insert(ENCRYPTED.to_owned(), Value::from(encrypted));
    }
    Some(item)
}

/// Returns whether a reasoning item can be sent to a server that has not stored it. It must contain its encrypted form or,
/// for servers without encryption, its text.
pub(super) fn is_whole(item: &Map<String, Value>, takes_words: TakesWords) -> bool {
    let words = || item.get("content").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    item.contains_key(ENCRYPTED) || (takes_words == TakesWords::Yes && words())
}

/// Whether a server accepts reasoning as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakesWords {
    /// It does.
    Yes,
    /// The server accepts only the encrypted form.
    No,
}
