//! Counts the citations of a recorded response, independently of the decoders: the manifest does not list them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::compare::Difference;
use super::play::{Found, FoundEnd};

/// Compares the number of citations of a complete reply with the number in the body.
pub(super) fn difference(protocol: &str, body: &[u8], found: &Found) -> Option<Difference> {
    if !matches!(found.end, FoundEnd::Complete(..)) {
        return None;
    }
    let wanted = recorded(protocol, body)?;
    (wanted != found.citations).then(|| Difference {
        field: "citations".to_owned(),
        wanted: wanted.to_string(),
        found: found.citations.to_string(),
    })
}

/// Returns the number of citations in a body, or `None` for a protocol without JSON text and for a reply without text.
fn recorded(protocol: &str, body: &[u8]) -> Option<usize> {
    let values = values(std::str::from_utf8(body).ok()?);
    match protocol {
        "anthropic" => Some(values.iter().map(anthropic).sum()),
        "openai-responses" | "azure-responses" => Some(responses(&values)),
        "openai-chat" => Some(chat(&values)),
        "gemini" | "vertex" => Some(gemini(&values)),
        _ => None,
    }
}

/// Returns the JSON values of a body: one, a list, or one for each `data` line.
fn values(body: &str) -> Vec<Value> {
    match serde_json::from_str(body) {
        Ok(Value::Array(list)) => return list,
        Ok(value) => return vec![value],
        Err(_) => {}
    }
    let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect()
}

fn items<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn anthropic(event: &Value) -> usize {
    let of_block = |block: &Value| if block["type"] == "text" { items(block, "/citations").len() } else { 0 };
    usize::from(event.pointer("/delta/type").is_some_and(|kind| kind == "citations_delta"))
        + event.get("content_block").map_or(0, of_block)
        + items(event, "/content").iter().map(of_block).sum::<usize>()
}

fn responses(values: &[Value]) -> usize {
    let of_item = |item: &Value| -> usize {
        items(item, "/content").iter().map(|part| items(part, "/annotations").len()).sum()
    };
    let done = values.iter().filter(|event| event["type"] == "response.output_item.done");
    let streamed: usize = done.filter_map(|event| event.get("item")).map(of_item).sum();
    let whole = values.iter().filter(|value| value["object"] == "response");
    let whole: usize = whole.flat_map(|reply| items(reply, "/output")).map(of_item).sum();
    streamed + whole
}

fn chat(values: &[Value]) -> usize {
    let mut annotations = BTreeSet::new();
    let (mut pages, mut addresses) = (0, 0);
    for value in values {
        for place in ["/choices/0/delta/annotations", "/choices/0/message/annotations"] {
            annotations.extend(items(value, place).iter().map(Value::to_string));
        }
        pages = Some(items(value, "/search_results").len()).filter(|n| *n > 0).unwrap_or(pages);
        addresses = Some(items(value, "/citations").len()).filter(|n| *n > 0).unwrap_or(addresses);
    }
    annotations.len() + if pages > 0 { pages } else { addresses }
}

fn gemini(values: &[Value]) -> usize {
    let mut seen = BTreeSet::new();
    let mut count = 0;
    for metadata in values.iter().filter_map(|chunk| chunk.pointer("/candidates/0/groundingMetadata")) {
        if seen.insert(metadata.to_string()) {
            let sources = items(metadata, "/groundingChunks").len();
            let supports = items(metadata, "/groundingSupports").iter();
            let numbers = supports.flat_map(|support| items(support, "/groundingChunkIndices"));
            count += numbers.filter_map(Value::as_u64).filter(|n| (*n as usize) < sources).count();
        }
    }
    for metadata in values.iter().filter_map(|chunk| chunk.pointer("/candidates/0/citationMetadata")) {
        if seen.insert(metadata.to_string()) {
            count += items(metadata, "/citationSources").len() + items(metadata, "/citations").len();
        }
    }
    count
}

#[cfg(test)]
mod tests;
