//! Limits the time and the memory for parsing YAML.
//!
//! For each token, the YAML library scans every open bracket, so 240 KB of nested brackets take 20 seconds. Its limit
//! on the depth applies only afterwards. This module therefore estimates the number of open brackets first, and never
//! too low.

use super::MAX_SPEC_VALUES;

/// The maximum product of open brackets and the length of the text. A release build needs about 10 ns for each unit.
const MAX_WORK: usize = 500_000_000;

/// The number of open brackets that is always allowed.
const ALWAYS_FINE: usize = 32;

/// Returns whether parsing the text takes a bounded time.
pub(super) fn is_affordable(text: &str) -> bool {
    let (mut open, mut work) = (0_usize, 0_usize);
    for line in text.lines() {
        let brackets = brackets(line.as_bytes());
        let most = open.saturating_add(brackets.most);
        if most > ALWAYS_FINE {
            work = work.saturating_add(most.saturating_mul(line.len() + 1));
            if work > MAX_WORK {
                return false;
            }
        }
        open = open.saturating_add(brackets.left);
    }
    true
}

/// Returns whether the library would need too much memory for the text, which it splits into parts before it builds any
/// value. Each part is near a line end, a comma, a bracket or an indicator. Those in texts count as well, so twice the
/// number of values is allowed.
pub(super) fn has_too_many_parts(text: &str) -> bool {
    let bytes = text.as_bytes();
    let marks = bytes.iter().filter(|byte| b"\n\r,[{".contains(byte)).count();
    let indicators = bytes.windows(2).filter(|pair| matches!(pair, [b'-' | b'?', b' ' | b'\t'])).count();
    marks.saturating_add(indicators) > 2 * MAX_SPEC_VALUES
}

/// The open brackets of a line. Brackets that a later line closes and brackets inside of texts count as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Brackets {
    /// The maximum number that may be open at the end of the line.
    left: usize,
    /// The maximum number that may be open anywhere within the line.
    most: usize,
}

impl Brackets {
    fn max(self, other: Self) -> Self {
        Self { left: self.left.max(other.left), most: self.most.max(other.most) }
    }
}

fn brackets(line: &[u8]) -> Brackets {
    let all = count(line);
    let unknown = Brackets { left: all, most: all };
    // A tag may contain characters that look like brackets or quotes.
    if all == 0 || line.contains(&b'!') {
        return unknown;
    }
    // The line may begin inside of a quoted text, so all three cases are checked.
    let starts = [None, Some(b'"'), Some(b'\'')];
    starts
        .into_iter()
        .map(|start| read(line, start).unwrap_or(unknown))
        .fold(Brackets::default(), Brackets::max)
}

fn count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| b"[{".contains(byte)).count()
}

/// Returns `None` if quotes cannot be distinguished from other characters.
fn read(line: &[u8], start: Option<u8>) -> Option<Brackets> {
    let mut quote = start;
    let (mut depth, mut most, mut is_flow) = (0_usize, 0_usize, start.is_some());
    // The previous character outside of quotes, and whether a blank follows it.
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
            // A comment closes no brackets.
            let left = depth + count(line.get(at..).unwrap_or_default());
            return Some(Brackets { left, most: most.max(left) });
        }
        let was_quoted = std::mem::take(&mut is_after_quote);
        // The library reports an error here.
        if was_quoted && !b",:]}".contains(&byte) {
            return Some(Brackets { left: depth, most });
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
                most = most.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // In `"a":"b"`, no blank is needed after a quoted name.
        before = if byte == b':' && was_quoted { b'"' } else { byte };
        blank = false;
    }
    Some(Brackets { left: depth, most })
}

#[cfg(test)]
mod tests;
