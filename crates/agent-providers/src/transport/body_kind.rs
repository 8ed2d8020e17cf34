//! Detects the format of a successful response.

use agent_core::ProviderError;

use super::failure;
use crate::protocol::Framing;
use crate::rejection::is_html;

/// The format of a successful response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    Frames(Framing),
    /// One JSON body with the whole response.
    Whole,
}

/// Detects the format by the content type and by the first byte, because some gateways send a wrong content type.
pub(super) fn kind_of(
    status: u16,
    declared: Option<&str>,
    first: &[u8],
    usual: Framing,
) -> Result<BodyKind, ProviderError> {
    let media = declared.map_or("", |t| t.split_once(';').map_or(t, |(media, _)| media)).trim_ascii();
    let framing = declared_framing(media, usual);
    let is_json = media.eq_ignore_ascii_case("application/json") || ends_with_json(media);
    let start = first.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(first).trim_ascii_start();
    Ok(match start.first() {
        None => BodyKind::Frames(usual),
        Some(b'<') if is_html(start) => return Err(failure::web_page(status)),
        Some(b'{' | b'[') => match framing {
            Some(Framing::Lines) => BodyKind::Frames(Framing::Lines),
            None if !is_json && usual == Framing::Lines => BodyKind::Frames(Framing::Lines),
            // Text instead of frames is accepted only if the response declares JSON.
            _ if !is_json && is_binary(usual) => return Err(failure::wrong_type(status, declared)),
            _ => BodyKind::Whole,
        },
        Some(byte) => match framing {
            Some(framing) => BodyKind::Frames(framing),
            // `data:`, `event:`, `id:`, `retry:` or a comment.
            None if usual != Framing::Lines
                && !is_binary(usual)
                && b"deir:".contains(byte)
                && start.contains(&b':') =>
            {
                BodyKind::Frames(usual)
            }
            // The highest byte of the length of the first frame, which is far below 16 MiB.
            None if is_binary(usual) && *byte == 0 => BodyKind::Frames(usual),
            None => return Err(failure::wrong_type(status, declared)),
        },
    })
}

/// The content types with one JSON value per line.
const LINES: &[&str] =
    &["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];

/// Returns the framing that a content type names.
fn declared_framing(media: &str, usual: Framing) -> Option<Framing> {
    let is = |name: &str| media.eq_ignore_ascii_case(name);
    if is("text/event-stream") {
        return Some(if usual == Framing::SseOrJson { usual } else { Framing::Sse });
    }
    #[cfg(feature = "bedrock")]
    if is("application/vnd.amazon.eventstream") {
        return Some(Framing::EventStream);
    }
    LINES.iter().any(|name| is(name)).then_some(Framing::Lines)
}

/// Returns whether a content type is a form of JSON, such as `application/problem+json`.
fn ends_with_json(media: &str) -> bool {
    const SUFFIX: &[u8] = b"+json";
    media.as_bytes().last_chunk::<{ SUFFIX.len() }>().is_some_and(|end| end.eq_ignore_ascii_case(SUFFIX))
}

fn is_binary(framing: Framing) -> bool {
    match framing {
        Framing::Sse | Framing::SseOrJson | Framing::Lines => false,
        #[cfg(feature = "bedrock")]
        Framing::EventStream => true,
    }
}
