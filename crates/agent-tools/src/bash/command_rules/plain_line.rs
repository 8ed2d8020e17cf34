//! Reads command lines that mean the same to every reader, and refuses all others.
//!
//! A plain line consists of words, quotes, and the separators `;`, `&&`, `||`, `|` and line ends. Everything by which
//! bash could do more than start the first word of each command with the others as its arguments makes a line not plain.

/// Returns the words of each command, or `None` if the line is not plain.
pub(super) fn commands(line: &str) -> Option<Vec<Vec<String>>> {
    let mut reader = Reader::default();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => reader.end_word(),
            '\n' => reader.end_line()?,
            ';' => reader.end_command(After::Anything)?,
            '|' | '&' if chars.next_if_eq(&c).is_some() => reader.end_command(After::Command)?,
            '|' => reader.end_command(After::Command)?,
            '\'' | '"' => reader.word().push_str(&quoted(c, &mut chars)?),
            c if is_plain(c, reader.word.as_deref()) => reader.word().push(c),
            _ => return None,
        }
    }
    reader.end_line()?;
    Some(reader.commands)
}

/// What must follow a separator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum After {
    #[default]
    Anything,
    /// A command on the same line.
    Command,
}

#[derive(Default)]
struct Reader {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    after: After,
}

impl Reader {
    fn word(&mut self) -> &mut String {
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_line(&mut self) -> Option<()> {
        self.end_word();
        if self.words.is_empty() {
            return (self.after == After::Anything).then_some(());
        }
        self.end_command(After::Anything)
    }

    fn end_command(&mut self, after: After) -> Option<()> {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if words.is_empty() || words.iter().any(|word| is_assignment(word)) || is_reserved(words.first()?) {
            return None;
        }
        self.commands.push(words);
        self.after = after;
        Some(())
    }
}

/// Returns whether the character stands for itself outside of quotes. Globs, braces, expansions, escapes, redirections,
/// groups, comments, history, control characters and everything outside of ASCII do not.
fn is_plain(c: char, word: Option<&str>) -> bool {
    match c {
        '_' | '-' | '+' | '.' | ',' | '/' | ':' | '@' | '%' | '=' => true,
        // At the beginning of a word, or behind these characters, it is a home folder.
        '~' | '^' => word.is_some_and(|word| !word.is_empty() && !word.ends_with([':', '='])),
        c => c.is_ascii_alphanumeric(),
    }
}

/// Returns the text up to the closing quote.
fn quoted(quote: char, chars: &mut impl Iterator<Item = char>) -> Option<String> {
    let mut text = String::new();
    loop {
        match chars.next()? {
            c if c == quote => return Some(text),
            '$' | '`' | '\\' | '!' if quote == '"' => return None,
            c if c.is_control() || (c.is_whitespace() && c != ' ') => return None,
            c => text.push(c),
        }
    }
}

/// Returns whether the word is `NAME=value`, which sets a variable in front of a command.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The words with which bash begins something else than a simple command.
const RESERVED: [&str; 20] = [
    "if", "then", "elif", "else", "fi", "time", "for", "in", "until", "while", "do", "done", "case", "esac",
    "coproc", "select", "function", "[[", "]]", "!",
];

fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || matches!(word, "{" | "}")
}

#[cfg(test)]
mod tests;
