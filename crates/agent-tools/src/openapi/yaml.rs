//! What YAML may cost.
//!
//! For each token the YAML library scans every bracket that is open: 240 KB of brackets in brackets take it 20 seconds. It
//! has a bound on depth, but only afterwards. So the brackets that may be open are counted first, and never too few.

/// Brackets that may be open, times the length of the text. A release build needs about 10 ns for each.
const MAX_WORK: usize = 500_000_000;

/// So many may always be open.
const ALWAYS_FINE: usize = 32;

/// Whether reading the text costs a bounded time.
pub(super) fn is_affordable(text: &str) -> bool {
    let open = text.lines().fold(0_usize, |open, line| open.saturating_add(left_open(line.as_bytes())));
    open <= ALWAYS_FINE || open.saturating_mul(text.len()) <= MAX_WORK
}

/// How many brackets of a line may still be open at its end, at most. A bracket that is closed on a later line counts, and
/// so does one in a text that is no bracket at all: only what is plainly closed does not.
fn left_open(line: &[u8]) -> usize {
    let all = line.iter().filter(|byte| b"[{".contains(byte)).count();
    if all == 0 {
        return 0;
    }
    // A tag may hold what looks like a bracket or a quote.
    if line.contains(&b'!') {
        return all;
    }
    // The line may begin inside of a text in quotes; one of the three is the truth.
    let starts = [None, Some(b'"'), Some(b'\'')];
    starts.into_iter().map(|start| read(line, start).unwrap_or(all)).max().unwrap_or(all)
}

/// `None` when it is not plain what is a quote and what is not.
fn read(line: &[u8], start: Option<u8>) -> Option<usize> {
    let mut quote = start;
    let (mut depth, mut is_flow) = (0_usize, start.is_some());
    // The character before, outside of quotes, and whether a blank stands between.
    let (mut before, mut blank) = (0_u8, true);
    let mut is_after_quote = false;
    let mut bytes = line.iter().copied().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if let Some(open) = quote {
            let is_escape = byte == b'\\' && open == b'"';
            let is_doubled = byte == b'\'' && open == b'\'' && line.get(at + 1) == Some(&b'\'');
            if is_escape || is_doubled {
                bytes.next();
            } else if byte == open {
                quote = None;
                (before, blank, is_after_quote) = (byte, false, true);
            }
            continue;
        }
        if byte == b' ' || byte == b'\t' {
            blank = true;
            continue;
        }
        if byte == b'#' && blank {
            // A comment closes nothing.
            let rest = line.get(at..).unwrap_or_default();
            return Some(depth + rest.iter().filter(|byte| b"[{".contains(byte)).count());
        }
        let was_quoted = std::mem::take(&mut is_after_quote);
        // The library stops at this error.
        if was_quoted && !b",:]}".contains(&byte) {
            return Some(depth);
        }
        let is_value = before == b':' && blank;
        match byte {
            b'"' | b'\'' => {
                let is_start = is_value || before == b'"' || (is_flow && b"[{,".contains(&before));
                if !is_start {
                    return None;
                }
                quote = Some(byte);
            }
            b'[' | b'{' => {
                is_flow = is_flow || is_value || before == 0 || (before == b'-' && blank);
                depth += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // `"a":"b"`: behind a name in quotes no blank is needed.
        before = if byte == b':' && was_quoted { b'"' } else { byte };
        blank = false;
    }
    Some(depth)
}

#[cfg(test)]
mod tests;
