//! File name patterns of `list_files` and `search`.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// A glob. Without a `/` it is compared with the file name, otherwise with the path relative to the searched
/// folder. `*` does not match a `/`, `**` does, and `{a,b}` matches either.
#[derive(Debug, Clone)]
pub(crate) struct NamePattern {
    matcher: GlobMatcher,
    whole_path: bool,
}

impl NamePattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, globset::Error> {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let matcher = GlobBuilder::new(pattern).literal_separator(true).build()?.compile_matcher();
        Ok(Self { matcher, whole_path: pattern.contains('/') })
    }

    /// Returns whether `path`, which must be below `folder`, matches.
    pub(crate) fn matches(&self, path: &Path, folder: &Path) -> bool {
        if self.whole_path {
            self.matcher.is_match(path.strip_prefix(folder).unwrap_or(path))
        } else {
            path.file_name().is_some_and(|name| self.matcher.is_match(name))
        }
    }
}
