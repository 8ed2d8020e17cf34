//! The one rule for all file tools: which paths they can list, read and write.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::PathError;
use crate::glob::{NamePattern, PatternError};

/// The purpose of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Showing the name.
    List,
    /// Showing content.
    Read,
    /// Changing content, or creating a file.
    Write,
}

/// The paths that are refused although they are inside of the root.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    protected: Vec<Protected>,
    denied: Vec<Denied>,
}

/// Who uses a protected path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsedBy {
    /// The program itself.
    Program,
    /// Git, as the data of a repository that has another name than `.git`.
    Git,
}

/// A file or folder that no tool accesses.
#[derive(Debug, Clone)]
struct Protected {
    real: PathBuf,
    folded: Vec<String>,
    used_by: UsedBy,
}

#[derive(Debug, Clone)]
struct Denied {
    text: String,
    pattern: NamePattern,
}

impl Rules {
    pub(super) fn protect(&mut self, real: PathBuf, used_by: UsedBy) {
        let folded = folded(&real).collect();
        self.protected.push(Protected { real, folded, used_by });
    }

    pub(super) fn deny(&mut self, pattern: &str) -> Result<(), PatternError> {
        self.denied.push(Denied { text: pattern.to_owned(), pattern: NamePattern::of_any_case(pattern)? });
        Ok(())
    }

    /// Returns the rules for a folder `to` that stands for the folder `from`: what is protected in one is protected in both.
    pub(super) fn moved(&self, from: &Path, to: &Path) -> Self {
        let mut rules = self.clone();
        for protected in &self.protected {
            if let Ok(below) = protected.real.strip_prefix(from) {
                rules.protect(to.join(below), protected.used_by);
            }
        }
        rules
    }

    /// Returns the paths that the program uses itself.
    pub(super) fn protected(&self) -> impl Iterator<Item = &Path> {
        let own = self.protected.iter().filter(|protected| protected.used_by == UsedBy::Program);
        own.map(|protected| protected.real.as_path())
    }

    /// Returns who uses an absolute path without symlinks, if no tool accesses it.
    pub(super) fn find_user(&self, real: &Path) -> Option<UsedBy> {
        self.protected.iter().find(|protected| protected.contains(real)).map(|protected| protected.used_by)
    }

    /// Checks a path without symlinks: `real` is absolute, and `below` is the same relative to the root.
    pub(super) fn check(
        &self,
        real: &Path,
        below: &Path,
        intent: Intent,
        named: &str,
    ) -> Result<(), PathError> {
        match self.find_user(real) {
            Some(UsedBy::Program) => return Err(PathError::Protected { path: named.to_owned() }),
            Some(UsedBy::Git) => return Err(PathError::Repository { path: named.to_owned() }),
            None if below.iter().any(is_repository) => {
                return Err(PathError::Repository { path: named.to_owned() });
            }
            None => {}
        }
        if intent == Intent::Write && below.iter().any(is_settings) {
            return Err(PathError::Settings { path: named.to_owned() });
        }
        if intent != Intent::List
            && let Some(denied) = self.denied.iter().find(|denied| denied.pattern.covers(below))
        {
            return Err(PathError::Denied { path: named.to_owned(), pattern: denied.text.clone() });
        }
        Ok(())
    }
}

impl Protected {
    fn contains(&self, real: &Path) -> bool {
        let mut parts = folded(real);
        self.folded.iter().all(|part| parts.next().as_ref() == Some(part))
    }
}

/// Returns the parts of a path in lower case. Two names that differ in case only can be the same file.
fn folded(path: &Path) -> impl Iterator<Item = String> {
    path.iter().map(|part| part.to_string_lossy().to_lowercase())
}

/// Returns whether a file system can take the name for `.git`. These are the names that git itself does not check out.
pub(crate) fn is_repository(name: &OsStr) -> bool {
    is_spelling_of(name, ".git", "git~1")
}

/// Returns whether a file system can take the name for `.looptree`, the folder with the settings of a project.
pub(crate) fn is_settings(name: &OsStr) -> bool {
    is_spelling_of(name, ".looptree", "looptr~1")
}

/// Returns whether a file system can take the name for another: in any case, with code points that HFS+ ignores, and with the
/// endings and the short name of Windows.
fn is_spelling_of(name: &OsStr, full: &str, short: &str) -> bool {
    let name = name.to_string_lossy();
    // Cheap for nearly all names.
    let first = short.chars().next();
    if name.is_ascii()
        && !name.starts_with('.')
        && name.chars().next().map(|c| c.to_ascii_lowercase()) != first
    {
        return false;
    }
    let ignored = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name: String = name.chars().filter(|c| !ignored(*c)).flat_map(char::to_lowercase).collect();
    let name = name.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    name == full || name == short
}
