//! Writes the conversation with consecutive messages of the user as one message.
//!
//! The templates of many local models demand that user and assistant alternate, and the server answers with an error when
//! they do not: after a failed reply, or when a message follows the pictures of a tool.

use agent_core::{Content, ModelRequest, Unit, WireKey};

use super::unit::UnitEncoder;
use crate::handoff::Handoff;

/// The beginning of a message of the user, up to its content.
const USER: &[u8] = br#"{"role":"user","content":"#;

/// The beginning and the end of a content that is a list of parts, around one text.
const TEXT_PART: &[u8] = br#"[{"type":"text","text":"#;
const TEXT_END: &[u8] = b"}]";

/// What separates two texts that become one.
const GAP: &[u8] = br"\n\n";

/// Writes the messages of the units that are sent.
pub(super) fn write(out: &mut Vec<u8>, request: &ModelRequest, (key, encoder): (WireKey, &UnitEncoder<'_>)) {
    // The position of the content of the last message, if it is the user's.
    let mut open = None;
    for unit in request.history.units().filter(|unit| Handoff::shows(unit)) {
        unit.wire().with(
            key,
            || encoder.encode(unit),
            |form| {
                let bytes = form.bytes();
                if bytes.is_empty() {
                    return;
                }
                if let (Some(at), Some(content)) = (open, bytes.strip_prefix(USER)) {
                    return join(out, at, content);
                }
                if out.last() != Some(&b'[') {
                    out.push(b',');
                }
                let base = out.len();
                out.extend_from_slice(bytes);
                open = last_user_content(unit, bytes).map(|at| base + at);
            },
        );
    }
}

/// Returns the position of the content of a unit's last message, if it is the user's.
fn last_user_content(unit: &Unit, bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(USER) {
        return Some(USER.len());
    }
    // A message of the user follows results with files. A text in JSON cannot contain its beginning, which has quotes.
    let has_files = unit.results().any(|r| r.content.iter().any(|c| !matches!(c, Content::Text(_))));
    let at = has_files.then(|| bytes.windows(USER.len()).rposition(|window| window == USER))??;
    let is_last = !bytes.get(at + 1..)?.windows(ROLE.len()).any(|window| window == ROLE);
    is_last.then_some(at + USER.len())
}

const ROLE: &[u8] = br#"{"role":""#;

/// Appends the content of a further message to the last message, whose content begins at `at`.
fn join(out: &mut Vec<u8>, at: usize, content: &[u8]) {
    let is_text = out.get(at) == Some(&b'"');
    out.truncate(out.len().saturating_sub(1));
    match (is_text, content.first() == Some(&b'"')) {
        (true, true) => {
            out.truncate(out.len().saturating_sub(1));
            out.extend_from_slice(GAP);
            out.extend_from_slice(content.get(1..).unwrap_or_default());
        }
        (true, false) => {
            out.splice(at..at, TEXT_PART.iter().copied());
            out.extend_from_slice(b"},");
            out.extend_from_slice(content.get(1..).unwrap_or_default());
        }
        (false, true) => {
            out.truncate(out.len().saturating_sub(1));
            out.push(b',');
            out.extend_from_slice(TEXT_PART.get(1..).unwrap_or_default());
            out.extend_from_slice(content.strip_suffix(b"}").unwrap_or(content));
            out.extend_from_slice(TEXT_END);
            out.push(b'}');
        }
        (false, false) => {
            out.truncate(out.len().saturating_sub(1));
            out.push(b',');
            out.extend_from_slice(content.get(1..).unwrap_or_default());
        }
    }
}
