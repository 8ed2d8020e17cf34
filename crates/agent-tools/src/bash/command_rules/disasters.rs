//! The default deny patterns.

use super::plain_path;
use crate::bash::shell_words::{commands_of_find, program, unquoted_compact};

/// Commands that are refused with these options and operands.
pub(super) const COMMANDS: [&str; 18] = [
    "rm -rf /",
    "rm -rf /*",
    "rm -r /",
    "rm -r /*",
    "mkfs",
    "mke2fs",
    "mkswap",
    "shutdown",
    "reboot",
    "poweroff",
    "halt",
    "systemctl poweroff",
    "systemctl reboot",
    "systemctl halt",
    "crontab -r",
    "zpool destroy",
    "cryptsetup luksFormat",
    "diskutil eraseDisk",
];

/// A class of commands that destroy the machine or all files of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disaster {
    /// A recursive removal of a place.
    Remove,
    /// A recursive change of modes or owners of a place.
    Change(&'static str),
    /// A place that is moved away.
    Move,
    /// A search in a place that deletes what it finds.
    FindAndDelete,
    /// A synchronization that deletes in a place.
    Synchronize,
    /// A program that overwrites a disk.
    OverwriteDisk(&'static str),
    /// Output that is redirected to a disk.
    RedirectToDisk,
    /// A function that calls itself twice in the background.
    ForkBomb,
    /// A signal to all processes.
    KillAll,
    /// A disk that `diskutil` erases. It ignores the case of its verbs.
    EraseDisk,
}

/// All classes.
pub(super) const ALL: [Disaster; 18] = [
    Disaster::Remove,
    Disaster::Change("chmod"),
    Disaster::Change("chown"),
    Disaster::Change("chgrp"),
    Disaster::Move,
    Disaster::FindAndDelete,
    Disaster::Synchronize,
    Disaster::OverwriteDisk("tee"),
    Disaster::OverwriteDisk("cp"),
    Disaster::OverwriteDisk("mv"),
    Disaster::OverwriteDisk("shred"),
    Disaster::OverwriteDisk("wipefs"),
    Disaster::OverwriteDisk("blkdiscard"),
    Disaster::OverwriteDisk("truncate"),
    Disaster::RedirectToDisk,
    Disaster::ForkBomb,
    Disaster::KillAll,
    Disaster::EraseDisk,
];

/// Folders directly below `/` that belong to the system or contain the homes of users.
const SYSTEM: [&str; 21] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
    "Applications",
    "Library",
    "System",
    "Users",
];

/// Folders with the homes of users.
const HOMES: [&str; 2] = ["home", "Users"];

/// The beginnings of the names of disks in `/dev`.
const DISKS: [&str; 12] =
    ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "mapper/", "md", "dm-", "loop"];

/// The verbs of `diskutil` that erase a disk.
const ERASES: [&str; 4] = ["eraseDisk", "zeroDisk", "randomDisk", "secureErase"];

impl Disaster {
    /// Returns the text of the pattern, which the model sees.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Remove => "rm -r of a system folder, a home folder or *",
            Self::Change("chmod") => "chmod -R of /",
            Self::Change("chown") => "chown -R of /",
            Self::Change(_) => "chgrp -R of /",
            Self::Move => "mv of / or ~",
            Self::FindAndDelete => "find / -delete",
            Self::Synchronize => "rsync --delete to / or ~",
            Self::OverwriteDisk(_) => "writing to a disk",
            Self::RedirectToDisk => "> /dev/sda",
            Self::ForkBomb => ":(){ :|:& };:",
            Self::KillAll => "kill -1",
            Self::EraseDisk => "diskutil eraseDisk",
        }
    }

    /// Returns whether the command line contains the disaster. `commands` are the words of its simple commands.
    pub(super) fn is_in(self, line: &str, commands: &[Vec<String>]) -> bool {
        match self {
            Self::ForkBomb => has_fork_bomb(&unquoted_compact(line)),
            Self::RedirectToDisk => commands.iter().any(|words| redirects_to_disk(words)),
            _ => commands.iter().any(|words| self.matches(words)),
        }
    }

    fn matches(self, words: &[String]) -> bool {
        let Some((first, rest)) = words.split_first() else { return false };
        let operands = || rest.iter().filter(|word| !word.starts_with('-')).map(|word| Place::of(word));
        let named = |name: &str| program(first) == name;
        match self {
            Self::Remove => {
                named("rm") && is_recursive(rest) && operands().any(|place| place != Place::Other)
            }
            Self::Change(name) => named(name) && is_recursive(rest) && operands().any(Place::is_wide),
            Self::Move => {
                named("mv") && moved(rest).into_iter().map(|word| Place::of(word)).any(Place::is_wide)
            }
            Self::FindAndDelete => {
                let deletes = || {
                    let mut inner = commands_of_find(words).into_iter();
                    rest.iter().any(|word| word == "-delete")
                        || inner.any(|words| words.first().is_some_and(|first| program(first) == "rm"))
                };
                let starts = rest.iter().take_while(|word| !word.starts_with('-') || word.len() == 2);
                named("find") && starts.map(|word| Place::of(word)).any(Place::is_wide) && deletes()
            }
            Self::Synchronize => {
                let deletes = rest.iter().any(|word| word.starts_with("--del"));
                named("rsync") && deletes && operands().next_back().is_some_and(Place::is_wide)
            }
            Self::OverwriteDisk(name) => {
                let targets = match name {
                    // The source of a copy may be a disk.
                    "cp" | "mv" => rest.last().into_iter().collect::<Vec<_>>(),
                    _ => rest.iter().collect(),
                };
                named(name) && targets.into_iter().any(|word| is_disk(word))
            }
            Self::KillAll => named("kill") && matches!(rest, [.., _, last] if last == "-1"),
            Self::EraseDisk => {
                let erases = |word: &String| ERASES.iter().any(|verb| word.eq_ignore_ascii_case(verb));
                named("diskutil") && rest.first().is_some_and(erases)
            }
            Self::RedirectToDisk | Self::ForkBomb => false,
        }
    }
}

