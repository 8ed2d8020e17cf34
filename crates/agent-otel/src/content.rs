//! Conversations as attributes, in the JSON forms that the conventions define.
//!
//! Sizes are bounded: a text is cut at [`MAX_TEXT_BYTES`], and the oldest messages are left out beyond
//! [`MAX_CONTENT_BYTES`]. Files are named by their kind and not included.

use agent_core::{AssistantMessage, Content as Block, Message};
use serde_json::{Value, json};

/// Whether text of conversations is sent: prompts, replies, and arguments and results of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Content {
    /// It is not. This is the default.
    #[default]
    Omitted,
    /// It is sent with the spans, up to [`MAX_CONTENT_BYTES`] for each attribute.
    Included,
}

/// The maximum size of one text of a conversation in an attribute: 16 KiB. A longer one is cut and ends with `…`.
pub const MAX_TEXT_BYTES: usize = 16 * 1024;

/// The maximum size of the messages in one attribute: 256 KiB. The oldest messages beyond it are left out.
pub const MAX_CONTENT_BYTES: usize = 256 * 1024;

/// Returns the messages that a model received.
pub(crate) fn messages<'a>(messages: impl Iterator<Item = &'a Message>) -> String {
    let all: Vec<&Message> = messages.collect();
    let (mut newest_first, mut size) = (Vec::new(), 2);
    for message in all.iter().rev() {
        let text = message_of(message).to_string();
        size += text.len() + 1;
        if size > MAX_CONTENT_BYTES {
            break;
        }
        newest_first.push(text);
    }
    newest_first.reverse();
    format!("[{}]", newest_first.join(","))
}

/// Returns a reply as the list of output messages.
pub(crate) fn reply(reply: &AssistantMessage) -> String {
    json!([{ "role": "assistant", "parts": parts(&reply.content) }]).to_string()
}

/// Returns the system prompt; `None` if it is empty.
pub(crate) fn instructions(prompt: &str) -> Option<String> {
    (!prompt.is_empty()).then(|| json!([{ "type": "text", "content": cut(prompt) }]).to_string())
}

/// Returns a JSON value, cut like a text.
pub(crate) fn value(value: &Value) -> String {
    cut(&value.to_string())
}

/// Returns the blocks of a tool's result. A result of one text is that text.
pub(crate) fn blocks(content: &[Block]) -> String {
    match content {
        [Block::Text(text)] => cut(&text.text),
        other => Value::Array(parts(other)).to_string(),
    }
}

fn message_of(message: &Message) -> Value {
    match message {
        Message::User(user) => json!({ "role": "user", "parts": parts(&user.content) }),
        Message::Assistant(reply) => json!({ "role": "assistant", "parts": parts(&reply.content) }),
        Message::ToolResult(result) => json!({
            "role": "tool",
            "parts": [{
                "type": "tool_call_response",
                "id": result.tool_call_id.as_str(),
                "response": blocks(&result.content),
            }],
        }),
        _ => json!({ "role": "unknown", "parts": [] }),
    }
}

fn parts(content: &[Block]) -> Vec<Value> {
    content.iter().map(part).collect()
}

fn part(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({ "type": "text", "content": cut(&text.text) }),
        Block::Thinking(thinking) => json!({ "type": "reasoning", "content": cut(&thinking.thinking) }),
        Block::ToolCall(call) => {
            let text = call.arguments.text();
            let whole = call.arguments.value().ok().filter(|_| text.len() <= MAX_TEXT_BYTES);
            let arguments = whole.cloned().unwrap_or_else(|| cut(text).into());
            json!({ "type": "tool_call", "id": call.id.as_str(), "name": call.name.as_str(), "arguments": arguments })
        }
        Block::Image(_) => json!({ "type": "image" }),
        Block::Document(_) => json!({ "type": "document" }),
        Block::Audio(_) => json!({ "type": "audio" }),
        Block::Video(_) => json!({ "type": "video" }),
        Block::SearchResult(_) => json!({ "type": "search_result" }),
        _ => json!({ "type": "other" }),
    }
}

/// Cuts a text at a character boundary.
fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    format!("{}…", text.get(..end).unwrap_or_default())
}
