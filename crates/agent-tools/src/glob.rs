//! File name patterns, as `list_files` and `search` take them.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// A pattern. Without a `/` it is compared with the file name, with one it is compared with the path below the
/// folder that is walked. `*` does not cross a `/`, `**` does, `{a,b}` is either.
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

    /// Whether `path`, which lies below `folder`, fits.
    pub(crate) fn fits(&self, path: &Path, folder: &Path) -> bool {
        if self.whole_path {
            self.matcher.is_match(path.strip_prefix(folder).unwrap_or(path))
        } else {
            path.file_name().is_some_and(|name| self.matcher.is_match(name))
        }
    }
}
