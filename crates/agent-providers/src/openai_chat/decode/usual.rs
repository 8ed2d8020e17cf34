//! Chunks whose whole effect is that of one string.

use super::super::calls::Piece;
use super::super::wire::{Body, Delta, REASONING_FIELDS};
use crate::shape::Shapes;

/// What the one string of a usual chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usual {
    Text,
    /// Thinking in this field.
    Thought(&'static str),
    /// Arguments of the call with this number.
    Arguments(Option<u64>),
    /// Why the reply ends.
    Reason,
}

/// Shapes from earlier replies.
pub(super) static SHAPES: Shapes<Usual> = Shapes::new();

impl Usual {
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::Text => "content",
            Self::Thought(field) => field,
            Self::Arguments(_) => "arguments",
            Self::Reason => "finish_reason",
        }
    }
}

/// The string that is the whole effect of a choice with this delta and reason, when there is only one.
pub(super) fn usual<'d>(delta: &'d Delta<'_>, reason: Option<&'d str>) -> Option<(Usual, &'d str)> {
    let Body::Text(content) = &delta.content else { return None };
    if delta.refusal.filled().is_some() || delta.reasoning_details.is_some() {
        return None;
    }
    let thoughts = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text];
    let mut thoughts =
        thoughts.iter().zip(REASONING_FIELDS).filter_map(|(text, field)| Some((text.filled()?, field)));
    let calls = delta.tool_calls.as_deref().unwrap_or_default();
    match (content.filled(), thoughts.next(), calls, reason) {
        (Some(text), None, [], None) => Some((Usual::Text, text)),
        (None, Some((text, field)), [], None) if thoughts.next().is_none() => {
            Some((Usual::Thought(field), text))
        }
        (None, None, [call], None) => {
            let piece = Piece::of(call);
            let bare = piece.id.is_empty() && piece.name.is_empty() && piece.signature.is_none();
            bare.then_some((Usual::Arguments(piece.wire), piece.arguments))
        }
        (None, None, [], Some(reason)) => Some((Usual::Reason, reason)),
        _ => None,
    }
}
