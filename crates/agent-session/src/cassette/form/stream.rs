//! The form of a reply's events in cassettes of version 1: the text of a delta is the field `delta`.

use agent_core::provider::ServerToolCall;
use agent_core::{Citation, Completion, OwnedStreamEvent, Usage};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A definition for serde only. Its variants and fields must equal those of [`OwnedStreamEvent`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "OwnedStreamEvent", tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
enum Form {
    Start { response_id: Option<String>, model: Option<String> },
    TextStart { index: u32 },
    TextDelta { index: u32, delta: String },
    TextSignature { index: u32, delta: String },
    Citation { index: u32, citation: Box<Citation> },
    ThinkingStart { index: u32 },
    ThinkingDelta { index: u32, delta: String },
    ThinkingSignature { index: u32, delta: String },
    RedactedThinking { index: u32, data: String },
    ToolCallStart { index: u32, id: String, name: String },
    ToolCallDelta { index: u32, delta: String },
    ToolCallSignature { index: u32, delta: String },
    Opaque { index: u32, kind: String, data: Value },
    ServerTool { index: u32, call: Box<ServerToolCall> },
    BlockEnd { index: u32 },
    Usage { usage: Usage },
    Fallback { from: String, to: String, reason: String },
    Unrecognised { name: String },
    Done { completion: Completion },
    Error { message: String },
}

#[derive(Serialize)]
struct Written<'a>(#[serde(with = "Form")] &'a OwnedStreamEvent);

#[derive(Deserialize)]
struct Read(#[serde(with = "Form")] OwnedStreamEvent);

pub(super) fn serialize<S: Serializer>(
    events: &[OwnedStreamEvent],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(events.iter().map(Written))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<OwnedStreamEvent>, D::Error> {
    Ok(Vec::<Read>::deserialize(deserializer)?.into_iter().map(|read| read.0).collect())
}
