//! Reading Rust source without a compiler: code without comments and strings, comments without code, and tests with their doc comments.

/// The same text with every comment and the inside of every text and character literal blanked. Lines and columns
/// (in characters) stay where they were.
pub(crate) fn code_only(source: &str) -> String {
    split(source).0
}

/// The same text with everything but the comments blanked. Lines and columns stay where they were.
pub(crate) fn comments_only(source: &str) -> String {
    split(source).1
}

/// The code and the comments of a source file, each with the rest blanked.
fn split(source: &str) -> (String, String) {
    let blank = |c: &char| if *c == '\n' { '\n' } else { ' ' };
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut comments = String::with_capacity(source.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let end = match (c, chars.get(at + 1)) {
            ('/', Some('/')) => line_end(&chars, at),
            ('/', Some('*')) => block_comment_end(&chars, at),
            ('"', _) => string_end(&chars, at),
            ('r', Some('"' | '#')) if starts_word(&chars, at) => match raw_string_end(&chars, at) {
                Some(end) => end,
                None => at,
            },
            ('b', Some('r')) if starts_word(&chars, at) => match raw_string_end(&chars, at + 1) {
                Some(end) => end,
                None => at,
            },
            ('\'', _) => char_end(&chars, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            code.push(c);
            comments.push(blank(&c));
            at += 1;
        } else {
            let part = &chars[at..end];
            code.extend(part.iter().map(blank));
            if c == '/' {
                comments.extend(part);
            } else {
                comments.extend(part.iter().map(blank));
            }
            at = end;
        }
    }
    (code, comments)
}

fn starts_word(chars: &[char], at: usize) -> bool {
    at == 0 || !chars.get(at - 1).is_some_and(|c| c.is_alphanumeric() || *c == '_')
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars.iter().skip(at).position(|c| *c == '\n').map_or(chars.len(), |n| at + n)
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                at += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    chars.len()
}

fn string_end(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], start: usize) -> Option<usize> {
    let hashes = chars.iter().skip(start + 1).take_while(|c| **c == '#').count();
    if chars.get(start + 1 + hashes) != Some(&'"') {
        return None;
    }
    let mut at = start + 2 + hashes;
    while at < chars.len() {
        if chars[at] == '"' && chars.iter().skip(at + 1).take(hashes).filter(|c| **c == '#').count() == hashes
        {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(chars.len())
}

/// The end of a character literal, or `None` for a lifetime.
fn char_end(chars: &[char], start: usize) -> Option<usize> {
    match (chars.get(start + 1)?, chars.get(start + 2)) {
        ('\\', _) => chars.iter().skip(start + 3).position(|c| *c == '\'').map(|n| start + 4 + n),
        (_, Some('\'')) => Some(start + 3),
        _ => None,
    }
}

/// The first line (from 1) at which each occurrence of `word` stands as a word of its own. A `word` that begins or
/// ends with something else than a letter is matched as it is on that side.
pub(crate) fn lines_with(code: &str, word: &str) -> Vec<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut from = 0;
        while let Some(at) = line.get(from..).and_then(|rest| rest.find(word)) {
            let start = from + at;
            let end = start + word.len();
            let joined_before = word.starts_with(is_word)
                && line.get(..start).and_then(|s| s.chars().next_back()).is_some_and(is_word);
            let joined_after = word.ends_with(is_word)
                && line.get(end..).and_then(|s| s.chars().next()).is_some_and(is_word);
            if !joined_before && !joined_after {
                found.push(number + 1);
                break;
            }
            from = end;
        }
    }
    found
}

/// A test function and what its doc comment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestFunction {
    /// Its name.
    pub(crate) name: String,
    /// The line of its `fn`, from 1.
    pub(crate) line: usize,
    /// The lines of its doc comment without the slashes.
    pub(crate) docs: String,
}

/// The tests in a file: functions under an attribute that ends in `test` or `test(...)`, in `proptest!` too.
pub(crate) fn tests_in(source: &str) -> Vec<TestFunction> {
    let code = code_only(source);
    let mut found = Vec::new();
    let mut docs = String::new();
    let mut is_test = false;
    let mut open = 0_i32;
    for (number, (raw, line)) in source.lines().zip(code.lines()).enumerate() {
        let trimmed = line.trim();
        if open > 0 {
            open += brackets(trimmed);
            continue;
        }
        let said = raw.trim_start();
        if let Some(text) = said.strip_prefix("///") {
            docs.push_str(text.trim());
            docs.push('\n');
        } else if trimmed.starts_with("#[") {
            is_test |= is_test_attribute(trimmed);
            open = brackets(trimmed);
        } else if let Some(name) = function_name(trimmed) {
            if is_test {
                found.push(TestFunction { name, line: number + 1, docs: std::mem::take(&mut docs) });
            }
            docs.clear();
            is_test = false;
        } else if !trimmed.is_empty() || said.is_empty() {
            docs.clear();
            is_test = false;
        }
    }
    found
}

fn brackets(line: &str) -> i32 {
    line.chars().map(|c| i32::from(c == '[') - i32::from(c == ']')).sum()
}

fn is_test_attribute(line: &str) -> bool {
    let inner = line.trim_start_matches("#[");
    let path: String = inner.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect();
    path == "test" || path.ends_with("::test")
}

fn function_name(line: &str) -> Option<String> {
    let mut rest = line;
    for prefix in ["pub(crate) ", "pub ", "async "] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
