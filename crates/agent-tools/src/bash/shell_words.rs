//! Splits a command line into simple commands, as far as the command rules need it.
//!
//! It handles quotes, escapes, comments, separators, command substitution, and wrappers such as `sudo`. It does not
//! expand variables and does not follow functions.

/// The maximum depth of commands inside of commands.
const MAX_DEPTH: usize = 4;

/// The maximum number of bytes to split in total. Nested commands can multiply.
const MAX_BYTES: usize = 4 * super::MAX_COMMAND_BYTES;

/// The maximum number of readings of the words after wrappers.
const MAX_READINGS: usize = 4;

/// Returns the words of each simple command in `command`, without quotes. Redirections are included as words.
pub(super) fn simple_commands(command: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut left = MAX_BYTES;
    collect(command, MAX_DEPTH, &mut left, &mut found);
    found
}

/// Returns `command` without blanks and without quoted text.
pub(super) fn unquoted_compact(command: &str) -> String {
    let mut out = String::new();
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => drop(chars.next()),
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c.is_whitespace() => {}
            (None, c) => out.push(c),
        }
    }
    out
}

fn collect(command: &str, depth: usize, left: &mut usize, found: &mut Vec<Vec<String>>) {
    let Some(rest) = left.checked_sub(command.len()) else { return };
    *left = rest;
    for words in split(command) {
        for words in without_wrappers(&words) {
            if depth > 0
                && let Some(inner) = handed_to_shell(words)
            {
                collect(&inner, depth - 1, left, found);
            }
            found.push(words.to_vec());
        }
    }
}

/// Returns the simple commands in order. The content of a command substitution is a command of its own.
fn split(command: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => match chars.next() {
                // A line continuation.
                Some('\n') | None => {}
                Some(c) => word.get_or_insert_default().push(c),
            },
            // Both begin or end a command, also in double quotes. A quote that continues after it is treated as closed,
            // which can only yield an additional command.
            (_, '`') => end_command(&mut commands, &mut word),
            (_, '$') if chars.peek() == Some(&'(') => {
                chars.next();
                quote = None;
                end_command(&mut commands, &mut word);
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            // `2>&1` and `&>file` do not end a command.
            (None, '&') if word.as_deref().is_some_and(|word| word.ends_with(['>', '<'])) => {
                word.get_or_insert_default().push('&');
            }
            // `>|` writes to a file, too.
            (None, '|') if word.as_deref().is_some_and(|word| word.ends_with('>')) => {
                word.get_or_insert_default().push('|');
            }
            (None, '&') if chars.peek() == Some(&'>') => word.get_or_insert_default().push('&'),
            (None, ';' | '|' | '&' | '\n' | '(' | ')') => end_command(&mut commands, &mut word),
            // Bash ends a word at these two only: other white space is a part of it.
            (None, ' ' | '\t') => end_word(&mut commands, &mut word),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    end_command(&mut commands, &mut word);
    commands.retain(|words| !words.is_empty());
    commands
}

fn end_word(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(words), Some(word)) = (commands.last_mut(), word.take()) {
        words.push(word);
    }
}

fn end_command(commands: &mut Vec<Vec<String>>, word: &mut Option<String>) {
    end_word(commands, word);
    commands.push(Vec::new());
}

/// Words in front of a command that run it.
const WRAPPERS: [&str; 20] = [
    "sudo", "doas", "env", "nohup", "nice", "ionice", "time", "exec", "command", "builtin", "setsid",
    "stdbuf", "timeout", "xargs", "{", "then", "do", "else", "if", "!",
];

/// Returns the command after wrappers, their options and assignments. Whether an option takes the next word as its
/// value depends on the wrapper, so both readings are returned.
fn without_wrappers(words: &[String]) -> Vec<&[String]> {
    let mut readings = Vec::new();
    let mut after_wrapper = false;
    let mut after_option = false;
    for (at, word) in words.iter().enumerate() {
        let rest = words.get(at..).unwrap_or_default();
        let is_wrapper = WRAPPERS.contains(&program(word));
        let is_option =
            after_wrapper && (word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit()));
        if is_wrapper || is_option || is_assignment(word) {
            after_wrapper |= is_wrapper;
            after_option = is_option && word.starts_with('-');
            continue;
        }
        readings.push(rest);
        if !after_option || readings.len() == MAX_READINGS {
            break;
        }
        after_option = false;
    }
    readings
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Returns the last component of a program's path.
pub(super) fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the command in the arguments of `sh -c`, `bash -c` or `eval`.
fn handed_to_shell(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    match program(first) {
        "eval" => Some(rest.join(" ")),
        "sh" | "bash" | "dash" | "zsh" | "ksh" => {
            let option =
                |word: &&String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
            let at = rest.iter().position(|word| option(&word))?;
            rest.get(at + 1).cloned()
        }
        _ => None,
    }
}
