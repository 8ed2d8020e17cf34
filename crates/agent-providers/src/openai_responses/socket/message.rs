//! The message of a request: the members of an HTTP body without `stream`, and the envelope of the connection.

use agent_core::{ModelRequest, ProviderError};
use serde_json::Value;

use crate::json::{self, Members};
use crate::openai_responses::encode;

/// Members that a connection does not take.
const OF_HTTP: &[&str] = &["stream", "background", "background_options", "stream_options"];

/// Members that name the conversation by themselves, so that no earlier reply is named beside them.
const OWN_STATE: &[&str] = &["previous_response_id", "conversation"];

/// A request without its envelope.
pub(super) struct Body {
    /// The members before the input, with a comma behind each.
    pub(super) head: Vec<u8>,
    /// The input, a JSON list.
    pub(super) input: Vec<u8>,
    /// Whether an earlier reply can stand for the beginning of the input.
    pub(super) continues: bool,
}

impl Body {
    /// Encodes a request. Its `request_hook` sees the body of the request over HTTP.
    ///
    /// # Errors
    /// Returns an error if the protocol cannot express the request.
    pub(super) fn of(request: &ModelRequest) -> Result<Self, ProviderError> {
        if let Some(hook) = &request.options.request_hook {
            let body = encode::body(request)?;
            if let Some(Value::Object(replaced)) =
                serde_json::from_slice(&body).ok().and_then(|v: Value| hook(&v))
            {
                return Ok(Self::replaced(&replaced));
            }
        }
        let (mut out, at) = encode::unstreamed(request)?;
        out.pop();
        let input = out.split_off(at);
        // The name of the input follows the head.
        out.truncate(out.len().saturating_sub(br#""input":"#.len()));
        let head = out.get(1..).unwrap_or_default().to_vec();
        Ok(Self { head, input, continues: true })
    }

    fn replaced(members: &serde_json::Map<String, Value>) -> Self {
        let mut out = Vec::new();
        let mut head = Members::open(&mut out);
        for (name, value) in members {
            if name != "input" && !OF_HTTP.contains(&name.as_str()) {
                head.named(name, value);
            }
        }
        let mut head = out.get(1..).unwrap_or_default().to_vec();
        if !head.is_empty() {
            head.push(b',');
        }
        let mut input = Vec::new();
        json::write(&mut input, members.get("input").unwrap_or(&Value::Null));
        let continues = input.starts_with(b"[") && !OWN_STATE.iter().any(|name| members.contains_key(*name));
        Self { head, input, continues }
    }

    /// Returns the message. With `previous`, the id of an earlier reply, its items follow the conversation up to that reply.
    pub(super) fn message(&self, stream_id: Option<&str>, previous: Option<(&str, &[u8])>) -> String {
        const ENVELOPE: usize = 192;
        let items = previous.map_or(self.input.len(), |(_, items)| items.len());
        let mut out = Vec::with_capacity(self.head.len() + items + ENVELOPE);
        let mut envelope = Members::open(&mut out);
        envelope.field("type", "response.create");
        if let Some(id) = stream_id {
            envelope.field("stream_id", id);
        }
        if let Some((id, _)) = previous {
            envelope.field("previous_response_id", id);
        }
        out.push(b',');
        out.extend_from_slice(&self.head);
        out.extend_from_slice(br#""input":"#);
        match previous {
            Some((_, items)) => {
                out.push(b'[');
                out.extend_from_slice(items);
                out.push(b']');
            }
            None => out.extend_from_slice(&self.input),
        }
        out.push(b'}');
        // Encoded JSON is UTF-8.
        String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}
