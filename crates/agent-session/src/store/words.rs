//! Splits texts into words for searches. Both stores use it.
//!
//! A word is a sequence of letters and digits in lower case. In scripts without spaces, each character is a word.

/// The maximum length of a word in characters. The rest of a longer one is ignored.
const LONGEST: usize = 64;

/// Returns the words of a text, each with its byte offset.
pub(super) fn words(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while rest.next_if(|(_, c)| !c.is_alphanumeric()).is_some() {}
        let (start, first) = rest.next()?;
        let mut word: String = first.to_lowercase().collect();
        if !stands_alone(first) {
            let mut length = 1;
            while let Some((_, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() && !stands_alone(*c)) {
                length += 1;
                if length <= LONGEST {
                    word.extend(c.to_lowercase());
                }
            }
        }
        // Lower case can add other characters, for example a combining dot.
        word.retain(char::is_alphanumeric);
        Some((start, word))
    })
    .filter(|(_, word)| !word.is_empty())
}

/// Returns whether a character belongs to a script without spaces: Han, Kana, Hangul, Thai and similar ones.
fn stands_alone(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF
        | 0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xAC00..=0xD7AF | 0xF900..=0xFAFF
        | 0x20000..=0x3FFFF)
}

/// Returns the distinct words of a query.
pub(super) fn asked(text: &str) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for (_, word) in words(text) {
        if !list.contains(&word) {
            list.push(word);
        }
    }
    list
}

/// Returns the offset of the first matching word if each of `asked` begins a word of the text.
pub(super) fn find(text: &str, asked: &[String]) -> Option<usize> {
    let mut open: Vec<&String> = asked.iter().collect();
    let mut first = None;
    for (at, word) in words(text) {
        let before = open.len();
        open.retain(|a| !word.starts_with(a.as_str()));
        if open.len() < before {
            first = first.or(Some(at));
        }
        if open.is_empty() {
            return first;
        }
    }
    None
}

/// The number of bytes that are shown before and after a match.
const AROUND: usize = 80;

/// Returns the text around an offset on one line.
pub(super) fn snippet(text: &str, at: usize) -> String {
    let mut from = at.saturating_sub(AROUND);
    let mut to = at.saturating_add(AROUND).min(text.len());
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    while !text.is_char_boundary(to) {
        to += 1;
    }
    let part = text.get(from..to).unwrap_or_default();
    let mut line = String::with_capacity(part.len() + 6);
    if from > 0 {
        line.push('…');
    }
    for (n, word) in part.split_whitespace().enumerate() {
        if n > 0 {
            line.push(' ');
        }
        line.push_str(word);
    }
    if to < text.len() {
        line.push('…');
    }
    line
}
