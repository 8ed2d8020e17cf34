//! Framing vectors: bytes that go into the frame decoder alone, whole and cut.

use agent_providers::eventstream::{FrameDecoder, HeaderValue, Message};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::compare::Difference;
use super::cuts::{self, Cut};
use super::manifest::Manifest;
use super::report::{Failure, ProtocolReport};

/// The folder of the vectors.
pub(super) const FOLDER: &str = "eventstream-frames";

/// The most bytes of a frame, as the transport has it.
const MAX_FRAME: usize = agent_providers::transport::MAX_FRAME_BYTES;

/// What a vector holds, as the vendor's decoder has it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Expected {
    messages: Vec<Frame>,
    /// The class of error. Any decoder only has to refuse the bytes.
    error: Option<String>,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Frame {
    headers: Map<String, Value>,
    payload_b64: String,
}

/// Decodes every vector of the folder.
pub(super) fn report(manifest: &Manifest) -> anyhow::Result<ProtocolReport> {
    let mut report = ProtocolReport::new(FOLDER);
    for case in manifest.cases.iter().filter(|c| c.protocol == FOLDER) {
        let body = manifest.body(case)?;
        let expected: Expected = manifest.expected(case)?;
        let first = cuts::all(&body).into_iter().find_map(|cut| {
            let difference = difference(&expected, &cut)?;
            Some(Failure { case: case.case.clone(), delivery: cut.name, difference })
        });
        report.add(first, &[]);
    }
    Ok(report)
}

/// The first difference, or `None`.
pub(super) fn difference(expected: &Expected, cut: &Cut) -> Option<Difference> {
    let (found, error) = decode(cut);
    let field = |field: &str, wanted: String, found: String| {
        Some(Difference { field: field.to_owned(), wanted, found })
    };
    if expected.messages != found {
        return field("messages", format!("{:?}", expected.messages), format!("{found:?}"));
    }
    match (&expected.error, error) {
        (None, None) | (Some(_), Some(_)) => None,
        (wanted, found) => field("error", format!("{wanted:?}"), format!("{found:?}")),
    }
}

/// The frames, and what was wrong with the bytes after them.
fn decode(cut: &Cut) -> (Vec<Frame>, Option<String>) {
    let mut decoder = FrameDecoder::new(MAX_FRAME);
    let mut frames = Vec::new();
    for piece in &cut.pieces {
        let mut rest = piece.as_slice();
        loop {
            match decoder.next(&mut rest) {
                Ok(Some(message)) => frames.push(frame(&message)),
                Ok(None) => break,
                Err(error) => return (frames, Some(error.to_string())),
            }
        }
    }
    let unread = decoder.pending();
    (frames, (unread > 0).then(|| format!("{unread} bytes of a frame that does not end")))
}

fn frame(message: &Message) -> Frame {
    let bytes = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
    let value = |value: &HeaderValue| match value {
        HeaderValue::Bool(v) => json!(v),
        HeaderValue::Byte(v) => json!(v),
        HeaderValue::Int16(v) => json!(v),
        HeaderValue::Int32(v) => json!(v),
        HeaderValue::Int64(v) => json!(v),
        HeaderValue::String(v) => json!(v.as_str()),
        HeaderValue::Timestamp(v) => json!(v.to_millis().unwrap_or_default()),
        HeaderValue::ByteArray(v) => json!({ "$b64": bytes(v) }),
        HeaderValue::Uuid(v) => json!({ "$b64": bytes(&v.to_be_bytes()) }),
        _ => Value::Null,
    };
    Frame {
        headers: message.headers().iter().map(|h| (h.name().as_str().to_owned(), value(h.value()))).collect(),
        payload_b64: bytes(message.payload()),
    }
}
