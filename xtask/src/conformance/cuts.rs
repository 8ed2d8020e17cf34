//! Where a body is cut into pieces before it is sent. Each piece arrives as a chunk of its own.

use std::time::Duration;

use crate::server::Ending;

/// The wait between two pieces of a paused delivery. Longer than any wait of ours behind the end of a reply.
const PAUSE: Duration = Duration::from_millis(400);

/// The most pauses of one delivery.
const MAX_PAUSES: usize = 4;

/// What names a reason to stop, in any protocol. A null is none.
const REASONS: &[&str] = &[
    "\"finish_reason\":\"",
    "\"finish_reason\": \"",
    "\"finishReason\"",
    "\"stop_reason\":\"",
    "\"stop_reason\": \"",
    "\"stopReason\"",
    "\"done_reason\"",
    "\"response.completed\"",
    "\"message_stop\"",
];

/// Bodies up to this size are also sent byte by byte from end to end.
const BYTEWISE: usize = 8 << 10;

/// How much of a larger body's two ends is sent byte by byte.
const BYTEWISE_END: usize = 2 << 10;

/// A body in pieces.
pub(super) struct Cut {
    /// The name of the way it was cut.
    pub(super) name: &'static str,
    /// The pieces, none of them empty.
    pub(super) pieces: Vec<Vec<u8>>,
    /// How long the server waits between two of them.
    pub(super) pause: Duration,
    /// Whether the body ends behind them.
    pub(super) ending: Ending,
}

/// What ends a reply, in any protocol. Gemini's has no such mark: only the end of the body ends it.
const END_MARKS: &[&str] = &[
    "[DONE]",
    "message_stop",
    "messageStop",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.done",
    "\"done\":true",
    "\"done\": true",
];

/// The most deliveries of one body whose connection is lost.
const MAX_LOST: usize = 40;

/// The beginnings of the body before its end mark, each of which ends with a frame. The connection is lost there, so none of
/// them is a reply, whatever words for a stop the frames hold.
pub(super) fn lost(body: &[u8]) -> Vec<Cut> {
    let ends: Vec<usize> = frames(body).into_iter().filter(|end| *end < body.len()).collect();
    let has_ended = |end: usize| {
        let before = String::from_utf8_lossy(&body[..end]);
        END_MARKS.iter().any(|mark| before.contains(mark))
    };
    let step = ends.len().div_ceil(MAX_LOST).max(1);
    // The last frames hold the words for a stop, so the selection counts from the end.
    let chosen = ends.into_iter().rev().step_by(step).filter(|end| !has_ended(*end));
    let cut = |end: usize| Cut {
        name: "lost connection",
        pieces: vec![body[..end].to_vec()],
        pause: Duration::ZERO,
        ending: Ending::Lost,
    };
    chosen.map(cut).collect()
}

/// The body whole, and cut in four hostile ways. The same body is always cut alike.
pub(super) fn all(body: &[u8]) -> Vec<Cut> {
    let cut = |name, mut places: Vec<usize>| {
        places.retain(|p| *p > 0 && *p < body.len());
        places.sort_unstable();
        places.dedup();
        Cut { name, pieces: pieces(body, &places), pause: Duration::ZERO, ending: Ending::Whole }
    };
    vec![
        cut("whole", Vec::new()),
        cut("single bytes", single_bytes(body)),
        cut("at seams", seams(body)),
        cut("mid line", mid_lines(body)),
        cut("odd sizes", odd_sizes(body)),
    ]
}

/// The body with a pause behind each of the first frames that name a reason to stop, where something follows: a reply
/// must not end there. `None` when there is no such place.
pub(super) fn paused(body: &[u8]) -> Option<Cut> {
    let ends = frames(body);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let names_reason = |(start, end): &(usize, usize)| {
        let frame = String::from_utf8_lossy(&body[*start..*end]);
        REASONS.iter().any(|reason| frame.contains(reason))
    };
    let places = starts.zip(ends.iter().copied()).filter(names_reason).map(|(_, end)| end);
    let places: Vec<usize> = places.filter(|end| *end < body.len()).take(MAX_PAUSES).collect();
    (!places.is_empty()).then(|| Cut {
        name: "with pauses",
        pieces: pieces(body, &places),
        pause: PAUSE,
        ending: Ending::Whole,
    })
}

/// The places behind the frames: events that an empty line ends, lines, or frames that begin with their length.
fn frames(body: &[u8]) -> Vec<usize> {
    if body.first() == Some(&0) {
        return length_prefixed(body);
    }
    let has_events = [b"\n\n".as_slice(), b"\r\n\r\n"].iter().any(|end| contains(body, end));
    let ends_frame = |at: usize| {
        let lines = &body[..=at];
        lines.ends_with(b"\n") && (!has_events || lines.ends_with(b"\n\n") || lines.ends_with(b"\r\n\r\n"))
    };
    (0..body.len()).filter(|at| ends_frame(*at)).map(|at| at + 1).collect()
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

fn length_prefixed(body: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at: usize = 0;
    while let Some(length) = body.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let length = u32::from_be_bytes(*length) as usize;
        at = at.saturating_add(length.max(4));
        if at > body.len() {
            break;
        }
        ends.push(at);
    }
    ends
}

fn pieces(body: &[u8], places: &[usize]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::with_capacity(places.len() + 1);
    let mut start = 0;
    for end in places.iter().copied().chain([body.len()]) {
        if end > start {
            pieces.push(body[start..end].to_vec());
        }
        start = end;
    }
    pieces
}

/// Each byte alone; in the middle of a large body seven together, which no boundary is a multiple of for long.
fn single_bytes(body: &[u8]) -> Vec<usize> {
    let middle = BYTEWISE_END..body.len().saturating_sub(BYTEWISE_END);
    (1..body.len()).filter(|at| body.len() <= BYTEWISE || !middle.contains(at) || at % 7 == 0).collect()
}

/// On both sides of every CR and LF (so also between them), and inside of every character of more than one byte.
fn seams(body: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    for (at, byte) in body.iter().enumerate() {
        match byte {
            b'\r' | b'\n' => places.extend([at, at + 1]),
            // A byte that continues a character: the cut is inside of it.
            0x80..=0xbf => places.push(at),
            _ => {}
        }
    }
    places
}

/// In the middle of every line, inside of its field name, and behind every backslash.
fn mid_lines(body: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut start = 0;
    for line in body.split_inclusive(|b| *b == b'\n') {
        places.extend([start + line.len().min(3), start + line.len() / 2]);
        places.extend(line.iter().enumerate().filter(|(_, b)| **b == b'\\').map(|(at, _)| start + at + 1));
        start += line.len();
    }
    places
}

/// Pieces of 1 to 61 bytes, shorter ones of a short body, by a fixed sequence.
fn odd_sizes(body: &[u8]) -> Vec<usize> {
    let longest = (body.len() / 4).clamp(1, 61);
    let mut places = Vec::new();
    let mut state: u32 = 0x2545_f491;
    let mut at = 0;
    while at < body.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        at += 1 + (state >> 16) as usize % longest;
        places.push(at);
    }
    places
}
