//! Where a body is cut into pieces before it is sent. Each piece arrives as a chunk of its own.

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
}

/// The body whole, and cut in four hostile ways. The same body is always cut alike.
pub(super) fn all(body: &[u8]) -> Vec<Cut> {
    let cut = |name, mut places: Vec<usize>| {
        places.retain(|p| *p > 0 && *p < body.len());
        places.sort_unstable();
        places.dedup();
        Cut { name, pieces: pieces(body, &places) }
    };
    vec![
        cut("whole", Vec::new()),
        cut("single bytes", single_bytes(body)),
        cut("at seams", seams(body)),
        cut("mid line", mid_lines(body)),
        cut("odd sizes", odd_sizes(body)),
    ]
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