/// The place that a word of a command names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The root, a folder of the system, a home folder, or everything in one of these.
    Wide,
    /// Everything in the current folder or in one above it. `rm` itself refuses `.` and `..`.
    Here,
    Other,
}

impl Place {
    fn of(word: &str) -> Self {
        let (word, is_here) = (with_home(word), word.starts_with('$') || word.starts_with("~+"));
        let mut parts: Vec<&str> = Vec::new();
        for part in word.split('/') {
            match part {
                "" | "." => {}
                ".." if parts.last().is_some_and(|last| !matches!(*last, ".." | "~")) => drop(parts.pop()),
                ".." if word.starts_with('/') => {}
                part => parts.push(part),
            }
        }
        // Everything in a folder counts as the folder.
        let is_all = matches!(parts.last(), Some(&("*" | ".*" | "{*,.*}")));
        if is_all {
            parts.pop();
        }
        if word.starts_with('/') {
            return match parts.as_slice() {
                [] => Self::Wide,
                [one] if SYSTEM.contains(one) => Self::Wide,
                [above, _] if HOMES.contains(above) => Self::Wide,
                // Users own what they install there, but no one removes it as a whole.
                ["usr", "local"] => Self::Here,
                ["usr", _] => Self::Wide,
                _ => Self::Other,
            };
        }
        match parts.as_slice() {
            [home, rest @ ..] if is_home(home) && rest.iter().all(|part| *part == "..") => Self::Wide,
            parts if (is_all || is_here) && parts.iter().all(|part| *part == "..") => Self::Here,
            _ => Self::Other,
        }
    }

    fn is_wide(self) -> bool {
        self == Self::Wide
    }
}

/// Returns whether a part of a path stands for a home folder: `~` or `~name`.
fn is_home(part: &str) -> bool {
    part.strip_prefix('~')
        .is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))
}

/// Returns the operands of `mv` that are moved: all but the target.
fn moved(words: &[String]) -> Vec<&String> {
    let mut operands = Vec::new();
    let (mut has_target, mut is_target) = (false, false);
    for word in words {
        if std::mem::take(&mut is_target) {
            continue;
        }
        match word.strip_prefix("--") {
            Some(long) => {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                if !name.is_empty() && "target-directory".starts_with(name) {
                    (has_target, is_target) = (true, value.is_none());
                }
            }
            None if word.starts_with('-') => {
                // The value of `-t` is the rest of the word or the next word.
                if let Some((_, value)) = word.split_once('t').filter(|(before, _)| !before.contains('S')) {
                    (has_target, is_target) = (true, value.is_empty());
                }
            }
            None => operands.push(word),
        }
    }
    if !has_target {
        operands.pop();
    }
    operands
}

/// Replaces a variable at the beginning of a word by what it stands for.
fn with_home(word: &str) -> String {
    for (variable, place) in [("$HOME", "~"), ("${HOME}", "~"), ("$PWD", "."), ("${PWD}", "."), ("~+", ".")] {
        if let Some(rest) = word.strip_prefix(variable)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!("{place}{rest}");
        }
    }
    word.to_owned()
}

fn is_recursive(words: &[String]) -> bool {
    words.iter().any(|word| match word.strip_prefix("--") {
        Some(long) => !long.is_empty() && "recursive".starts_with(long),
        None => word.starts_with('-') && word.contains(['r', 'R']),
    })
}

fn is_disk(word: &str) -> bool {
    let path = plain_path(word);
    path.strip_prefix("/dev/").is_some_and(|name| DISKS.iter().any(|disk| name.starts_with(disk)))
}

/// Returns whether a word is a redirection to a disk. The target is in the same word or in the next one.
fn redirects_to_disk(words: &[String]) -> bool {
    words.iter().enumerate().any(|(at, word)| {
        word.rsplit_once('>').is_some_and(|(_, target)| {
            let target = target.trim_start_matches(['|', '&']);
            if target.is_empty() {
                words.get(at + 1).is_some_and(|next| is_disk(next))
            } else {
                is_disk(target)
            }
        })
    })
}

/// Returns whether the text without blanks contains a function that runs itself beside itself, such as `name(){name|name&}`.
fn has_fork_bomb(text: &str) -> bool {
    let by_parentheses = text.match_indices("(){").filter_map(|(at, opening)| {
        let (before, behind) = (text.get(..at)?, text.get(at + opening.len()..)?);
        let name = before.rsplit([';', '&', '|', '{', '}', '(', ')']).next()?;
        Some((name.strip_prefix("function").unwrap_or(name), behind))
    });
    let by_word = text.match_indices("function").filter_map(|(at, opening)| {
        let (name, behind) = text.get(at + opening.len()..)?.split_once('{')?;
        Some((name.strip_suffix("()").unwrap_or(name), behind))
    });
    by_parentheses.chain(by_word).any(|(name, behind)| !name.is_empty() && runs_twice(name, behind))
}

/// Returns whether a body begins with a command that runs beside the same command.
fn runs_twice(name: &str, body: &str) -> bool {
    let beside =
        |body: &str| ["|&", "|", "&"].iter().find_map(|sign| body.strip_prefix(sign).map(str::to_owned));
    let second = body.strip_prefix(name).and_then(beside);
    second.is_some_and(|second| {
        second
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['&', '|', ';', '}']))
    })
}
