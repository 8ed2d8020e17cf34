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
        collect_words(&words, depth, left, found);
        // A quoted word can look like a redirection, so both readings count.
        let plain = without_redirections(&words);
        if plain != words {
            collect_words(&plain, depth, left, found);
        }
    }
}

fn collect_words(words: &[String], depth: usize, left: &mut usize, found: &mut Vec<Vec<String>>) {
    if depth > 0
        && let Some(inner) = handed_to_env(words)
    {
        collect(&inner, depth - 1, left, found);
    }
    for words in without_wrappers(words) {
        if depth > 0 {
            if let Some(inner) = handed_to_shell(words) {
                collect(&inner, depth - 1, left, found);
            }
            for inner in run_by_find(words) {
                collect_words(inner, depth - 1, left, found);
            }
        }
        found.push(words.to_vec());
    }
}

/// Returns the simple commands that the arguments of `find` run.
pub(super) fn commands_of_find(words: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut left = MAX_BYTES;
    for inner in run_by_find(words) {
        collect_words(inner, MAX_DEPTH, &mut left, &mut found);
    }
    found
}

/// Returns the words behind each `-exec`, up to its end.
fn run_by_find(words: &[String]) -> Vec<&[String]> {
    let rest = match words.split_first() {
        Some((first, rest)) if program(first) == "find" => rest,
        _ => return Vec::new(),
    };
    let runs = |word: &String| matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let behind = rest.iter().enumerate().filter(|(_, word)| runs(word)).map(|(at, _)| at + 1);
    let behind = behind.filter_map(|at| rest.get(at..)).take(MAX_READINGS);
    behind
        .map(|words| words.split(|word| matches!(word.as_str(), ";" | "+")).next().unwrap_or_default())
        .collect()
}

/// Returns the words without redirections and their targets.
fn without_redirections(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut is_target = false;
    for word in words {
        if std::mem::take(&mut is_target) {
            continue;
        }
        let Some(at) = word.find(['<', '>']) else {
            kept.push(word.clone());
            continue;
        };
        let (before, behind) = word.split_at(at);
        let is_descriptor = before == "&"
            || before.starts_with('{') && before.ends_with('}')
            || before.chars().all(|c| c.is_ascii_digit());
        if !is_descriptor {
            kept.push(before.to_owned());
        }
        is_target = behind.trim_start_matches(['<', '>', '&', '|']).is_empty();
    }
    kept
}

/// Returns the simple commands in order. The content of a command substitution is a command of its own.
fn split(command: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    // The end of each substitution that is open, and the quote around it.
    let mut open: Vec<(char, Option<char>)> = Vec::new();
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
            // Substitutions begin and end a command, also in double quotes. What follows in the quotes is no command.
            (_, '`') => {
                end_command(&mut commands, &mut word);
                match open.pop_if(|(end, _)| *end == '`') {
                    Some((_, around)) => quote = around,
                    None => open.push(('`', quote.take())),
                }
                continue_quoted(quote, &mut commands);
            }
            (_, '$') if chars.peek() == Some(&'(') => {
                chars.next();
                open.push((')', quote.take()));
                end_command(&mut commands, &mut word);
            }
            (None, '(') => {
                open.push((')', None));
                end_command(&mut commands, &mut word);
            }
            (None, ')') => {
                end_command(&mut commands, &mut word);
                quote = open.pop_if(|(end, _)| *end == ')').and_then(|(_, around)| around);
                continue_quoted(quote, &mut commands);
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
            (None, ';' | '|' | '&' | '\n') => end_command(&mut commands, &mut word),
            // Bash ends a word at these two only: other white space is a part of it.
            (None, ' ' | '\t') => end_word(&mut commands, &mut word),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    end_command(&mut commands, &mut word);
    commands.retain(|words| !words.is_empty());
    commands
}

/// Marks the text of a quote that continues after a substitution, so that it is not the beginning of a command.
fn continue_quoted(quote: Option<char>, commands: &mut [Vec<String>]) {
    if let (Some(_), Some(words)) = (quote, commands.last_mut()) {
        words.push(String::new());
    }
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
const WRAPPERS: [&str; 36] = [
    "sudo",
    "doas",
    "env",
    "nohup",
    "nice",
    "ionice",
    "time",
    "exec",
    "command",
    "builtin",
    "setsid",
    "stdbuf",
    "timeout",
    "xargs",
    "{",
    "then",
    "do",
    "else",
    "elif",
    "if",
    "!",
    "while",
    "until",
    "coproc",
    "pkexec",
    "busybox",
    "toybox",
    "unshare",
    "nsenter",
    "setpriv",
    "taskset",
    "chrt",
    "strace",
    "watch",
    "fakeroot",
    "caffeinate",
];

/// Wrappers with an operand of their own before the command.
const WITH_OPERAND: [&str; 3] = ["chroot", "flock", "function"];

/// Returns the command after wrappers, their options and assignments. Whether an option takes the next word as its
/// value depends on the wrapper, so both readings are returned.
fn without_wrappers(words: &[String]) -> Vec<&[String]> {
    let mut readings = Vec::new();
    let mut after_wrapper = false;
    let mut after_option = false;
    let mut operand = false;
    let is_named = words.first().is_some_and(|word| word == "coproc");
    for (at, word) in words.iter().enumerate() {
        let rest = words.get(at..).unwrap_or_default();
        let has_operand = WITH_OPERAND.contains(&program(word));
        let is_wrapper = WRAPPERS.contains(&program(word)) || has_operand;
        let is_option =
            after_wrapper && (word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit()));
        if is_wrapper || is_option || is_assignment(word) {
            after_wrapper |= is_wrapper;
            after_option = is_option && word.starts_with('-');
            operand |= has_operand;
            continue;
        }
        readings.push(rest);
        // The word can also be an operand, or the name before a group.
        let is_name = is_named && words.get(at + 1).is_some_and(|next| next == "{");
        if !(after_option || operand || is_name) || readings.len() == MAX_READINGS {
            break;
        }
        operand &= after_option;
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

/// Returns the command in the arguments of `sh -c`, `bash -c`, `su -c` or `eval`.
fn handed_to_shell(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    match program(first) {
        "eval" => Some(rest.join(" ")),
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "su" | "runuser" => {
            let option = |word: &String| {
                word == "--command" || word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
            };
            if let Some(given) = rest.iter().find_map(|word| word.strip_prefix("--command=")) {
                return Some(given.to_owned());
            }
            let at = rest.iter().position(option)?;
            // Further options may follow.
            rest.get(at + 1..)?.iter().find(|word| !word.starts_with('-')).cloned()
        }
        _ => None,
    }
}

/// Returns the command in the arguments of `env -S`.
fn handed_to_env(words: &[String]) -> Option<String> {
    let at = words.iter().position(|word| program(word) == "env")?;
    let rest = words.get(at + 1..)?;
    rest.iter().enumerate().find_map(|(at, word)| {
        let behind = rest.get(at + 1..).unwrap_or_default().join(" ");
        if word == "--split-string" || word.starts_with('-') && !word.starts_with("--") && word.ends_with('S')
        {
            return Some(behind);
        }
        let given = word.strip_prefix("--split-string=").or_else(|| word.strip_prefix("-S"))?;
        Some(format!("{given} {behind}"))
    })
}
