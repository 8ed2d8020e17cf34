//! Limits the time for parsing YAML.
//!
//! For each token, the YAML library scans every open bracket, so 240 KB of nested brackets take 20 seconds. Its limit
//! on the depth applies only afterwards. This module therefore estimates the number of open brackets first, and never
//! too low.

/// The maximum product of open brackets and the length of the text. A release build needs about 10 ns for each unit.
const MAX_WORK: usize = 500_000_000;

/// The number of open brackets that is always allowed.
const ALWAYS_FINE: usize = 32;

/// Returns whether parsing the text takes a bounded time.
pub(super) fn is_affordable(text: &str) -> bool {
    let open = text.lines().fold(0_usize, |open, line| open.saturating_add(left_open(line.as_bytes())));
    open <= ALWAYS_FINE || open.saturating_mul(text.len()) <= MAX_WORK
}

/// Returns the maximum number of brackets of a line that may be open at its end. Brackets that a later line closes and
/// brackets inside of texts count as well.
fn left_open(line: &[u8]) -> usize {
    let all = line.iter().filter(|byte| b"[{".contains(byte)).count();
    if all == 0 {
        return 0;
    }
    // A tag may contain characters that look like brackets or quotes.
    if line.contains(&b'!') {
        return all;
    }
    // The line may begin inside of a quoted text, so all three cases are checked.
    let starts = [None, Some(b'"'), Some(b'\'')];
    starts.into_iter().map(|start| read(line, start).unwrap_or(all)).max().unwrap_or(all)
}

/// Returns `None` if quotes cannot be distinguished from other characters.
fn read(line: &[u8], start: Option<u8>) -> Option<usize> {
    let mut quote = start;
    let (mut depth, mut is_flow) = (0_usize, start.is_some());
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
            let rest = line.get(at..).unwrap_or_default();
            return Some(depth + rest.iter().filter(|byte| b"[{".contains(byte)).count());
        }
        let was_quoted = std::mem::take(&mut is_after_quote);
        // The library reports an error here.
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
        // In `"a":"b"`, no blank is needed after a quoted name.
        before = if byte == b':' && was_quoted { b'"' } else { byte };
        blank = false;
    }
    Some(depth)
}

#[cfg(test)]
mod tests;
