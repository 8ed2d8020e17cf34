//! The programs that this program starts outside of a sandbox.

use std::path::{Path, PathBuf};

use looptree::tools::program::SearchPath;

use crate::settings::Settings;

/// Returns the folders that commands of the model can write to: the directory of the task, and what the settings add.
pub(crate) fn writable(settings: &Settings, root: &Path) -> Vec<PathBuf> {
    let more = settings.sandbox_write.value.iter().flatten().cloned();
    std::iter::once(root.to_path_buf()).chain(more).collect()
}

/// Returns the folders of `PATH` in which programs are looked up.
pub(crate) fn search_path(settings: &Settings, root: &Path) -> SearchPath {
    SearchPath::outside(writable(settings, root))
}
