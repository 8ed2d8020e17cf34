//! Converts a response to the result for the model.

use agent_core::{Content, TextEnd, ToolResult};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LINK, LOCATION, RETRY_AFTER};
use serde_json::{Value, json};

use super::MAX_READ_BYTES;
use super::body::{essence, is_text};
use crate::secrets::Secrets;
use crate::{pictures, text};

/// Headers that are included in the details of a result.
const TOLD: [(&str, HeaderName); 3] = [("location", LOCATION), ("link", LINK), ("retry_after", RETRY_AFTER)];

/// The maximum length of a header in a result, in bytes.
const MAX_TOLD_BYTES: usize = 2 * 1024;

/// A response, as far as it was read.
pub(super) struct Answer {
    pub(super) method: Method,
    /// The address that responded, without credentials.
    pub(super) url: String,
    pub(super) status: reqwest::StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Vec<u8>,
    pub(super) end: End,
}

/// Where reading a response ended.
pub(super) enum End {
    Whole,
    /// At the limit [`MAX_READ_BYTES`].
    Bound,
    /// The connection failed.
    Broken(String),
}

/// Returns the result for the model: `GET https://… → 200 OK`, an empty line, the body.
pub(super) fn tool_result(answer: &Answer, max_bytes: usize, secrets: &Secrets) -> ToolResult {
    let kind = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = format!("{} {} → {}", answer.method, answer.url, answer.status);
    let mut picture = None;
    let mut is_cut = false;
    // Texts are redacted before they are cut, because a part of a secret would not be found.
    let header = |name: &HeaderName| {
        let value = String::from_utf8_lossy(answer.headers.get(name)?.as_bytes());
        Some(text::head(&secrets.redact(&value), MAX_TOLD_BYTES).to_owned())
    };
    let kind_shown = secrets.redact(kind);
    let body = match shape(answer, kind) {
        Shape::Nothing => match header(&LOCATION) {
            Some(location) => format!("[no body; location: {location}]"),
            None => "[no body]".to_owned(),
        },
        Shape::Text(whole) => {
            let end = if matches!(answer.end, End::Whole) { TextEnd::Whole } else { TextEnd::Cut };
            let whole = secrets.redact_until(&whole, end);
            let cut = cut(&whole, max_bytes);
            is_cut = cut.len() != whole.len() || matches!(answer.end, End::Bound);
            cut
        }
        Shape::Picture(mime_type) => {
            picture = Some(Content::image(STANDARD.encode(&answer.bytes), mime_type));
            format!("[{mime_type}, {} bytes]", answer.bytes.len())
        }
        Shape::Bytes => {
            let kind = if kind.is_empty() { "of no known type" } else { text::head(&kind_shown, 200) };
            let least = if matches!(answer.end, End::Whole) { "" } else { "at least " };
            format!("[{kind}, {least}{} bytes, which cannot be shown here]", answer.bytes.len())
        }
    };
    let note = match &answer.end {
        End::Whole => String::new(),
        End::Bound => format!("\n[the answer is longer than {MAX_READ_BYTES} bytes; the rest was not read]"),
        End::Broken(why) => format!("\n[the answer broke off here: {why}]"),
    };
    let mut blocks = vec![Content::text(secrets.redact(&format!("{first}\n\n")) + &body + &note)];
    blocks.extend(picture);
    let mut details = json!({
        "status": answer.status.as_u16(),
        "method": answer.method.as_str(),
        "url": secrets.redact(&answer.url),
    });
    if let Some(details) = details.as_object_mut() {
        for (key, name) in TOLD {
            if let Some(value) = header(&name) {
                details.insert(key.to_owned(), Value::String(value));
            }
        }
        if is_cut {
            details.insert("truncated".to_owned(), Value::Bool(true));
        }
    }
    let result = ToolResult::content(blocks).with_details(details);
    if matches!(answer.end, End::Broken(_)) { result.failed() } else { result }
}

enum Shape {
    Nothing,
    Text(String),
    Picture(&'static str),
    Bytes,
}

fn shape(answer: &Answer, kind: &str) -> Shape {
    let bytes = answer.bytes.as_slice();
    if bytes.is_empty() {
        return Shape::Nothing;
    }
    // No encoding was requested, so the body cannot be decoded.
    let encoding =
        answer.headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("identity");
    if !encoding.trim().eq_ignore_ascii_case("identity") {
        return Shape::Bytes;
    }
    let essence = essence(kind);
    if pictures::may_be_image(&essence)
        && matches!(answer.end, End::Whole)
        && let Some(found) = pictures::accepted(bytes)
    {
        return Shape::Picture(found);
    }
    if is_text(&essence) {
        return Shape::Text(decoded(bytes, kind));
    }
    // A missing or unknown content type counts as text if the bytes are text.
    let looks_like_text = !bytes.contains(&0) && is_utf8(bytes);
    if looks_like_text { Shape::Text(decoded(bytes, kind)) } else { Shape::Bytes }
}

/// Returns whether the bytes are UTF-8, apart from a character at the end that the limit has split.
fn is_utf8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

fn decoded(bytes: &[u8], kind: &str) -> String {
    let charset = kind.to_ascii_lowercase();
    let is_latin = ["charset=iso-8859-1", "charset=\"iso-8859-1\"", "charset=latin1"]
        .iter()
        .any(|c| charset.contains(c));
    if is_latin && std::str::from_utf8(bytes).is_err() {
        return bytes.iter().copied().map(char::from).collect();
    }
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns at most `max` bytes: the beginning and the end, with a line between them that states how much is missing.
/// Cuts are at character boundaries.
fn cut(whole: &str, max: usize) -> String {
    if whole.len() <= max {
        return whole.to_owned();
    }
    let mark = |missing: usize| format!("\n... [truncated: {missing} bytes left out] ...\n");
    let room = max.saturating_sub(mark(whole.len()).len());
    if room == 0 {
        return text::head(whole, max).to_owned();
    }
    let head = text::head(whole, room - room / 4);
    let tail = whole.get(whole.ceil_char_boundary(whole.len() - room / 4)..).unwrap_or_default();
    format!("{head}{}{tail}", mark(whole.len() - head.len() - tail.len()))
}
