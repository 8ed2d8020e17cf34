//! Converts messages from and to the form of pi.

use agent_core::{AgentMessage, Content, Message, MessageRef, OpaqueContent, ToolCallId};
use serde_json::{Map, Value, json};

use super::entry::text;

/// Converts a message of pi. A message that models do not receive becomes an extension message.
pub(super) fn from_pi(message: &Value) -> AgentMessage {
    let extension = || AgentMessage::extension(format!("pi.{}", text(message, "role")), message.clone());
    match text(message, "role") {
        "user" | "assistant" | "toolResult" => {
            model_message(message).map_or_else(extension, AgentMessage::from)
        }
        "custom" => user(message.get("content"), message.get("timestamp")).unwrap_or_else(extension),
        "bashExecution" if message.get("excludeFromContext") != Some(&Value::Bool(true)) => {
            let text = format!("Ran `{}`\n```\n{}\n```", text(message, "command"), text(message, "output"));
            user(Some(&json!(text)), message.get("timestamp")).unwrap_or_else(extension)
        }
        "branchSummary" | "compactionSummary" => {
            user(message.get("summary"), message.get("timestamp")).unwrap_or_else(extension)
        }
        _ => extension(),
    }
}

/// Creates a user message from content in pi's form; `None` without content.
pub(super) fn user(content: Option<&Value>, timestamp: Option<&Value>) -> Option<AgentMessage> {
    let message =
        json!({ "role": "user", "content": content?, "timestamp": timestamp.and_then(Value::as_u64) });
    model_message(&message).map(AgentMessage::from)
}

fn model_message(message: &Value) -> Option<Message> {
    let theirs = message.as_object()?;
    // The content is converted block by block and is not read again.
    let mut ours: Map<String, Value> =
        theirs.iter().filter(|(key, _)| *key != "content").map(|(k, v)| (k.clone(), v.clone())).collect();
    let content = match theirs.get("content") {
        Some(Value::String(text)) => vec![Content::text(text.clone())],
        Some(Value::Array(blocks)) => blocks.iter().map(block_from_pi).collect(),
        _ => Vec::new(),
    };
    ours.insert("content".to_owned(), Value::Array(Vec::new()));
    if !ours.get("timestamp").is_some_and(Value::is_u64) {
        ours.insert("timestamp".to_owned(), json!(0));
    }
    if text(message, "role") == "assistant" {
        let api = text(message, "api").replace('-', "_");
        ours.insert("api".to_owned(), json!(api));
        let count =
            |key: &str| message.pointer(&format!("/usage/{key}")).and_then(Value::as_u64).unwrap_or(0);
        let usage = json!({
            "input": count("input"), "output": count("output"), "reasoning": count("reasoning"),
            "cache_read": count("cacheRead"), "cache_write": count("cacheWrite"), "total_tokens": count("totalTokens"),
        });
        ours.insert("usage".to_owned(), usage);
        for key in ["provider", "model"] {
            ours.entry(key).or_insert_with(|| json!(""));
        }
        let mut read = serde_json::from_value(Value::Object(ours.clone()));
        if read.is_err() {
            // A protocol that this library does not have.
            ours.insert("api".to_owned(), Value::Null);
            read = serde_json::from_value(Value::Object(ours));
        }
        return with_content(read.ok()?, content);
    }
    ours.entry("isError").or_insert(Value::Bool(false));
    with_content(serde_json::from_value(Value::Object(ours)).ok()?, content)
}

fn with_content(mut message: Message, content: Vec<Content>) -> Option<Message> {
    match &mut message {
        Message::User(user) => user.content = content,
        Message::Assistant(reply) => reply.content = content,
        Message::ToolResult(result) => result.content = content.into(),
        _ => return None,
    }
    Some(message)
}

/// Returns pi's key for the signature of a block, by the type of the block.
fn signature_key(kind: &str) -> &'static str {
    match kind {
        "text" => "textSignature",
        "thinking" => "thinkingSignature",
        _ => "thoughtSignature",
    }
}

fn block_from_pi(block: &Value) -> Content {
    let kind = text(block, "type");
    let opaque = || Content::opaque(kind, block.clone());
    let Some(mut ours) = block.as_object().cloned() else { return opaque() };
    if let Some(signature) = ours.shift_remove(signature_key(kind)) {
        ours.insert("signature".to_owned(), signature);
    }
    match serde_json::from_value(Value::Object(ours)) {
        Ok(Content::Opaque(_)) | Err(_) => opaque(),
        Ok(content) => content,
    }
}

/// Converts a block, of which `value` is our form.
fn block_to_pi(content: &Content, mut value: Value) -> Value {
    if let Content::Opaque(OpaqueContent { data, .. }) = content {
        return data.clone();
    }
    let kind = text(&value, "type").to_owned();
    if let Some(map) = value.as_object_mut() {
        if let Some(signature) = map.shift_remove("signature") {
            map.insert(signature_key(&kind).to_owned(), signature);
        }
        // Pi stores arguments as an object only.
        if kind == "toolCall" {
            map.shift_remove("argumentsText");
            if !map.get("arguments").is_some_and(Value::is_object) {
                map.insert("arguments".to_owned(), json!({}));
            }
        }
    }
    value
}

/// Returns the kind of an extension message; `None` for a message that models receive.
pub(super) fn note_kind(message: &AgentMessage) -> Option<&str> {
    match message {
        AgentMessage::Extension(note) => Some(&note.kind),
        _ => None,
    }
}

/// Converts a message to the form of pi.
pub(super) fn to_pi(message: &AgentMessage) -> Value {
    let AgentMessage::Llm(llm) = message else {
        let value = serde_json::to_value(message).unwrap_or_default();
        return value.get("data").cloned().unwrap_or_default();
    };
    let mut value = serde_json::to_value(&llm.message).unwrap_or_default();
    let Some(map) = value.as_object_mut() else { return value };
    let mut written = match map.get_mut("content").map(Value::take) {
        Some(Value::Array(blocks)) => blocks.into_iter(),
        _ => Vec::new().into_iter(),
    };
    let block = |content| block_to_pi(content, written.next().unwrap_or_default());
    let blocks: Vec<Value> = llm.message.content().iter().map(block).collect();
    map.insert("content".to_owned(), Value::Array(blocks));
    for key in ["durationMs", "childLoopId", "turnId"] {
        map.shift_remove(key);
    }
    if let Message::Assistant(reply) = &llm.message {
        map.insert(
            "api".to_owned(),
            json!(reply.api.map(|a| a.as_str().replace('_', "-")).unwrap_or_default()),
        );
        let usage = &reply.usage;
        let mut theirs = Map::new();
        for (key, count) in [
            ("input", usage.input),
            ("output", usage.output),
            ("cacheRead", usage.cache_read),
            ("cacheWrite", usage.cache_write),
            ("totalTokens", usage.total_tokens),
        ] {
            theirs.insert(key.to_owned(), json!(count));
        }
        theirs.insert(
            "cost".to_owned(),
            json!({ "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0 }),
        );
        map.insert("usage".to_owned(), Value::Object(theirs));
    }
    value
}

/// Returns the call that a tool result belongs to.
pub(super) fn call_of(message: &Message) -> Option<&ToolCallId> {
    message.as_tool_result().map(|r| &r.tool_call_id)
}

/// Returns the name of the tool that a call of a reply names.
pub(super) fn name_of(reply: &MessageRef, call: &ToolCallId) -> Option<String> {
    let reply = reply.as_llm()?.as_assistant()?;
    reply.tool_calls().find(|c| c.id == *call).map(|c| c.name.to_string())
}
