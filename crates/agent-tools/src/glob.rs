//! File name patterns, and the limits that every pattern has.
//!
//! The tools [`list_files`](crate::list_files) and [`search`](crate::search) and
//! [`Workspace::with_denied`](crate::Workspace::with_denied) take globs. `*` does not match a `/`, `**` does, `{a,b}` matches
//! either, and a pattern without a `/` is compared with names instead of paths. A pattern over a limit is an error, because
//! the compiler of globs recurses over nested groups.
//!
//! ```
//! use agent_tools::{PatternError, Workspace};
//! let error = Workspace::unconfined().with_denied("{".repeat(20_000)).unwrap_err();
//! assert!(matches!(error, PatternError::TooLong { .. }));
//! let error = Workspace::unconfined().with_denied("{".repeat(20)).unwrap_err();
//! assert_eq!(error, PatternError::TooManyGroups { groups: 20 });
//! ```

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// The maximum length of a pattern: 4 KiB.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// The maximum number of groups (`{`) in a pattern, and therefore of groups that are nested in each other.
pub const MAX_PATTERN_GROUPS: usize = 16;

/// The maximum number of commas in a pattern, and therefore about the number of alternatives in its groups.
pub const MAX_PATTERN_COMMAS: usize = 256;

/// The reason why a pattern was refused. The texts are written for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern is longer than [`MAX_PATTERN_BYTES`].
    #[error("it has {bytes} bytes, at most {MAX_PATTERN_BYTES} are allowed; use a shorter pattern")]
    TooLong {
        /// The length of the pattern.
        bytes: usize,
    },
    /// The pattern has more than [`MAX_PATTERN_GROUPS`] groups.
    #[error(
        "it has {groups} groups with braces, at most {MAX_PATTERN_GROUPS} are allowed; use several patterns"
    )]
    TooManyGroups {
        /// The number of opening braces.
        groups: usize,
    },
    /// The pattern has more than [`MAX_PATTERN_COMMAS`] commas.
    #[error("it has {commas} commas, at most {MAX_PATTERN_COMMAS} are allowed; use several patterns")]
    TooManyAlternatives {
        /// The number of commas.
        commas: usize,
    },
    /// The pattern is not a glob.
    #[error(transparent)]
    Invalid(#[from] globset::Error),
}

/// Checks the limits of a pattern. Escapes and classes are not taken into account, so no spelling evades the count.
pub(crate) fn check_limits(pattern: &str) -> Result<(), PatternError> {
    let count = |wanted: u8| pattern.bytes().filter(|byte| *byte == wanted).count();
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(PatternError::TooLong { bytes: pattern.len() });
    }
    let (groups, commas) = (count(b'{'), count(b','));
    if groups > MAX_PATTERN_GROUPS {
        return Err(PatternError::TooManyGroups { groups });
    }
    if commas > MAX_PATTERN_COMMAS {
        return Err(PatternError::TooManyAlternatives { commas });
    }
    Ok(())
}

/// A glob. Without a `/` it is compared with the file name, otherwise with the path relative to the searched
/// folder. `*` does not match a `/`, `**` does, and `{a,b}` matches either.
#[derive(Debug, Clone)]
pub(crate) struct NamePattern {
    matcher: GlobMatcher,
    whole_path: bool,
}

impl NamePattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, PatternError> {
        check_limits(pattern)?;
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let matcher = GlobBuilder::new(pattern).literal_separator(true).build()?.compile_matcher();
        Ok(Self { matcher, whole_path: pattern.contains('/') })
    }

    /// Compiles a pattern that ignores case, because the file system may ignore it. A `/` at the beginning stands for the
    /// root, and one at the end has no meaning.
    pub(crate) fn of_any_case(pattern: &str) -> Result<Self, PatternError> {
        check_limits(pattern)?;
        let inner = pattern.strip_prefix("./").unwrap_or(pattern);
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let whole_path = inner.contains('/');
        let inner = inner.strip_prefix('/').unwrap_or(inner);
        let glob = GlobBuilder::new(inner).literal_separator(true).case_insensitive(true).build()?;
        Ok(Self { matcher: glob.compile_matcher(), whole_path })
    }

    /// Returns whether `below`, which is relative to the folder of the pattern, matches.
    pub(crate) fn matches(&self, below: &Path) -> bool {
        if self.whole_path {
            self.matcher.is_match(below)
        } else {
            below.file_name().is_some_and(|name| self.matcher.is_match(name))
        }
    }

    /// Returns whether `below` or one of the folders above it matches.
    pub(crate) fn covers(&self, below: &Path) -> bool {
        below.ancestors().any(|part| self.matches(part))
    }
}
