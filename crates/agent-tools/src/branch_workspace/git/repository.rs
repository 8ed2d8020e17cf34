//! Finds the repository of a folder, and resolves names in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::BranchWorkspaceError;
use super::files::MAX_SETTINGS_BYTES;
use super::run::git;
use crate::bounded::{Bounded, BoundedFolder};
use crate::program::Program;

/// Settings of the repository and of the user that decide about the content of files and that name no program.
const SETTINGS: &str = "^core\\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|longpaths)$";

/// The entries of a git folder that must not be links, because they would show another repository.
const PLACES: [&str; 5] = ["HEAD", "objects", "packed-refs", "refs", "worktrees"];

/// The repository of an origin. Its folders were checked when it was found.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    /// The `git` that was found.
    pub(super) program: Program,
    /// The top of its files.
    pub(super) top: PathBuf,
    /// The origin, relative to it.
    pub(super) prefix: PathBuf,
    /// The folder in which git stores the repository.
    pub(super) common: PathBuf,
    /// The name of the hash function of its objects.
    pub(super) object_format: String,
    /// The allowed settings with their values.
    pub(super) settings: BTreeMap<String, String>,
    /// The user's own file of ignored names.
    pub(super) excludes: Option<String>,
}

impl Repository {
    pub(super) async fn of(program: &Program, origin: &Path) -> Result<Self, BranchWorkspaceError> {
        let parts = [
            "rev-parse",
            "--path-format=absolute",
            "--show-object-format",
            "--show-toplevel",
            "--git-dir",
            "--git-common-dir",
            "--show-prefix",
        ];
        let said = git(program, origin, &parts, &[]).await?;
        let mut lines = said.lines();
        let mut next = || lines.next().unwrap_or_default().to_owned();
        let object_format = next();
        let (top, own, common) = (PathBuf::from(next()), PathBuf::from(next()), PathBuf::from(next()));
        let prefix = PathBuf::from(next());
        let problem = place_problem(program, origin, &top.join(&prefix), &top, &own, &common).await;
        if let Some(reason) = problem {
            return Err(BranchWorkspaceError::Repository { path: origin.to_path_buf(), reason });
        }
        let settings = settings(program, &top).await;
        let excludes = ["config", "--global", "--type=path", "--get", "core.excludesFile"];
        let excludes = git(program, &top, &excludes, &[]).await.ok().filter(|path| !path.is_empty());
        Ok(Self { program: program.clone(), top, prefix, common, object_format, settings, excludes })
    }

    /// Resolves the name of a commit.
    pub(super) async fn commit(&self, name: &str) -> Result<String, BranchWorkspaceError> {
        let commit = format!("{name}^{{commit}}");
        let parts = ["rev-parse", "--verify", "--quiet", "--end-of-options", &commit];
        git(&self.program, &self.top, &parts, &[]).await.map_err(|error| match error {
            BranchWorkspaceError::Git { command, message } if message.is_empty() => {
                let message = format!("there is no commit {name}");
                BranchWorkspaceError::Git { command, message }
            }
            other => other,
        })
    }
}

/// Returns the values of the allowed settings. A value that is not a plain word is left out.
async fn settings(program: &Program, top: &Path) -> BTreeMap<String, String> {
    // An error means that none is set.
    let said = git(program, top, &["config", "--get-regexp", SETTINGS], &[]).await.unwrap_or_default();
    let plain = |value: &str| !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric());
    let pairs = said.lines().filter_map(|line| line.split_once(' '));
    pairs.filter(|(_, value)| plain(value)).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns why the repository is not that of the origin. The files of a repository can name any folder as its working
/// tree, its git folder or its common folder, and the branch would then show files of that folder.
async fn place_problem(
    program: &Program,
    origin: &Path,
    named: &Path,
    top: &Path,
    own: &Path,
    common: &Path,
) -> Option<&'static str> {
    if !is_same(origin, named) {
        return Some("its working tree is another folder");
    }
    let dot_git = top.join(".git");
    let kind = match std::fs::symlink_metadata(&dot_git) {
        Ok(metadata) => metadata.file_type(),
        Err(_) => return Some("it has no .git"),
    };
    let belongs = if kind.is_dir() {
        is_same(own, &dot_git) && is_same(own, common)
    } else if kind.is_file() {
        points_back(program, &dot_git, top, own, common).await
    } else {
        false
    };
    if !belongs {
        return Some("its .git leads to a git folder that does not lead back to it");
    }
    if PLACES.iter().any(|name| common.join(name).is_symlink()) {
        return Some("a part of its git folder is a symbolic link");
    }
    // The current commit of a worktree is not in a file there.
    common.join("reftable").exists().then_some("its references are in the format reftable")
}

/// Returns whether the git folder that a `.git` file names belongs to this working tree: that of a linked worktree names
/// the `.git` file, and that of a submodule names the working tree.
async fn points_back(program: &Program, dot_git: &Path, top: &Path, own: &Path, common: &Path) -> bool {
    if is_same(own, common) {
        let config = own.join("config");
        let parts = [
            "config".as_ref(),
            "--file".as_ref(),
            config.as_os_str(),
            "--get".as_ref(),
            "core.worktree".as_ref(),
        ];
        return git(program, top, &parts, &[]).await.is_ok_and(|tree| is_same(&own.join(tree), top));
    }
    let back = BoundedFolder::open(own).and_then(|own| own.read("gitdir", MAX_SETTINGS_BYTES));
    let back = back.map(Bounded::into_text).unwrap_or_default();
    own.parent().is_some_and(|above| is_same(above, &common.join("worktrees")))
        && is_same(&own.join(back.trim_end_matches(['\n', '\r'])), dot_git)
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (std::fs::canonicalize(one), std::fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
