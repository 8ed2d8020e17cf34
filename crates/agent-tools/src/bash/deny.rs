//! Commands that are never run (REQ-094, REQ-139).
//!
//! A pattern is compared with words, not with letters: `rm -rf /` is found in `rm  -fr  /` and `sudo rm -r -f //`,
//! and not in `rm -rf /tmp/x` or `echo rm -rf /`. It is a guard against accidents. Somebody who wants to get
//! around it can; use a container or another account against that.

use std::fmt;

use super::shell_words::{program, simple_commands, unquoted_compact};

/// Something that a command must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenyPattern {
    text: String,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// A program with at least these options and operands.
    Command { program: String, options: Vec<String>, operands: Vec<String> },
    /// A program that is given an operand that begins so, but is none of these.
    Operand { program: String, prefix: String, except: Vec<String> },
    /// This text anywhere outside of quotes, blanks not counted.
    Compact(String),
}

/// Devices that `dd` may write to: nothing is lost there.
const HARMLESS_DEVICES: [&str; 6] =
    ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/fd/", "/dev/shm/"];

impl DenyPattern {
    /// A command with these words: the program, options in any order and any form (`-rf`, `-f -r`,
    /// `--recursive --force`), and operands in this order, perhaps with others between. A program also stands for its
    /// variants behind a dot: `mkfs` is `mkfs.ext4`, too.
    #[must_use]
    pub fn command(words: &str) -> Self {
        let mut parts = words.split_whitespace();
        let program = parts.next().unwrap_or_default().to_owned();
        let (options, operands) = parts.map(str::to_owned).partition(|word| is_option(word));
        Self { text: words.to_owned(), rule: Rule::Command { program, options, operands } }
    }

    /// A program with an operand that begins with `prefix`.
    #[must_use]
    pub fn operand(program: &str, prefix: &str) -> Self {
        Self::operand_except(program, prefix, &[])
    }

    fn operand_except(program: &str, prefix: &str, except: &[&str]) -> Self {
        let except = except.iter().map(|device| format!("of={device}")).collect();
        let rule = Rule::Operand { program: program.to_owned(), prefix: prefix.to_owned(), except };
        Self { text: format!("{program} {prefix}"), rule }
    }

    /// A text that must not stand outside of quotes; blanks do not count.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), rule: Rule::Compact(text.split_whitespace().collect()) }
    }

    /// The usual patterns: deleting everything, making a file system, writing over a device, a fork bomb.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        vec![
            Self::command("rm -rf /"),
            Self::command("rm -rf /*"),
            Self::command("rm -r /"),
            Self::command("rm -r /*"),
            Self::command("mkfs"),
            Self::operand_except("dd", "of=/dev/", &HARMLESS_DEVICES),
            Self::text(":(){:|:&};:"),
        ]
    }

    /// Whether `command` is denied.
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
                    && rest.iter().any(|word| {
                        word.starts_with(prefix) && !except.iter().any(|harmless| is_harmless(word, harmless))
                    })
            }
            Rule::Compact(_) => false,
        }
    }
}

impl fmt::Display for DenyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The first of the patterns that denies `command`.
pub(super) fn first_match<'a>(patterns: &'a [DenyPattern], command: &str) -> Option<&'a DenyPattern> {
    let commands = simple_commands(command);
    patterns.iter().find(|pattern| pattern.matches_split(command, &commands))
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

/// Whether the given options hold `wanted`: a long one also with a value, short ones in any grouping.
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

/// The long names of the letters that the usual patterns use.
fn long_form(letter: char) -> Option<&'static str> {
    match letter {
        'r' => Some("recursive"),
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

/// A word that is an absolute path, without `//`, `.` and `..`; another word as it is.
fn plain_path(word: &str) -> String {
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
