//! Rules about commands: patterns that are never run, and lists of commands that need no approval.
//!
//! A deny pattern is compared with words, not with characters: `rm -rf /` matches `rm  -fr  /` and `sudo rm -r -f //`,
//! but not `rm -rf /tmp/x` or `echo rm -rf /`. It prevents accidents and is easy to evade on purpose; use a sandbox or
//! a container against that.

mod disasters;
mod plain_line;
mod runs_only;

#[cfg(test)]
mod tests;

use std::fmt;

use super::shell_words::{program, simple_commands, unquoted_compact};
pub use runs_only::{plain_commands, runs_only};

/// A pattern of commands that are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenyPattern {
    text: String,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// A program with at least these options and operands.
    Command { program: String, options: Vec<String>, operands: Vec<String> },
    /// A program with an operand that begins with `prefix` and is not in `except`.
    Operand { program: String, prefix: String, except: Vec<String> },
    /// This text anywhere outside of quotes, ignoring blanks.
    Compact(String),
    /// One of the well-known disasters.
    Disaster(disasters::Disaster),
}

/// Devices that `dd` may write to without losing data.
const HARMLESS_DEVICES: [&str; 6] =
    ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/fd/", "/dev/shm/"];

impl DenyPattern {
    /// Creates a pattern from the words of a command: the program, its options in any order and form (`-rf`, `-f -r`,
    /// `--recursive --force`), and its operands in this order, with others allowed in between. A program also matches
    /// its variants with a dot: `mkfs` matches `mkfs.ext4`.
    #[must_use]
    pub fn command(words: &str) -> Self {
        let mut parts = words.split_whitespace();
        let program = parts.next().unwrap_or_default().to_owned();
        let (options, operands) = parts.map(str::to_owned).partition(|word| is_option(word));
        Self { text: words.to_owned(), rule: Rule::Command { program, options, operands } }
    }

    /// Creates a pattern for a program with an operand that begins with `prefix`.
    #[must_use]
    pub fn operand(program: &str, prefix: &str) -> Self {
        Self::operand_except(program, prefix, &[])
    }

    fn operand_except(program: &str, prefix: &str, except: &[&str]) -> Self {
        let except = except.iter().map(|device| format!("of={device}")).collect();
        let rule = Rule::Operand { program: program.to_owned(), prefix: prefix.to_owned(), except };
        Self { text: format!("{program} {prefix}"), rule }
    }

    /// Creates a pattern for a text that must not occur outside of quotes. Blanks are ignored.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), rule: Rule::Compact(text.split_whitespace().collect()) }
    }

    /// Returns the default patterns: well-known disasters for the machine or for all files of the user.
    ///
    /// - `rm -r`, `chmod -R`, `chown -R`, `chgrp -R`, `mv`, `find .. -delete` and `rsync --delete` on `/`, on a folder of
    ///   the system such as `/etc`, or on a home folder; `rm -r` also on `*`, `../*` and `$PWD`
    /// - writing to a disk: `dd`, `tee`, `cp`, `shred`, `wipefs`, `blkdiscard`, `>`; creating a file system
    /// - fork bombs, ending all processes, switching the machine off, and deleting all scheduled jobs
    ///
    /// Commands that are often meant, such as `git push --force`, are not included.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        let mut all = disasters::COMMANDS.map(Self::command).to_vec();
        all.push(Self::operand_except("dd", "of=/dev/", &HARMLESS_DEVICES));
        all.push(Self::text(":(){:|:&};:"));
        all.extend(disasters::ALL.map(|disaster| {
            let text = disaster.text().to_owned();
            Self { text, rule: Rule::Disaster(disaster) }
        }));
        all
    }

    /// Returns whether the pattern matches `command`.
    ///
    /// ```
    /// use agent_tools::DenyPattern;
    /// let pattern = DenyPattern::command("git push --force");
    /// assert!(pattern.matches("cd repo && git push origin main --force"));
    /// assert!(!pattern.matches("git commit -m 'git push --force'"));
    /// ```
    #[must_use]
    pub fn matches(&self, command: &str) -> bool {
        self.matches_split(command, &simple_commands(command))
    }

    fn matches_split(&self, command: &str, commands: &[Vec<String>]) -> bool {
        match &self.rule {
            Rule::Compact(text) => !text.is_empty() && unquoted_compact(command).contains(text.as_str()),
            Rule::Disaster(disaster) => disaster.is_in(command, commands),
            Rule::Command { .. } | Rule::Operand { .. } => {
                commands.iter().any(|words| self.matches_words(words))
            }
        }
    }

    fn matches_words(&self, words: &[String]) -> bool {
        let Some((first, rest)) = words.split_first() else { return false };
        match &self.rule {
            Rule::Command { program: wanted, options, operands } => {
                let given: Vec<&String> = rest.iter().filter(|word| is_option(word)).collect();
                is_program(first, wanted)
                    && options.iter().all(|option| has_option(&given, option))
                    && has_operands(rest, operands)
            }
            Rule::Operand { program: wanted, prefix, except } => {
                is_program(first, wanted)
                    && rest.iter().map(|word| plain_value(word)).any(|word| {
                        word.starts_with(prefix)
                            && !except.iter().any(|harmless| is_harmless(&word, harmless))
                    })
            }
            Rule::Compact(_) | Rule::Disaster(_) => false,
        }
    }
}

impl fmt::Display for DenyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the first pattern that matches `command`.
pub(super) fn first_match<'a>(
    patterns: impl IntoIterator<Item = &'a DenyPattern>,
    command: &str,
) -> Option<&'a DenyPattern> {
    let commands = simple_commands(command);
    patterns.into_iter().find(|pattern| pattern.matches_split(command, &commands))
}

fn is_harmless(word: &str, harmless: &str) -> bool {
    if harmless.ends_with('/') {
        word.starts_with(harmless) && !word.contains("..")
    } else {
        word == harmless
    }
}

fn is_program(word: &str, wanted: &str) -> bool {
    let name = program(word);
    !wanted.is_empty()
        && (name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.')))
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// Returns whether the given options include `wanted`: a long option also with a value, short ones in any grouping.
fn has_option(given: &[&String], wanted: &str) -> bool {
    if wanted.starts_with("--") {
        return given.iter().any(|word| word.as_str() == wanted || word.split('=').next() == Some(wanted));
    }
    wanted.chars().skip(1).all(|letter| {
        given.iter().any(|word| match word.strip_prefix("--") {
            Some(long) => long_form(letter).is_some_and(|name| name == long),
            None => word.chars().skip(1).any(|c| c == letter || (letter == 'r' && c == 'R')),
        })
    })
}

/// Returns the long name of an option letter of the default patterns.
fn long_form(letter: char) -> Option<&'static str> {
    match letter {
        'r' | 'R' => Some("recursive"),
        'f' => Some("force"),
        _ => None,
    }
}

fn has_operands(given: &[String], wanted: &[String]) -> bool {
    let mut given = given.iter().filter(|word| !is_option(word)).map(|word| plain_path(word));
    wanted.iter().all(|operand| {
        let operand = plain_path(operand);
        given.any(|word| word == operand)
    })
}

/// The same for the value of `name=value`.
fn plain_value(word: &str) -> String {
    match word.split_once('=') {
        Some((name, value)) => format!("{name}={}", plain_path(value)),
        None => word.to_owned(),
    }
}

/// Removes `//`, `.` and `..` from a word that is an absolute path. Returns other words unchanged.
pub(super) fn plain_path(word: &str) -> String {
    if !word.starts_with('/') {
        return word.to_owned();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in word.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
