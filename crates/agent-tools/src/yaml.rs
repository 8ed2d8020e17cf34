//! Limits the time and the memory for parsing YAML of others.
//!
//! For each token, the YAML library scans every open bracket, so 240 KB of nested brackets take 20 seconds. Its limit
//! on the depth applies only afterwards. This module therefore estimates the number of open brackets first, and never
//! too low. [`Tree`] then limits what aliases expand to.

mod tree;

pub(crate) use tree::{Budget, Tree};
#[cfg(feature = "openapi")]
pub(crate) use tree::{Limit, merged};

/// The number of open brackets that is always allowed.
const ALWAYS_FINE: usize = 32;

/// Returns whether parsing the text takes a bounded time: at most `max_work` is the product of the text's length and the open
/// brackets, if more than 32 are open. A release build needs about 10 ns for each unit.
pub(crate) fn is_affordable(text: &str, max_work: usize) -> bool {
    let (mut open, mut work) = (0_usize, 0_usize);
    for line in text.lines() {
        let brackets = brackets(line.as_bytes());
        let most = open.saturating_add(brackets.most);
        if most > ALWAYS_FINE {
            work = work.saturating_add(most.saturating_mul(line.len() + 1));
            if work > max_work {
                return false;
            }
        }
        open = open.saturating_add(brackets.left);
    }
    true
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
