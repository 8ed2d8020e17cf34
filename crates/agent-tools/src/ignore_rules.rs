//! The rules of `.gitignore` and `.ignore` files, read by descriptor and with limits.

use std::io::{self, Read as _};
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::dir::{Dir, Item, Kind};
use crate::glob::check_limits;

/// The part of an ignore file that is read: its first 64 KiB.
pub(crate) const MAX_FILE_BYTES: u64 = 64 * 1024;

/// The maximum length of a rule. A longer line is skipped.
pub(crate) const MAX_LINE_BYTES: usize = 512;

/// The maximum number of rules of one file. Further lines are skipped.
pub(crate) const MAX_RULES: usize = 2_000;

/// The maximum size of all ignore files that apply to one path, because compiled rules take a multiple of their size:
/// 128 KiB.
pub(crate) const MAX_TOTAL_BYTES: u64 = 128 * 1024;

/// What a walk has read of ignore files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    /// The number of bytes that can still be read.
    room: u64,
    /// The number of lines that have no effect, because they exceed a limit.
    pub(crate) skipped: usize,
}

impl Default for Tally {
    fn default() -> Self {
        Self { room: MAX_TOTAL_BYTES, skipped: 0 }
    }
}

impl Tally {
    /// Makes room for other rules, because these do not apply any more.
    pub(crate) fn leave(&mut self, rules: Option<&FolderRules>) {
        self.room += rules.map_or(0, |rules| rules.bytes);
    }
}

/// The rules of one folder, for paths below it.
#[derive(Debug, Clone)]
pub(crate) struct FolderRules {
    bytes: u64,
    ignore: Gitignore,
    gitignore: Gitignore,
    exclude: Gitignore,
}

/// The three kinds of rules. Each kind is decided by the innermost folder, and the first kind that decides counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// `.ignore`.
    Ignore,
    /// `.gitignore`.
    Gitignore,
    /// `.git/info/exclude`.
    Exclude,
}

impl Source {
    const ALL: [Self; 3] = [Self::Ignore, Self::Gitignore, Self::Exclude];

    fn path(self) -> &'static str {
        match self {
            Self::Ignore => ".ignore",
            Self::Gitignore => ".gitignore",
            Self::Exclude => ".git/info/exclude",
        }
    }

    fn rules(self, of: &FolderRules) -> &Gitignore {
        match self {
            Self::Ignore => &of.ignore,
            Self::Gitignore => &of.gitignore,
            Self::Exclude => &of.exclude,
        }
    }
}

impl FolderRules {
    /// Reads the rules of the folder `below`, and returns `None` if there are none. `items` are the entries of the folder, if they are known. A file that cannot be read, or is a symlink, has
    /// no effect, as in git.
    pub(crate) fn read(dir: &Dir, below: &Path, items: Option<&[Item]>, tally: &mut Tally) -> Option<Self> {
        let room = tally.room;
        let mut read = |source: Source| {
            let first = source.path().split('/').next().unwrap_or_default();
            let may_exist = items.is_none_or(|items| {
                items.iter().any(|item| item.name == first && matches!(item.kind, Kind::File | Kind::Folder))
            });
            if !may_exist {
                return Gitignore::empty();
            }
            rules_of(dir, &below.join(source.path()), tally).unwrap_or_else(|_| Gitignore::empty())
        };
        let [ignore, gitignore, exclude] = Source::ALL.map(&mut read);
        let rules = Self { bytes: room - tally.room, ignore, gitignore, exclude };
        if Source::ALL.iter().any(|source| !source.rules(&rules).is_empty()) {
            return Some(rules);
        }
        tally.leave(Some(&rules));
        None
    }
}

/// Returns whether the rules exclude a path. `levels` are the rules of the folders above it with the path of each folder,
/// from the outermost to the innermost.
pub(crate) fn is_ignored<'a>(
    levels: &(impl DoubleEndedIterator<Item = (&'a Path, &'a FolderRules)> + Clone),
    below: &Path,
    kind: Kind,
) -> bool {
    for source in Source::ALL {
        for (folder, rules) in levels.clone().rev() {
            let path = below.strip_prefix(folder).unwrap_or(below);
            match source.rules(rules).matched(path, kind == Kind::Folder) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
    }
    false
}

/// Reads one file of rules for paths relative to its folder.
pub(crate) fn rules_of(dir: &Dir, file: &Path, tally: &mut Tally) -> io::Result<Gitignore> {
    let (file, facts) = dir.open_file(file)?;
    let limit = MAX_FILE_BYTES.min(tally.room);
    let mut bytes = Vec::new();
    let read = file.take(limit).read_to_end(&mut bytes)?;
    tally.room = tally.room.saturating_sub(read as u64);
    Ok(compile(&bytes, facts.bytes > limit, &mut tally.skipped))
}

/// Compiles the rules within the limits. The last line is incomplete if the file `is_cut`.
fn compile(bytes: &[u8], is_cut: bool, skipped: &mut usize) -> Gitignore {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let bytes = if is_cut {
        *skipped += 1;
        bytes.get(..memchr::memrchr(b'\n', bytes).unwrap_or_default()).unwrap_or_default()
    } else {
        bytes
    };
    let mut builder = GitignoreBuilder::new("");
    let mut rules = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let within = rules < MAX_RULES && line.len() <= MAX_LINE_BYTES;
        match std::str::from_utf8(line) {
            Ok(line) if within && check_limits(line).is_ok() => {
                // A line that is not a glob has no effect.
                drop(builder.add_line(None, line));
                rules += 1;
            }
            Ok(_) | Err(_) => *skipped += 1,
        }
    }
    builder.build().unwrap_or_else(|_| {
        // Together, the rules need more memory than the compiler of globs allows.
        *skipped += rules;
        Gitignore::empty()
    })
}
