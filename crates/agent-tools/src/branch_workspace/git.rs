//! Git worktrees, through the `git` program.
//!
//! The repository is not trusted, and a command of an agent can change its configuration. Git would run
//! programs that the configuration names: filters, hooks, a file system monitor. Two rules prevent that. Commands that
//! read or write files run in a git folder of our own, which has the objects of the repository and nothing else of it.
//! The remaining commands, which resolve names and read settings, run no programs and cannot find any.

mod administration;
mod files;
mod own_folder;
mod repository;
mod run;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::BranchWorkspaceError;
use crate::dir::Dir;
use crate::program::Program;
use administration::Administration;
use own_folder::OwnFolder;
use repository::Repository;

/// The name of the worktree's folder in the folder that was made for it.
const TREE: &str = "tree";

/// The content with which a worktree starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WorktreeStart {
    /// The last commit, without uncommitted changes. This is the default.
    #[default]
    Head,
    /// This commit, given by any name that git accepts.
    Commit(String),
    /// The current files except ignored ones. Git stores them as a commit without a branch, which it removes some weeks
    /// later. The index and the working tree do not change.
    WorkingTree,
}

/// A worktree. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Worktree {
    folder: Option<TempDir>,
    /// The origin, relative to the top of its repository.
    prefix: PathBuf,
    administration: Option<Administration>,
}

impl Worktree {
    pub(super) async fn add(
        program: &Program,
        origin: &Path,
        start: &WorktreeStart,
        folder: TempDir,
    ) -> Result<Self, BranchWorkspaceError> {
        let place = origin.to_path_buf();
        super::blocking(move || files::check_repository(&place)).await?;
        let repository = Repository::of(program, origin).await?;
        if *start == WorktreeStart::WorkingTree {
            let top = repository.top.clone();
            super::blocking(move || files::check_tree(&top)).await?;
        }
        let own = OwnFolder::new(folder.path(), &repository)?;
        let commit = match start {
            WorktreeStart::Head => repository.commit("HEAD").await?,
            WorktreeStart::Commit(name) => repository.commit(name).await?,
            WorktreeStart::WorkingTree => own.commit_files(&repository).await?,
        };
        let mut tree = Self { folder: Some(folder), prefix: repository.prefix.clone(), administration: None };
        let at = tree.folder();
        std::fs::create_dir(&at).map_err(|e| BranchWorkspaceError::io("made", &at, e))?;
        own.check_out(&commit, &at).await?;
        let administration = Administration::add(&repository.common, &at, &commit, own.index())?;
        tree.administration = Some(administration);
        own.remove()?;
        let root = tree.root();
        // The origin may not be in this commit, or the commit may have a symlink in its place.
        let made = Dir::open(&at).and_then(|dir| dir.create_dirs(&tree.prefix));
        made.map_err(|e| BranchWorkspaceError::io("made", &root, e))?;
        Ok(tree)
    }

    fn folder(&self) -> PathBuf {
        self.folder.as_ref().map(|f| f.path().join(TREE)).unwrap_or_default()
    }

    /// Returns the path of the origin in the worktree.
    pub(super) fn root(&self) -> PathBuf {
        self.folder().join(&self.prefix)
    }

    #[allow(clippy::unused_async, reason = "the removal of a copy is asynchronous")]
    pub(super) async fn remove(mut self) -> Result<(), BranchWorkspaceError> {
        let Some(folder) = self.folder.take() else { return Ok(()) };
        let path = folder.path().to_path_buf();
        folder.close().map_err(|e| BranchWorkspaceError::io("removed", &path, e))?;
        match self.administration.take() {
            Some(administration) => administration.remove(),
            None => Ok(()),
        }
    }

    pub(super) fn keep(mut self) {
        self.administration = None;
        if let Some(folder) = self.folder.take() {
            drop(folder.keep());
        }
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        let Some(folder) = self.folder.as_ref() else { return };
        // If files cannot be removed, git's data about the worktree remains as well.
        if std::fs::remove_dir_all(folder.path().join(TREE)).is_ok()
            && let Some(administration) = self.administration.take()
        {
            drop(administration.remove());
        }
    }
}
